// Command line -> Settings, by the rules of HfArgumentParser.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/strings/utf8.h"
#include "config/settings.h"

namespace hone::config {
namespace {

using base::Json;

struct Argument {
  std::string name;  // underscores, no leading dashes
  std::vector<std::string> values;
};

std::vector<Argument> split_arguments(const std::vector<std::string>& words, const Schema& schema) {
  std::vector<Argument> out;
  for (std::size_t at = 0; at < words.size();) {
    const std::string& word = words[at++];
    if (!is_option_word(word) || !word.starts_with("--")) {
      const bool yaml = word.ends_with(".yaml") || word.ends_with(".yml");
      if (yaml && out.empty()) {  // hone sft run.yaml
        out.push_back({.name = "config", .values = {word}});
        continue;
      }
      throw base::UserError({.where = "command line",
                             .expected = "an option such as --output_dir",
                             .found = fmt::format("'{}'", base::cut_text(word, 200)),
                             .fix = yaml ? fmt::format("write --config {}", word)
                                         : fmt::format("`hone {} --help` shows the form", schema.command)});
    }
    Argument argument;
    const std::size_t equals = word.find('=');
    argument.name = option_name(word);
    if (equals != std::string::npos) argument.values.push_back(word.substr(equals + 1));
    while (equals == std::string::npos && at < words.size() && !is_option_word(words[at])) {
      argument.values.push_back(words[at++]);
    }
    out.push_back(std::move(argument));
  }
  return out;
}

[[noreturn]] void wrong_count(const Argument& argument, std::string_view what) {
  throw FormError(
      {.where = "--" + argument.name,
       .expected = std::string(what),
       .found = argument.values.empty()
                    ? "none"
                    : fmt::format("{}: {}", argument.values.size(),
                                  base::cut_text(fmt::format("{}", fmt::join(argument.values, " ")), 200)),
       .cause = argument.values.size() > 1 ? "a value with spaces needs quotes" : "",
       .fix = fmt::format("write --{} VALUE", argument.name)});
}

[[noreturn]] void say_once(const Argument& argument) {
  throw FormError({.where = "--" + argument.name,
                   .expected = "the option once",
                   .found = "it is there twice",
                   .fix = fmt::format("write --{} A B", argument.name)});
}

Json list_value(const Argument& argument, const Option& option, Json before) {
  if (argument.values.empty()) wrong_count(argument, "one or more values");
  if (argument.values.size() == 1 && argument.values[0] == "null" && option.nullable()) return nullptr;
  for (const std::string& item : argument.values) before.push_back(item);
  return before;
}

Json single_value(const Argument& argument, const Option& option, const std::string& where) {
  if (option.kind == Kind::kIds && argument.values.size() > 1)  // [1, 2] without quotes, or 1 2
    return convert_text(option, fmt::format("{}", fmt::join(argument.values, " ")), true, where);
  if (option.kind == Kind::kBool && argument.values.empty()) return true;
  // Of a former name: any value, a switch without one, or several.
  if (option.name.empty() && argument.values.empty()) return true;
  if (option.name.empty() && argument.values.size() > 1) return Json(argument.values);
  if (argument.values.size() != 1) wrong_count(argument, "one value");
  // An empty word is an empty string, not null, for options that take text.
  const bool empty_text = argument.values[0].empty() && option.kind == Kind::kString;
  return convert_text(option, argument.values[0], !empty_text, where);
}

}  // namespace

bool is_option_word(const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return false;
  if (word.substr(0, word.find('=')).find(' ') != std::string::npos) return false;
  return !((word[1] >= '0' && word[1] <= '9') || word[1] == '.');
}

std::string option_name(const std::string& word) {
  std::string name = word.substr(word.starts_with("--") ? 2 : 0);
  name = name.substr(0, name.find('='));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void Settings::read_arguments(const std::vector<std::string>& words) {
  const std::vector<Argument> arguments = split_arguments(words, *schema_);
  for (const Argument& argument : arguments) {
    if (argument.name == "ignore_unknown" && schema_->find(argument.name) != nullptr)
      ignore_unknown_.insert(ignore_unknown_.end(), argument.values.begin(), argument.values.end());
  }
  bool configured = false;
  for (const Argument& argument : arguments) {
    if (argument.name != "config") continue;
    if (argument.values.size() != 1) wrong_count(argument, "one YAML file");
    if (configured) {
      throw base::UserError({.where = "--config",
                             .expected = "one YAML file",
                             .found = "--config twice",
                             .fix = "keep one of the two"});
    }
    configured = true;
    read_yaml(argument.values[0]);
  }
  ++source_;
  std::set<std::string> lists;
  for (const Argument& argument : arguments) {
    if (argument.name == "config") continue;
    const std::string where = "--" + argument.name;
    const bool known = schema_->find(argument.name) != nullptr ||
                       find_former_name(argument.name, schema_->command) != nullptr;
    const Option* positive =
        !known && argument.name.starts_with("no_") ? schema_->find(argument.name.substr(3)) : nullptr;
    if (positive != nullptr && positive->kind == Kind::kBool) {
      take(std::string(positive->name), where, true, [&](const Option&) -> Json {
        if (!argument.values.empty()) wrong_count(argument, "no value");
        return false;
      });
      continue;
    }
    const bool first = lists.insert(argument.name).second;
    take(argument.name, where, true, [&](const Option& option) -> Json {
      if (option.kind == Kind::kList) {
        if (!first && !option.repeatable) say_once(argument);
        const bool fresh = first || !is_set(option.name);
        return list_value(argument, option, fresh ? Json(Json::array()) : value(option.name));
      }
      return single_value(argument, option, where);
    });
  }
  apply_later();
}

}  // namespace hone::config
