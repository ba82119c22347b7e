#include "report/page/read_metrics.h"

#include <cmath>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"

namespace hone::report {

using base::Json;

namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kMostStep = 1e15;

// A NaN is null in the file.
double number_or_nan(const Json& value) {
  return value.is_number() ? value.get<double>() : kNoNumber;
}

bool is_run_end(const Json& record) {
  return record.contains("train_runtime");
}

std::string with_whole_characters(std::string_view text) {
  if (base::bad_utf8_at(text) == std::string_view::npos) return std::string(text);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = base::utf8_size(text, at);
    out += size == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(at, size);
    at += size == 0 ? 1 : size;
  }
  return out;
}

}  // namespace

Json read_record(std::string_view line) {
  try {
    Json out = base::parse_json(with_whole_characters(line), "");
    return out.is_object() ? out : Json();
  } catch (const base::UserError&) {
    return {};
  }
}

const Series* RunMetrics::find(std::string_view name) const {
  for (const auto& [own, values] : series) {
    if (own == name) return &values;
  }
  return nullptr;
}

void MetricsReader::add(const std::string& name, std::int64_t step, double value) {
  const auto [found, is_new] = index_.try_emplace(name, metrics_.series.size());
  if (is_new) metrics_.series.emplace_back(name, Series());
  metrics_.series[found->second].second.add(step, value);
}

void MetricsReader::take_performance(const Json& block, std::int64_t step) {
  const double steps = block.contains("steps") ? std::max(1.0, number_or_nan(block["steps"])) : 1;
  const auto seconds_of = [&block](const char* name) {
    const double value = block.contains(name) ? number_or_nan(block[name]) : 0;
    return std::isfinite(value) ? value : 0;
  };
  const double seconds = seconds_of("seconds"), rate = seconds_of("tokens_per_second");
  metrics_.step_seconds += seconds;
  metrics_.evaluation_seconds += seconds_of("evaluation_seconds");
  metrics_.save_seconds += seconds_of("save_seconds");
  metrics_.tokens += rate * seconds;
  metrics_.token_seconds += seconds;
  for (const auto& [name, value] : block.items()) {
    if (name == "steps") continue;
    const bool is_time = name == "seconds" || name.ends_with("_seconds");
    const bool of_all_steps = is_time && name != "evaluation_seconds" && name != "save_seconds";
    add(std::string(kPerformancePrefix) + name, step, number_or_nan(value) / (of_all_steps ? steps : 1));
  }
}

void MetricsReader::take_numbers(const Json& record, std::int64_t step) {
  for (const auto& [name, value] : record.items()) {
    if (name == "step" || name == "epoch") continue;
    if (name == "performance") {
      if (value.is_object()) take_performance(value, step);
    } else if (value.is_number() || value.is_null()) {
      add(name, step, number_or_nan(value));
    }
  }
}

void MetricsReader::take_line(const std::string& line) {
  const Json record = read_record(line);
  const bool has_step = record.is_object() && record.contains("step") && record["step"].is_number();
  const double at = has_step ? record["step"].get<double>() : -1;
  if (at < static_cast<double>(metrics_.last_step) || at > kMostStep) {
    ++metrics_.skipped;
    return;
  }
  const auto step = static_cast<std::int64_t>(at);
  ++metrics_.lines;
  metrics_.last_step = step;
  if (record.contains("epoch") && record["epoch"].is_number())
    metrics_.last_epoch = record["epoch"].get<double>();
  if (is_run_end(record)) {
    metrics_.end = record;
  } else {
    metrics_.end = nullptr;
    take_numbers(record, step);
  }
}

const RunMetrics& MetricsReader::read() {
  std::ifstream file(path_, std::ios::binary);
  if (!file) {
    throw base::UserError({.where = path_.string(),
                           .expected = "the metrics of a run",
                           .found = base::fs::exists(path_) ? "it cannot be read" : "no such file",
                           .cause = "",
                           .fix = "name the output_dir of a run of hone that has logged a step"});
  }
  file.seekg(0, std::ios::end);
  const auto size = static_cast<std::uintmax_t>(file.tellg());
  if (size < read_to_) {
    metrics_ = {};
    index_.clear();
    read_to_ = 0;
  }
  file.seekg(static_cast<std::streamoff>(read_to_));
  metrics_.unfinished = false;
  for (std::string line; std::getline(file, line);) {
    metrics_.unfinished = file.eof();
    if (metrics_.unfinished) break;
    if (line.find_first_not_of(" \t\r") != std::string::npos) take_line(line);
    // The record of the run's end is removed when the run is continued: it is read again next time.
    if (!metrics_.end.is_null()) {
      if (file.peek() == std::ifstream::traits_type::eof()) {
        --metrics_.lines;
        break;
      }
    }
    read_to_ += line.size() + 1;
  }
  return metrics_;
}

}  // namespace hone::report
