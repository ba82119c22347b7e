#include "config/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json_tools.h"
#include "config/size.h"

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

Option Option::bound(Kind type, std::string text, Binding field) const {
  Option row = *this;
  row.kind = type;
  row.default_text = std::move(text);
  row.binding = std::move(field);
  return row;
}

Option Option::defaults(std::string_view text) const {
  Option row = *this;
  row.default_text = text;
  return row;
}

Option Option::or_null() const {
  return defaults("null");
}

Option Option::whole(Kind type) const {
  Option row = defaults(std::string_view(default_text).substr(0, default_text.find('.')));
  row.kind = type;
  return row;
}

Option Option::ignored(std::string_view why) const {
  Option row = *this;
  row.option_class = OptionClass::kIgnored;
  row.reason = why;
  return row;
}

Option Option::refused(std::string_view why) const {
  Option row = *this;
  row.option_class = OptionClass::kRefused;
  row.reason = why;
  return row;
}

Option Option::choice(std::string_view supported, std::string_view same, std::string_view later,
                      std::string_view why) const {
  Option row = refusing(later, why.empty() ? reason : why);
  row.kind = Kind::kChoice;
  row.values = supported;
  row.same_values = same;
  return row;
}

Option Option::refusing(std::string_view later, std::string_view why) const {
  Option row = *this;
  row.not_yet = later;
  row.reason = why;
  return row;
}

Option Option::within(Range bounds) const {
  Option row = *this;
  row.range = bounds;
  return row;
}

Option Option::null_too() const {
  Option row = *this;
  row.may_be_null = true;
  return row;
}

Option Option::repeats() const {
  Option row = defaults("[]");
  row.repeatable = true;
  return row;
}

Option Option::under(std::string_view heading) const {
  Option row = *this;
  row.group = heading;
  return row;
}

Option Option::of(std::string_view method_names) const {
  Option row = *this;
  row.methods = method_names;
  return row;
}

Option Option::in(std::string_view method_names, const Change& change) const {
  Option row = *this;
  row.changes.emplace_back(method_names, change);
  return row;
}

Option Option::formerly(std::string_view names) const {
  Option row = *this;
  row.former = names;
  return row;
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
