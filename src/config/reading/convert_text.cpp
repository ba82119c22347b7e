#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/strings/ascii.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "config/settings.h"

namespace hone::config {
namespace {

using base::Json;

std::string default_hint(const Option& option) {
  return fmt::format("correct it, or remove it for the default {}", option.default_text);
}

[[noreturn]] void wrong_type(const Option& option, std::string_view what, std::string_view text,
                             const std::string& where, std::string cause = {}) {
  throw base::UserError({.where = where,
                         .expected = fmt::format("{} for option {}", what, option.name),
                         .found = fmt::format("'{}'", base::cut_text(text, 200)),
                         .cause = std::move(cause),
                         .fix = default_hint(option)});
}

// Discarded where it is no JSON, or too deep for those who walk through it.
Json parsed(std::string_view text) {
  try {
    return base::parse_json(text, "option");
  } catch (const base::UserError&) {
    return Json(Json::value_t::discarded);
  }
}

bool is_null_word(const Option& option, std::string_view text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return true;
  const bool number = option.kind == Kind::kInt || option.kind == Kind::kFloat || option.kind == Kind::kBool;
  if (number && option.nullable() && base::lower_ascii(std::string(text)) == "none") return true;
  // Python's None, which YAML reads as text. A name could be "None" where null means nothing.
  return text == "None" && option.nullable() && option.kind != Kind::kAny;
}

Json bool_of(const Option& option, std::string_view text, const std::string& where) {
  const std::string word = base::lower_ascii(std::string(text));
  for (const char* yes : {"true", "yes", "on", "t", "y", "1"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"false", "no", "off", "f", "n", "0"}) {
    if (word == no) return false;
  }
  wrong_type(option, "true or false", text, where);
}

Json int_of(const Option& option, std::string_view text, const std::string& where) {
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) wrong_type(option, "a 64-bit whole number", text, where);
  if (error != std::errc() || end != digits.data() + digits.size())
    wrong_type(option, "a whole number", text, where);
  return value;
}

Json float_of(const Option& option, std::string_view text, const std::string& where) {
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = end == digits.data() + digits.size() && !digits.empty();
  if (!whole || (error != std::errc() && error != std::errc::result_out_of_range)) {
    const bool comma = text.find(',') != std::string_view::npos;
    wrong_type(option, "a number", text, where, comma ? "the decimal separator is a point" : "");
  }
  if (error == std::errc::result_out_of_range || !std::isfinite(value))
    wrong_type(option, "a finite number", text, where);
  return value;
}

Json map_of(const Option& option, std::string_view text, const std::string& where) {
  const Json value = parsed(text);
  if (!value.is_object()) {
    wrong_type(option, "a mapping", text, where,
               fmt::format("on the command line a mapping is JSON: --{} '{{\"key\": 1}}'", option.name));
  }
  return value;
}

bool is_id_list(const Json& value) {
  std::set<Json> seen;
  for (const Json& id : value) {
    const bool fits = id.is_number_integer() && id >= 0 && id <= std::numeric_limits<std::int32_t>::max();
    if (!fits || !seen.insert(id).second) return false;
  }
  return value.is_array() && !value.empty();
}

// "[1, 2]", "1 2", "{\"embed_tokens\": [1, 2]}".
Json ids_of(const Option& option, std::string_view text, const std::string& where) {
  const bool json = text.starts_with('[') || text.starts_with('{');
  std::string list(text);
  if (!json) {
    std::replace(list.begin(), list.end(), ',', ' ');
    list = fmt::format("[{}]", fmt::join(split_words(list), ","));
  }
  Json value = parsed(list);
  const bool map = value.is_object() && value.size() == 1 && is_id_list(value.begin().value());
  if (!map && !is_id_list(value)) {
    wrong_type(option, "distinct token ids, as [1, 2] or {\"embed_tokens\": [1, 2]},", text, where);
  }
  return value;
}

}  // namespace

Json convert_text(const Option& option, std::string_view text, bool plain, const std::string& where) {
  if (plain && is_null_word(option, text)) {
    if (option.nullable()) return nullptr;
    const std::string_view what = option.kind == Kind::kBool    ? "true or false"
                                  : option.kind == Kind::kInt   ? "a whole number"
                                  : option.kind == Kind::kFloat ? "a number"
                                                                : "a value";
    throw base::UserError({.where = where,
                           .expected = fmt::format("{} for option {}", what, option.name),
                           .found = text.empty() ? "nothing" : fmt::format("'{}'", text),
                           .cause = "this option cannot be null",
                           .fix = default_hint(option)});
  }
  switch (option.kind) {
    case Kind::kBool:
      return bool_of(option, text, where);
    case Kind::kInt:
      return int_of(option, text, where);
    case Kind::kFloat:
      return float_of(option, text, where);
    case Kind::kMap:
      return map_of(option, text, where);
    case Kind::kIds:
      return ids_of(option, text, where);
    case Kind::kList:
      return Json::array({std::string(text)});
    case Kind::kString:
      return std::string(text);
    case Kind::kChoice: {
      // A YAML bool such as init_lora_weights: True is the value "true".
      const std::string word = base::lower_ascii(std::string(text));
      // YAML's unquoted no is false for Python, which writes it so into another file.
      if (plain && word == "false" && contains_word(option.values, "no") &&
          !contains_word(option.values, word))
        return Json("no");
      return (word == "true" || word == "false") ? Json(word) : Json(std::string(text));
    }
    case Kind::kAny:
      break;
  }
  if (plain && (text == "true" || text == "True")) return true;
  if (plain && (text == "false" || text == "False")) return false;
  if (!plain) return std::string(text);
  Json number = parsed(text);
  if (number.is_number() || number.is_object() || number.is_array()) return number;
  return std::string(text);
}

void throw_unknown(const Schema& schema, std::string_view name, const std::string& where, bool dashes) {
  const std::string shown = fmt::format("{}{}", dashes ? "--" : "", base::cut_text(name, 200));
  if (const FormerName* former = find_former_name(name, schema.command)) {  // of `hone options NAME`
    const bool renamed = !former->option.empty();
    throw base::UserError(
        {.where = where,
         .expected = fmt::format("the name of an option of hone {}", schema.command),
         .found = fmt::format("{}, a name of {}", shown, former->whose),
         .cause = renamed ? fmt::format("it is read as {}", former->option) : std::string(former->why),
         .fix = renamed ? fmt::format("ask for {}", former->option) : std::string(former->fix)});
  }
  const std::string methods = other_methods(name, schema.command);
  if (!methods.empty()) {
    throw base::UserError({.where = where,
                           .expected = fmt::format("an option of hone {}", schema.command),
                           .found = fmt::format("{}, an option of {}", shown, methods),
                           .cause = "the file belongs to another method (RL-16)",
                           .fix = fmt::format("remove {}", shown)});
  }
  const std::vector<std::string> names = schema.names();
  const std::string near = base::did_you_mean(name, names);
  throw base::UserError(
      {.where = where,
       .expected = fmt::format("an option of hone {}", schema.command),
       .found = fmt::format("unknown option {}.{}", shown, near),
       .cause = "it would be ignored silently (RL-16)",
       .fix = fmt::format("`hone options --method {}` lists every option", schema.command)});
}

std::string yaml_text(const Json& value) {
  if (value.is_array()) {
    std::string out = "[";
    for (const Json& item : value) out += (out.size() > 1 ? ", " : "") + yaml_text(item);
    return out + "]";
  }
  if (value.is_object()) {
    std::string out = "{";
    for (const auto& [key, item] : value.items())
      out += (out.size() > 1 ? ", " : "") + yaml_text(Json(key)) + ": " + yaml_text(item);
    return out + "}";
  }
  if (!value.is_string()) return base::dump_json(value);
  const std::string text = value.get<std::string>();
  bool plain = !text.empty() && text.front() != '-' && text.front() != '~' && text.front() != '.';
  bool letter = false;
  for (const char c : text) {
    const bool alpha = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '/';
    letter = letter || alpha;
    plain = plain && (alpha || (c >= '0' && c <= '9') || c == '.' || c == '-');
  }
  const std::string word = base::lower_ascii(std::string(text));
  for (const char* reserved : {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "inf", "nan"}) {
    plain = plain && word != reserved;
  }
  // 1e5 and 0x1F have letters too: plain text begins with one.
  const bool begins = !text.empty() && !(text.front() >= '0' && text.front() <= '9');
  return plain && letter && begins ? text : base::dump_json(value);
}

}  // namespace hone::config
