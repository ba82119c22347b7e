// Which chat templates a tokenizer folder has.
#include "base/error.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_keys.h"

namespace hone::text {
namespace {

using base::Json;

[[noreturn]] void refuse_template(const TokenizerFiles& files, std::string expected, std::string found) {
  throw base::UserError(
      {.where = (base::fs::path(files.where) / kTokenizerConfig).string() + ", chat_template",
       .expected = std::move(expected),
       .found = std::move(found),
       .cause = "",
       .fix = "download the file from the model's repository again"});
}

// Several templates, of which "default" is also `main`.
ChatTemplates by_name(std::map<std::string, std::string> named) {
  ChatTemplates out{.main = std::nullopt, .named = std::move(named)};
  if (const auto it = out.named.find("default"); it != out.named.end()) out.main = it->second;
  return out;
}

ChatTemplates of_config(const TokenizerFiles& files, const Json& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return {.main = value.get<std::string>(), .named = {}};
  std::map<std::string, std::string> named;
  if (value.is_object()) {
    for (const auto& [name, source] : value.items()) {
      if (!source.is_string()) refuse_template(files, "the text of the template " + name, source.type_name());
      named[name] = source.get<std::string>();
    }
    return by_name(std::move(named));
  }
  if (!value.is_array())
    refuse_template(files, "a string, or a list of objects with name and template", value.type_name());
  for (const Json& entry : value) {
    const bool is_pair = entry.is_object() && entry.contains("name") && entry["name"].is_string() &&
                         entry.contains("template") && entry["template"].is_string();
    if (!is_pair) refuse_template(files, "objects with name and template, both texts", entry.type_name());
    named[entry["name"].get<std::string>()] = entry["template"].get<std::string>();
  }
  return by_name(std::move(named));
}

}  // namespace

std::string with_python_lines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
      continue;
    }
    out += '\n';
    if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
  }
  return out;
}

ChatTemplates read_templates(const TokenizerFiles& files, const Json& config) {
  std::map<std::string, std::string> named;
  const std::string folder = std::string(kMoreTemplates) + "/", ending = ".jinja";
  for (const auto& [name, contents] : files.files) {
    if (name == kChatTemplate) named.emplace("default", with_python_lines(contents));
    if (!name.starts_with(folder)) continue;
    const std::string rest = name.substr(folder.size());
    named[rest.substr(0, rest.size() - ending.size())] = with_python_lines(contents);
  }
  if (named.empty()) return of_config(files, tokenizer_config_keys().at(config, "chat_template"));
  if (named.size() == 1 && named.contains("default"))
    return {.main = std::move(named["default"]), .named = {}};
  return by_name(std::move(named));
}

}  // namespace hone::text
