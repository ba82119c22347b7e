#include "config/reading/difference.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/option_secrets.h"
#include "config/option_table.h"

namespace hone::config {

namespace {

std::optional<base::Json> set_value(const Settings& settings, const Option& option) {
  return settings.is_set(option.name) ? std::optional(settings.value(option.name)) : std::nullopt;
}

std::string yaml_line(const std::string& name, const base::Json& value) {
  return fmt::format("{}: {}\n", name, yaml_text(value));
}

}  // namespace

std::vector<OptionDifference> differences(const Settings& good, const Settings& bad,
                                          const std::vector<std::string>& leave_out) {
  std::vector<OptionDifference> out;
  for (const Option& option : good.schema().options) {
    if (std::find(leave_out.begin(), leave_out.end(), option.name) != leave_out.end()) continue;
    if (good.value(option.name) == bad.value(option.name)) continue;
    out.push_back(
        {.name = std::string(option.name), .good = set_value(good, option), .bad = set_value(bad, option)});
  }
  return out;
}

std::string mixed_yaml(const Settings& good, const std::vector<OptionDifference>& differences,
                       const std::vector<std::size_t>& from_bad) {
  std::string out;
  for (const Option& option : good.schema().options) {
    const std::string name(option.name);
    std::optional<base::Json> value = set_value(good, option);
    for (const std::size_t i : from_bad) {
      if (differences[i].name == name) value = differences[i].bad;
    }
    if (value) out += yaml_line(name, *value);
  }
  return out;
}

std::string difference_lines(const OptionDifference& difference) {
  const auto line = [&](char sign, const std::optional<base::Json>& value) {
    return value ? sign + yaml_line(difference.name, redact_secrets(difference.name, *value))
                 : fmt::format("{}# {} is not set\n", sign, difference.name);
  };
  return line('-', difference.good) + line('+', difference.bad);
}

}  // namespace hone::config
