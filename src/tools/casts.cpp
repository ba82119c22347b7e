#include "tools/casts.h"

#include <algorithm>
#include <cmath>

#include "tools/python_values.h"

namespace hone::tools {
namespace {

using base::Json;
using Types = std::vector<std::string>;

const Json* member(const Json& value, const char* key) {
  if (!value.is_object()) return nullptr;
  const auto found = value.find(key);
  return found == value.end() ? nullptr : &*found;
}

bool is_true(const Json& value) {  // as Python sees it
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  return !value.empty() && !(value.is_string() && value.get_ref<const std::string&>().empty());
}

void add_types(const Json& schema, Types& out, int depth) {
  constexpr int kDeepest = 64;
  if (!schema.is_object() || depth > kDeepest) return;
  if (const Json* const type = member(schema, "type")) {
    if (type->is_string()) out.push_back(type->get<std::string>());
    if (type->is_array())
      for (const Json& each : *type)
        if (each.is_string()) out.push_back(each.get<std::string>());
  }
  for (const char* const choice : {"anyOf", "oneOf"}) {
    const Json* const choices = member(schema, choice);
    if (choices == nullptr || !choices->is_array()) continue;
    for (const Json& each : *choices) add_types(each, out, depth + 1);
  }
  const Json* const nullable = member(schema, "nullable");
  if (nullable != nullptr && is_true(*nullable) && std::ranges::find(out, "null") == out.end())
    out.emplace_back("null");
}

constexpr double kMostWhole = 9.2e18;  // a larger whole number does not fit into 64 bits

std::string without_space(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\n\r\v\f");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\n\r\v\f") + 1 - begin);
}

std::optional<Json> as_integer(const std::string& text) {
  if (auto whole = python_int(text)) return whole;
  const std::optional<double> number = python_float(text);  // "3.0"
  if (!number || std::floor(*number) != *number || std::abs(*number) > kMostWhole) return std::nullopt;
  return Json(static_cast<std::int64_t>(*number));
}

std::optional<Json> as_number(const std::string& text) {
  const std::optional<double> number = python_float(text);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  const bool whole = std::floor(*number) == *number && text.find('.') == std::string::npos;
  if (whole && std::abs(*number) <= kMostWhole) return Json(static_cast<std::int64_t>(*number));
  return Json(*number);
}

std::optional<Json> as_boolean(const std::string& text) {
  std::string word = without_space(text);
  for (char& c : word)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  if (word == "true" || word == "1") return Json(true);
  if (word == "false" || word == "0") return Json(false);
  return std::nullopt;
}

std::optional<Json> cast(const std::string& text, const std::string& type) {
  if (type == "integer") return as_integer(text);
  if (type == "number") return as_number(text);
  if (type == "boolean") return as_boolean(text);
  if (type == "null") {
    const std::string word = without_space(text);
    return word == "null" || word == "None" ? std::optional<Json>(nullptr) : std::nullopt;
  }
  if (type == "object" || type == "array") {
    std::optional<Json> value = python_loads(text);
    if (value && (type == "object" ? value->is_object() : value->is_array())) return value;
  }
  return std::nullopt;
}

void cast_by(const Types& types, Json& value) {
  if (!value.is_string()) return;
  const std::string text = value.get<std::string>();
  for (const std::string& type : types) {
    if (auto found = cast(text, type)) {
      value = std::move(*found);
      return;
    }
  }
}

}  // namespace

Casts::Casts(const Json& tools) {
  if (!tools.is_array()) return;
  for (const Json& tool : tools) {
    const Json* function = member(tool, "function");
    if (function == nullptr) function = &tool;
    const Json* const name = member(*function, "name");
    if (name == nullptr || !name->is_string()) continue;
    Tool made{.name = name->get<std::string>(), .arguments = {}};
    const Json* const parameters = member(*function, "parameters");
    const Json* const properties = parameters == nullptr ? nullptr : member(*parameters, "properties");
    if (properties != nullptr && properties->is_object()) {
      for (const auto& [key, schema] : properties->items()) {
        Argument argument{.name = key, .types = {}};
        add_types(schema, argument.types, 0);
        made.arguments.push_back(std::move(argument));
      }
    }
    std::erase_if(tools_, [&](const Tool& other) { return other.name == made.name; });
    tools_.push_back(std::move(made));
  }
}

void Casts::apply(Json& value) const {
  if (value.is_array()) {
    for (Json& each : value) apply(each);
    return;
  }
  if (!value.is_object() || !value.contains("function")) return;
  Json& function = value["function"];
  if (!function.is_object() || !function.contains("name") || !function.contains("arguments")) return;
  Json& arguments = function["arguments"];
  if (!function["name"].is_string() || !arguments.is_object()) return;
  const auto tool = std::ranges::find(tools_, function["name"].get_ref<const std::string&>(), &Tool::name);
  if (tool == tools_.end()) return;
  for (const Argument& argument : tool->arguments) {
    if (argument.types.empty()) continue;
    const auto given = arguments.find(argument.name);
    if (given == arguments.end()) continue;
    cast_by(argument.types, *given);
    const bool takes_lists = std::ranges::find(argument.types, "array") != argument.types.end();
    if (!given->is_array() || takes_lists) continue;
    for (Json& each : *given) cast_by(argument.types, each);
  }
}

}  // namespace hone::tools
