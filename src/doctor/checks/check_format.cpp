#include "doctor/checks/check_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace hone::doctor::format {

namespace {

constexpr std::array kGoldNames = {"answer", "solution", "ground_truth", "gold", "target", "label"};

constexpr std::size_t kRowsOfNames = 256;

std::string formatted(const char* format, double value) {
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), format, value);
  return out.data();
}

}  // namespace

std::string percent(double part, double whole) {
  const double value = whole > 0 ? 100 * part / whole : 0;
  // Neither all nor nothing is said of what is nearly so.
  if (value > 0 && value < 0.1) return "below 0.1 %";
  if (value > 99.9 && value < 100) return "above 99.9 %";
  return formatted(value == std::floor(value) || value >= 99.5 ? "%.0f" : "%.1f", value) + " %";
}

std::string number(double value) {
  const bool whole = value == std::floor(value) && std::fabs(value) < 1e7;
  return formatted(whole ? "%.0f" : "%.3g", value);
}

std::string token(const text::Tokenizer& tokenizer, std::int64_t id) {
  const std::string text = tokenizer.id_to_token(static_cast<std::int32_t>(id)).value_or("?");
  return "`" + shown(text) + "` (id " + std::to_string(id) + ")";
}

std::string shown(std::string_view text, std::size_t most) {
  std::string out;
  for (const char each : text) {
    const bool begins = (static_cast<unsigned char>(each) & 0xC0U) != 0x80U;  // a character, not its middle
    if (begins && out.size() >= most) return out + "...";
    if (each == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(each) < 0x20 || each == 0x7F) {
      out += ' ';
    } else {
      out += each;
    }
  }
  return out;
}

std::string resolved(const config::Plan& plan, std::string_view option) {
  for (const auto& [name, value] : plan.resolved) {
    if (name == option) return value;
  }
  return {};
}

std::string raise_max_length(const train::RunView& run, std::int64_t wanted, std::int64_t longest,
                             std::string_view keeps) {
  const std::string longest_row = "the longest has " + counted(longest, "token");
  const std::int64_t positions = run.model ? run.model->config().max_position_embeddings : 0;
  if (positions <= 0 || wanted <= positions)
    return "max_length: " + std::to_string(wanted) + "  (" + std::string(keeps) + "; " + longest_row + ")";
  const std::string split = "split or leave out the rows that are longer than this model's " +
                            std::to_string(positions) + " positions: " + longest_row;
  if (run.plan.max_length >= positions) return split;
  return "max_length: " + std::to_string(positions) + ", the model's positions; " + split;
}

std::string gold_column(const train::PolicyPrompts& prompts) {
  const std::size_t looked = std::min(prompts.rows.size(), kRowsOfNames);
  for (const char* const name : kGoldNames) {
    for (std::size_t i = 0; i < looked; ++i) {  // rows of another task may have none
      const base::Json& columns = prompts.rows[i].columns;
      if (columns.contains(name) && !columns.at(name).is_null()) return name;
    }
  }
  return {};
}

bool is_gold_name(const std::string& column) {
  return std::find(kGoldNames.begin(), kGoldNames.end(), column) != kGoldNames.end();
}

std::optional<std::string> column_text(const base::Json& columns, const std::string& name) {
  if (!columns.contains(name) || columns.at(name).is_null()) return std::nullopt;
  const base::Json& value = columns.at(name);
  return value.is_string() ? value.get<std::string>() : base::dump_json(value);
}

}  // namespace hone::doctor::format
