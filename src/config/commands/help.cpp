#include "config/commands/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/strings/suggest.h"
#include "config/settings.h"
#include "config/write_plan.h"

namespace hone::config {
namespace {

using base::Json;

std::string shown_default(const Option& option) {
  return yaml_text(option.default_value());
}

// "  --lora_r int             rank of the adapter  [16]"
std::string help_line(const Option& option) {
  const std::string head = fmt::format("--{} {}", option.name, kind_name(option.kind));
  std::string out =
      head.size() > 38 ? fmt::format("  {}\n  {:<38} ", head, "") : fmt::format("  {:<38} ", head);
  out += fmt::format("{}  [{}]\n", option.meaning, shown_default(option));
  if (option.kind == Kind::kChoice) {
    out += fmt::format("  {:<38} one of: {}\n", "", fmt::join(split_words(option.values), ", "));
  }
  return out;
}

std::string wrapped(const std::vector<std::string>& words, std::string_view indent) {
  std::string out;
  std::string line(indent);
  for (const std::string& word : words) {
    if (line.size() + word.size() + 1 > 110) {
      out += line + "\n";
      line = indent;
    }
    line += (line.size() > indent.size() ? " " : "") + word;
  }
  return out + line + "\n";
}

std::vector<std::string> names_of(const Schema& schema, OptionClass option_class) {
  std::vector<std::string> out;
  for (const Option& option : schema.options) {
    if (option.option_class == option_class) out.emplace_back(option.name);
  }
  return out;
}

Json split_json(std::string_view words) {
  Json out = Json::array();
  for (const std::string& word : split_words(words)) out.push_back(word);
  return out;
}

Json row_json(const Option& option) {
  Json row;
  row["name"] = option.name;
  row["type"] = kind_name(option.kind);
  row["default"] = option.default_value();
  row["meaning"] = option.meaning;
  row["class"] = option_class_name(option.option_class);
  if (!option.reason.empty()) row["reason"] = option.reason;
  if (option.kind == Kind::kChoice) {
    row["values"] = split_json(option.values);
    if (!option.same_values.empty()) row["same_values"] = split_json(option.same_values);
    if (!option.not_yet.empty()) row["refused_values"] = split_json(option.not_yet);
  }
  if (!option.range.describe().empty()) row["range"] = option.range.describe();
  if (!option.needed_option.empty())
    row["needs"] = {{"option", option.needed_option}, {"values", split_json(option.needed_values)}};
  row["from"] = option.origin;
  row["methods"] = option.methods;
  row["group"] = option.group;
  return row;
}

}  // namespace

std::string program_help() {
  std::string out =
      "hone: post-trains language models, with TRL's option names, on Hugging Face files\n\n"
      "usage: hone COMMAND [--option value ...]\n\n";
  for (const CommandRow& row : command_rows()) {
    if (row.what.empty()) continue;
    out += row.example.empty() ? fmt::format("  {:<14} {}\n", row.name, row.what)
                               : fmt::format("  {:<14} {:<39} {}\n", row.name, row.what, row.example);
  }
  out += "\n--instructions plain|avx2|avx512|avx512_bf16|amx holds any command to these of the processor.\n";
  return out;
}

std::string command_help(const CommandRow& command) {
  if (command.usage.empty()) return program_help();
  std::string out = fmt::format("usage: {}", command.usage);
  if (command.schema == nullptr) return out;
  const Schema& schema = command.schema();
  out += fmt::format("\n  {:<38} {}\n", "--config FILE", "a YAML file of options");
  std::string_view group;
  for (const Option& option : schema.options) {
    if (option.option_class != OptionClass::kSupported) continue;
    if (option.group != group) {
      group = option.group;
      out += fmt::format("\n{}\n", group);
    }
    out += help_line(option);
  }
  const std::vector<std::string> ignored = names_of(schema, OptionClass::kIgnored);
  if (!ignored.empty()) {
    out += "\nignored: accepted with a note, since they have no meaning here\n" + wrapped(ignored, "  ");
  }
  const std::vector<std::string> refused = names_of(schema, OptionClass::kRefused);
  if (!refused.empty()) {
    out += "\nrefused: an error when set to anything but the default, since the result would differ\n" +
           wrapped(refused, "  ");
  }
  if (!ignored.empty()) out += fmt::format("\n`hone options NAME` says why.\n");
  return out;
}

std::string options_text(const Schema& schema) {
  std::string out;
  for (const Option& option : schema.options) {
    out += fmt::format("{:<42} {:<7} {:<10} {:<22} {}\n", option.name, kind_name(option.kind),
                       option_class_name(option.option_class), shown_default(option),
                       option.option_class == OptionClass::kSupported ? option.meaning : option.reason);
  }
  return out;
}

std::string options_json(const Schema& schema) {
  Json rows = Json::array();
  for (const Option& option : schema.options) rows.push_back(row_json(option));
  return base::dump_json(rows, 2) + "\n";
}

std::string option_text(const Schema& schema, std::string_view name) {
  const Option* option = schema.find(name);
  if (option == nullptr) throw_unknown(schema, name, "hone options", false);
  std::string out = fmt::format("{}: {}\n", option->name, option->meaning);
  const auto line = [&out](std::string_view label, const std::string& text) {
    if (!text.empty()) out += fmt::format("  {:<9} {}\n", label, text);
  };
  line("type", std::string(kind_name(option->kind)));
  line("default", shown_default(*option));
  line("values", fmt::format("{}", fmt::join(split_words(option->values), ", ")));
  line("same", fmt::format("{}", fmt::join(split_words(option->same_values), ", ")));
  line("refused", fmt::format("{}", fmt::join(split_words(option->not_yet), ", ")));
  line("range", option->range.describe());
  line("class", std::string(option_class_name(option->option_class)));
  line("why", std::string(option->reason));
  line("from", std::string(option->origin));
  return out;
}

// Names that are no options and are read all the same: of former versions, of other recipes.
std::string former_text(const Schema& schema, bool json) {
  Json rows = Json::array();
  std::string text;
  for (const FormerName& one : former_names()) {
    if (find_former_name(one.name, schema.command) != &one) continue;
    const std::string_view what = !one.option.empty() ? one.option : one.why;
    text += fmt::format("{:<42} {:<16} {}\n", one.name, one.whose, what);
    rows.push_back({{"name", one.name}, {"of", one.whose}, {"option", one.option}, {"why", one.why}});
  }
  return json ? base::dump_json(rows, 2) + "\n" : text;
}

std::string run_options(const std::vector<std::string>& arguments) {
  const Schema* schema = &method_schema(Method::kSft);
  bool json = false, former = false;
  std::string name;
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    const std::string& word = arguments[at];
    if (word == "--json") {
      json = true;
    } else if (word == "--former") {
      former = true;
    } else if (word == "--method" || word.starts_with("--method=")) {
      const bool joined = word != "--method";
      const std::string method = joined ? word.substr(9) : (at + 1 < arguments.size() ? arguments[++at] : "");
      schema = schema_for(method);
      if (schema == nullptr) {
        std::vector<std::string> known;
        for (const Schema* one : all_schemas()) known.push_back(one->command);
        throw base::UserError({.where = "hone options --method",
                               .expected = fmt::format("one of {}", fmt::join(known, ", ")),
                               .found = fmt::format("'{}'.{}", method, base::did_you_mean(method, known)),
                               .cause = {},
                               .fix = {}});
      }
    } else if (at == 0 && schema_for(word) != nullptr && schema->find(word) == nullptr) {
      schema = schema_for(word);  // hone options grpo
    } else if (const std::string bare = option_name(word);
               !word.starts_with("--") || schema->find(bare) != nullptr) {
      name = bare;
    } else {
      const std::vector<std::string> known = {"--json", "--method", "--former"};
      throw base::UserError({.where = "hone options",
                             .expected = "[--method NAME] [--json] [--former] [NAME]",
                             .found = fmt::format("'{}'.{}", word, base::did_you_mean(word, known)),
                             .cause = {},
                             .fix = {}});
    }
  }
  if (name.empty() && former) return former_text(*schema, json);
  if (name.empty()) return json ? options_json(*schema) : options_text(*schema);
  if (!json) return option_text(*schema, name);
  const Option* option = schema->find(name);
  if (option == nullptr) throw_unknown(*schema, name, "hone options", false);
  return base::dump_json(row_json(*option), 2) + "\n";
}

}  // namespace hone::config
