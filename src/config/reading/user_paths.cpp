#include "config/reading/user_paths.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files/home_path.h"
#include "base/files/path_kind.h"

namespace hone::config {
namespace {

using base::Json;

constexpr std::array<std::pair<std::string_view, PathForm>, 55> kForms = {{
    {"model_name_or_path", PathForm::kPath},
    {"ref_model", PathForm::kPath},
    {"teacher_model_name_or_path", PathForm::kPath},
    {"tokenizer_name_or_path", PathForm::kPath},
    {"adapter_name_or_path", PathForm::kPath},
    {"base_adapters", PathForm::kPath},
    {"base_model_name_for_adapter", PathForm::kPath},
    {"chat_template_path", PathForm::kPath},
    {"chat_template", PathForm::kMaybe},
    {"spectrum_config_path", PathForm::kPath},
    {"dataset_name", PathForm::kPath},
    {"eval_dataset", PathForm::kPath},
    {"datasets", PathForm::kSets},
    {"eval_datasets", PathForm::kSets},
    {"row_function", PathForm::kFunction},
    {"reward_model_name_or_path", PathForm::kPath},
    {"reward_model_path", PathForm::kPath},
    {"reward_funcs", PathForm::kFunction},
    {"eval_reward_funcs", PathForm::kFunction},
    {"judge", PathForm::kFunction},
    {"tools", PathForm::kFunction},
    {"environment", PathForm::kNamed},
    {"rollout", PathForm::kFunction},
    {"sample_prompts", PathForm::kMaybe},
    {"replay", PathForm::kPath},
    {"output_dir", PathForm::kPath},
    {"resume_from_checkpoint", PathForm::kPath},
    {"offload_folder", PathForm::kPath},
    {"deepspeed", PathForm::kMaybe},
    {"fsdp_config", PathForm::kMaybe},
    {"accelerate_config", PathForm::kMaybe},
    {"accelerator_config", PathForm::kMaybe},
    {"python", PathForm::kPath},
    {"input", PathForm::kPath},
    {"output", PathForm::kPath},
    {"root", PathForm::kPath},
    {"include_path", PathForm::kPath},
    {"adapters", PathForm::kNamed},
    {"prompts", PathForm::kPath},
    {"run", PathForm::kPath},
    {"runs", PathForm::kPath},
    {"first", PathForm::kPath},
    {"second", PathForm::kPath},
    {"measured", PathForm::kPath},
    {"data", PathForm::kPath},
    {"dataset_info", PathForm::kPath},
    {"write", PathForm::kPath},
    {"keep", PathForm::kPath},
    {"good", PathForm::kPath},
    {"bad", PathForm::kPath},
    {"shown", PathForm::kPath},
    {"adapter", PathForm::kPath},
    {"base", PathForm::kPath},
    {"other_base", PathForm::kPath},
    {"config", PathForm::kPath},
}};

// The name after '$' at `at`, or within "${}"; empty: it is another '$'.
std::string name_at(std::string_view text, std::size_t at) {
  const bool braces = text.substr(at).starts_with("${");
  std::size_t end = at + (braces ? 2 : 1);
  const std::size_t begin = end;
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  while (end < text.size() && is_letter(text[end])) ++end;
  const bool digit = begin < text.size() && std::isdigit(static_cast<unsigned char>(text[begin])) != 0;
  if (end == begin || digit || (braces && (end == text.size() || text[end] != '}'))) return "";
  return std::string(text.substr(begin, end - begin));
}

// `text` with its variables replaced, if each of them names a folder.
std::optional<std::string> expanded(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::string name = text[at] == '$' ? name_at(text, at) : "";
    if (name.empty()) {
      out += text[at++];
      continue;
    }
    const auto value = base::folder_of_variable(name);
    if (!value) return std::nullopt;
    out += *value;
    at += name.size() + (text[at + 1] == '{' ? 3 : 1);
  }
  return out;
}

// Each text of a list, and a single one.
template <typename Change>
void change_texts(Json& value, const Change& change) {
  if (value.is_string()) value = change(value.get<std::string>());
  if (!value.is_array()) return;
  for (Json& one : value) change_texts(one, change);
}

std::string maybe_path(const std::string& text, const std::string& where) {
  const bool path = text.starts_with("~/") && text.find_first_of(" \n{") == std::string::npos;
  return path ? base::expand_home(text, where) : text;
}

std::string named_path(const std::string& text, const std::string& where) {
  const std::size_t tilde = text.find("=~");
  if (tilde == std::string::npos || text.find('/') < tilde) return user_path(text, where);
  return text.substr(0, tilde + 1) + user_path(text.substr(tilde + 1), where);
}

std::string function_path(const std::string& text, const std::string& where) {
  return text.find(".py:") == std::string::npos ? base::expand_home(text, where) : user_path(text, where);
}

void change_sets(Json& value, const std::string& where) {
  const auto path = [&](const std::string& text) { return user_path(text, where); };
  if (value.is_array()) {
    for (Json& one : value) change_sets(one, where);
  }
  if (!value.is_object()) return;
  for (auto& [key, item] : value.items()) {
    if (key == "path" || key == "data_dir" || key == "data_files") {
      change_texts(item, path);
      if (item.is_object()) {  // data_files: {train: ..., test: ...}
        for (auto& [split, files] : item.items()) change_texts(files, path);
      }
    } else {
      change_sets(item, where);  // eval_datasets: a mapping of names to sets
    }
  }
}

}  // namespace

PathForm path_form(std::string_view option) {
  for (const auto& [name, form] : kForms) {
    if (name == option) return form;
  }
  return PathForm::kNone;
}

std::string variable_advice(const std::string& text) {
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at + 1)) {
    const std::string name = name_at(text, at);
    if (name.empty()) continue;
    if (const auto path = expanded(text)) return fmt::format("write {}", *path);
    return fmt::format(
        "write the value of {} in its place; on a command line the shell does so, within double quotes",
        name);
  }
  return "";
}

std::string user_path(const std::string& path, const std::string& where) {
  std::string out = base::expand_home(path, where);
  const std::string advice = variable_advice(out);
  const std::string file =
      out.substr(0, out.find(".py:") == std::string::npos ? out.size() : out.find(".py:") + 3);
  if (advice.empty() || base::exists(file)) return out;
  throw base::UserError({.where = where,
                         .expected = "a path, or a name of the hub",
                         .found = fmt::format("'{}'", path),
                         .cause = "environment variables are not expanded",
                         .fix = advice});
}

Json with_user_paths(const Option& option, Json value, const std::string& where, bool as_written) {
  const PathForm form = path_form(option.name);
  if (form == PathForm::kSets) change_sets(value, where);
  if (form == PathForm::kNone || form == PathForm::kSets) return value;
  change_texts(value, [&](const std::string& text) {
    switch (form) {
      case PathForm::kMaybe:
        return maybe_path(text, where);
      case PathForm::kNamed:
        return named_path(text, where);
      case PathForm::kFunction:
        return function_path(text, where);
      default:
        return as_written ? base::expand_home(text, where) : user_path(text, where);
    }
  });
  return value;
}

}  // namespace hone::config
