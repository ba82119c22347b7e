#include "tools/content.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/code_points.h"
#include "tools/python_values.h"

namespace hone::tools {
namespace {

using base::Json;
using base::Pattern;

std::u32string text_arg(const Json& args, const char* key, std::u32string otherwise,
                        const std::string& where) {
  if (!args.contains(key)) return otherwise;
  if (!args[key].is_string() || args[key].get_ref<const std::string&>().empty())
    refuse_template(where + ", " + key, "a text", base::short_json(args[key]));
  return base::to_code_points(args[key].get_ref<const std::string&>());
}

bool bool_arg(const Json& args, const char* key, bool otherwise) {
  return args.contains(key) && args[key].is_boolean() ? args[key].get<bool>() : otherwise;
}

// A path of names joined by "." when `text` is "{path}", else "".
std::string placeholder(const std::string& text) {
  static const Pattern whole(R"(\{(\w+(?:\.\w+)*)\})");
  const std::u32string points = base::to_code_points(text);
  long steps = Pattern::kMaxSteps;
  if (!whole.full_match(points, steps)) return "";
  return text.substr(1, text.size() - 2);
}

}  // namespace

void refuse_template(const std::string& where, const std::string& expected, const std::string& found) {
  throw base::UserError({.where = where,
                         .expected = expected,
                         .found = found,
                         .cause = "a response template that transformers 5.23 would refuse as well",
                         .fix = "correct the response_template of the tokenizer, or take it out"});
}

Content::Content(const std::string& kind, const Json& args, const std::string& where) {
  constexpr std::array<std::string_view, 7> kKinds = {"text", "int",        "float",   "bool",
                                                      "json", "xml-inline", "kv-lines"};
  const auto found = std::ranges::find(kKinds, kind);
  if (found == kKinds.end())
    refuse_template(where + ", content", "text, int, float, bool, json, xml-inline or kv-lines",
                    "'" + kind + "'");
  kind_ = static_cast<Kind>(found - kKinds.begin());
  if (args.is_null()) {
    if (kind_ == Kind::kXml) refuse_template(where + ", content_args", "tag_pattern", "none");
    return;
  }
  if (!args.is_object()) refuse_template(where + ", content_args", "an object", base::short_json(args));
  strip_ = bool_arg(args, "strip", true);
  unquoted_keys_ = bool_arg(args, "unquoted_keys", false);
  allow_non_json_ = bool_arg(args, "allow_non_json", false);
  merge_duplicates_ = bool_arg(args, "merge_duplicates", false);
  line_sep_ = text_arg(args, "line_sep", line_sep_, where);
  kv_sep_ = text_arg(args, "kv_sep", kv_sep_, where);
  for (const Json& pair : args.value("string_delims", Json::array())) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string() ||
        pair[0].get_ref<const std::string&>().empty() || pair[1].get_ref<const std::string&>().empty())
      refuse_template(where + ", string_delims", "pairs of two texts", base::short_json(pair));
    string_delims_.emplace_back(base::to_code_points(pair[0].get_ref<const std::string&>()),
                                base::to_code_points(pair[1].get_ref<const std::string&>()));
  }
  if (kind_ == Kind::kXml) {
    if (!args.contains("tag_pattern") || !args["tag_pattern"].is_string())
      refuse_template(where + ", content_args", "tag_pattern", base::short_json(args));
    tag_.emplace(args["tag_pattern"].get_ref<const std::string&>(), Pattern::Flags{.dot_all = true},
                 where + ", tag_pattern");
    if (!tag_->groups().contains("key"))
      refuse_template(where + ", tag_pattern", "a named group 'key'", base::short_json(args["tag_pattern"]));
  }
  if (args.contains("value_parser") && !args["value_parser"].is_null()) {
    const Json& value = args["value_parser"];
    if (!value.is_object() || (value.contains("name") && !value["name"].is_string()))
      refuse_template(where + ", value_parser", "an object with a name", base::short_json(value));
    value_ = std::make_shared<const Content>(value.value("name", "text"), value.value("args", Json()),
                                             where + ", value_parser");
  }
}

Json Content::text_of(std::u32string_view text) const {
  return base::to_utf8(strip_ ? base::stripped(text) : text);
}

Json Content::parse(std::u32string_view text, long& steps) const {
  switch (kind_) {
    case Kind::kText:
      return text_of(text);
    case Kind::kInt: {
      if (auto value = python_int(base::to_utf8(text))) return *value;
      throw NotParsed();
    }
    case Kind::kFloat: {
      if (const auto value = python_float(base::to_utf8(text))) return Json(*value);
      throw NotParsed();
    }
    case Kind::kBool: {
      std::string word = text_of(text).get<std::string>();
      for (char& c : word)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
      return Json(word == "true" || word == "1");
    }
    case Kind::kJson:
      return json(text, steps);
    case Kind::kXml:
      return xml_inline(text, steps);
    default:
      return kv_lines(text, steps);
  }
}

Json Content::value_of(std::u32string_view text, long& steps) const {
  return value_ == nullptr ? Json(base::to_utf8(text)) : value_->parse(text, steps);
}

// Strings in other delimiters are taken out, keys are quoted, and the strings put back as JSON has them, so
// that what a string holds is not taken for a key.
Json Content::json(std::u32string_view text, long& steps) const {
  constexpr char32_t kOpen = 1, kClose = 2;
  std::u32string working(text);
  std::vector<std::u32string> kept;
  if (!string_delims_.empty() && (text.find(kOpen) != text.npos || text.find(kClose) != text.npos))
    throw NotParsed();
  for (const auto& [open, close] : string_delims_) {
    std::u32string out;
    std::size_t from = 0;
    for (;;) {
      const std::size_t begin = working.find(open, from);
      const std::size_t end = begin == working.npos ? working.npos : working.find(close, begin + open.size());
      if (end == working.npos) break;
      out.append(working, from, begin - from);
      out += kOpen + base::to_code_points(std::to_string(kept.size())) + kClose;
      kept.push_back(working.substr(begin + open.size(), end - begin - open.size()));
      from = end + close.size();
    }
    working = out.append(working, from);
  }
  if (unquoted_keys_) {
    static const Pattern key(R"((?<=[{,])(\w+):)");
    working = key.replace(working, U"\"\\1\":", steps);
  }
  std::string utf8;
  if (kept.empty()) {
    utf8 = base::to_utf8(working);
  } else {
    std::size_t from = 0;
    for (std::size_t begin = working.find(kOpen); begin != working.npos; begin = working.find(kOpen, from)) {
      const std::size_t end = working.find(kClose, begin);
      utf8 += base::to_utf8(std::u32string_view(working).substr(from, begin - from));
      const std::string number =
          base::to_utf8(std::u32string_view(working).substr(begin + 1, end - begin - 1));
      utf8 += base::dump_json(base::to_utf8(kept.at(static_cast<std::size_t>(std::stoul(number)))));
      from = end + 1;
    }
    utf8 += base::to_utf8(std::u32string_view(working).substr(from));
  }
  if (auto value = python_loads(utf8)) return std::move(*value);
  if (allow_non_json_) return text_of(text);
  throw NotParsed();
}

Json Content::xml_inline(std::u32string_view text, long& steps) const {
  Json out = Json::object();
  base::ObjectFiller members(out);
  const int key_group = tag_->groups().at("key");
  const auto value_group = tag_->groups().find("value");
  tag_->for_each_match(text, steps, [&](const base::Match& found) {
    if (!found.has(key_group)) throw NotParsed();
    Json value;
    if (value_group == tag_->groups().end()) {
      value = value_of(U"", steps);
    } else if (!found.has(value_group->second)) {
      throw NotParsed();
    } else {
      value = value_of(found.text(text, value_group->second), steps);
    }
    const std::size_t before = out.size();
    Json& place = members.at(base::to_utf8(found.text(text, key_group)));
    if (out.size() != before || !merge_duplicates_) {
      place = std::move(value);
    } else {
      if (!place.is_array()) place = Json::array({place});
      place.push_back(std::move(value));
    }
  });
  return out;
}

Json Content::kv_lines(std::u32string_view text, long& steps) const {
  Json out = Json::object();
  base::ObjectFiller members(out);
  const auto trimmed = [this](std::u32string_view part) { return strip_ ? base::stripped(part) : part; };
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find(line_sep_, from), text.size());
    const std::u32string_view line = trimmed(text.substr(from, end - from));
    from = end + line_sep_.size();
    const std::size_t at = line.find(kv_sep_);
    if (line.empty() || at == line.npos) continue;
    members.at(base::to_utf8(trimmed(line.substr(0, at)))) =
        value_of(trimmed(line.substr(at + kv_sep_.size())), steps);
  }
  return out;
}

Json transformed(const Json& transform, const Json& scope) {
  if (transform.is_object()) {
    Json out = Json::object();
    for (const auto& [key, value] : transform.items()) out[key] = transformed(value, scope);
    return out;
  }
  if (transform.is_array()) {
    Json out = Json::array();
    for (const Json& value : transform) out.push_back(transformed(value, scope));
    return out;
  }
  if (!transform.is_string()) return transform;
  const std::string path = placeholder(transform.get_ref<const std::string&>());
  if (path.empty()) return transform;
  const Json* value = &scope;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t end = std::min(path.find('.', from), path.size());
    const std::string key = path.substr(from, end - from);
    if (!value->is_object() || !value->contains(key)) throw NotParsed();
    value = &(*value)[key];
    from = end + 1;
  }
  return *value;
}

void check_transform(const Json& transform, const std::string& where) {
  if (transform.is_structured()) {
    for (const Json& each : transform) check_transform(each, where);
    return;
  }
  if (!transform.is_string()) return;
  static const Pattern part(R"(\{(\w+(?:\.\w+)*)\})");
  const auto& text = transform.get_ref<const std::string&>();
  if (placeholder(text).empty() && part.search(base::to_code_points(text)))
    refuse_template(where + ", transform", "a placeholder alone, or a text without one", "'" + text + "'");
}

}  // namespace hone::tools
