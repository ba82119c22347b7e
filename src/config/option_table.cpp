#include "config/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json_tools.h"
#include "config/reading/size.h"

namespace hone::config {

std::string number_text(double value) {
  std::string text = base::dump_json(base::Json(value));
  const std::size_t exponent = text.find("e-0");
  return exponent == std::string::npos ? text : text.erase(exponent + 2, 1);
}

std::string json_string(std::string_view text) {
  return base::dump_json(base::Json(text));
}

std::int64_t bytes_of(const base::Json& value, const std::string& where) {
  return size_in_bytes(value.is_null() ? std::string() : value.get<std::string>(), where);
}

bool Range::holds(double value) const {
  const bool low = least_open ? value > least : value >= least;
  const bool high = most_open ? value < most : value <= most;
  return low && high;
}

std::string Range::describe() const {
  const bool low = std::isfinite(least);
  const bool high = std::isfinite(most);
  if (low && high)
    return fmt::format("{} {} {} {}", least_open ? "above" : "from", least, most_open ? "to below" : "to",
                       most);
  if (low) return fmt::format("{} {}", least_open ? "above" : "at least", least);
  if (high) return fmt::format("{} {}", most_open ? "below" : "at most", most);
  return "";
}

void Option::set(Kind type) {
  kind = type;
  if (type == Kind::kInt) set(kWhole);
}

void Option::set(Trait trait) {
  may_be_null = may_be_null || trait == kNullToo;
  repeatable = repeatable || trait == kRepeats;
  is_named = is_named || trait == kNamedValues;
  if (trait == kRepeats) default_text = "[]";
  if (trait == kWhole) default_text = default_text.substr(0, default_text.find('.'));
}

Option Option::changed_for(std::string_view method) const {
  Option row = *this;
  row.changes.clear();
  const auto replace = [](auto& text, std::string_view other) {
    if (!other.empty()) text = other;
  };
  for (const auto& [names, change] : changes) {
    if (!contains_word(names, method)) continue;
    replace(row.default_text, change.default_text);
    replace(row.meaning, change.meaning);
    replace(row.group, change.group);
    replace(row.origin, change.origin);
    if (change.option_class || !change.values.empty())
      row.not_yet = change.not_yet, row.reason = change.reason;
    replace(row.values, change.values);
    replace(row.reason, change.reason);
    row.option_class = change.option_class.value_or(row.option_class);
    row.may_be_null = change.null_too.value_or(row.may_be_null);
    // Every value has the same answer.
    if (row.option_class != OptionClass::kSupported && row.kind == Kind::kChoice)
      row.kind = Kind::kString, row.values = {};
  }
  return row;
}

base::Json Option::default_value() const {
  return base::Json::parse(default_text);
}

const Option* Schema::find(std::string_view name) const {
  const auto row =
      std::find_if(options.begin(), options.end(), [&](const Option& o) { return o.name == name; });
  return row == options.end() ? nullptr : &*row;
}

std::vector<std::string> Schema::names() const {
  std::vector<std::string> out;
  for (const Option& option : options) out.emplace_back(option.name);
  return out;
}

void add(std::vector<Option>& rows, const Block& block, const std::vector<Option>& more) {
  for (Option row : more) {
    row.group = block.group;
    row.origin = block.origin;
    if (row.methods == kAll) row.methods = block.methods;
    rows.push_back(std::move(row));
  }
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" ,", at), text.size());
    if (end > at) out.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

bool contains_word(std::string_view words, std::string_view word) {
  if (words == kAll) return true;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find_first_of(" ,", at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

std::string_view kind_name(Kind kind) {
  constexpr std::array<std::string_view, 9> kWords = {"bool", "int", "float", "string", "choice",
                                                      "list", "map", "ids",   "any"};
  return kWords.at(static_cast<std::size_t>(kind));
}

std::string_view option_class_name(OptionClass option_class) {
  constexpr std::array<std::string_view, 3> kWords = {"supported", "ignored", "refused"};
  return kWords.at(static_cast<std::size_t>(option_class));
}

}  // namespace hone::config
