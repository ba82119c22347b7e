#include "tools/response_template.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/code_points.h"

namespace hone::tools {
namespace {

using base::Json;
using base::Pattern;

template <std::size_t N>
void check_keys(const Json& spec, const std::array<std::string_view, N>& known, const std::string& where) {
  for (const auto& [key, value] : spec.items())
    if (std::ranges::find(known, key) == known.end())
      refuse_template(where, "only known keys", "'" + key + "'");
}

bool bool_of(const Json& spec, const char* key, bool otherwise, const std::string& where) {
  if (!spec.contains(key)) return otherwise;
  if (!spec[key].is_boolean())
    refuse_template(where + ", " + key, "true or false", base::short_json(spec[key]));
  return spec[key].get<bool>();
}

// What follows "(?=[\s\S]*?" or "(?=.*?" up to the last ")".
std::optional<std::string> what_is_ahead(const std::string& pattern) {
  for (const std::string_view start : {R"((?=[\s\S]*?)", "(?=.*?"}) {
    if (!pattern.starts_with(start) || !pattern.ends_with(')')) continue;
    std::string inner = pattern.substr(start.size(), pattern.size() - start.size() - 1);
    if (inner.find_first_of("()|\\") == std::string::npos) return inner;
  }
  return std::nullopt;
}

Field field_of(const std::string& name, const Json& spec, const std::string& where) {
  constexpr std::array<std::string_view, 11> kKeys = {
      "open",    "open_pattern", "close",    "close_pattern", "content",       "content_args",
      "repeats", "join",         "optional", "transform",     "transform_each"};
  if (!spec.is_object()) refuse_template(where, "an object", base::short_json(spec));
  check_keys(spec, kKeys, where);
  if (spec.contains("content") && !spec["content"].is_string())
    refuse_template(where + ", content", "the name of a parser", base::short_json(spec["content"]));
  Field out{.name = name,
            .open = Delimiter::of(spec, "open", "open_pattern", where),
            .close = Delimiter::of(spec, "close", "close_pattern", where),
            .content = Content(spec.value("content", "text"), spec.value("content_args", Json()), where),
            .repeats = bool_of(spec, "repeats", false, where),
            .optional = bool_of(spec, "optional", true, where),
            .transform_each = bool_of(spec, "transform_each", false, where),
            .join = {},
            .transform = spec.value("transform", Json())};
  if (spec.contains("join") && !spec["join"].is_null()) {
    if (!spec["join"].is_string() || !out.repeats)
      refuse_template(where + ", join", "a text, beside repeats: true", base::short_json(spec["join"]));
    out.join = spec["join"].get<std::string>();
  }
  check_transform(out.transform, where);
  if (!out.transform.is_null()) return out;
  if (out.transform_each) refuse_template(where + ", transform_each", "a transform beside it", "none");
  if ((out.open && out.open->has_captures()) || (out.close && out.close->has_captures()))
    refuse_template(where, "a transform, which uses the named groups of the patterns", "none");
  return out;
}

}  // namespace

std::optional<Delimiter> Delimiter::of(const Json& spec, const char* literal, const char* pattern,
                                       const std::string& where) {
  const bool has_literal = spec.contains(literal), has_pattern = spec.contains(pattern);
  if (has_literal && has_pattern)
    refuse_template(where, std::string("either ") + literal + " or " + pattern, "both");
  if (!has_literal && !has_pattern) return std::nullopt;
  Delimiter out;
  if (has_pattern) {
    const std::string place = where + ", " + pattern;
    if (!spec[pattern].is_string()) refuse_template(place, "a pattern", base::short_json(spec[pattern]));
    const auto& source = spec[pattern].get_ref<const std::string&>();
    const std::optional<std::string> ahead = what_is_ahead(source);
    out.ahead_ = ahead.has_value();
    out.pattern_.emplace(ahead ? *ahead : source, Pattern::Flags{.dot_all = true}, place);
    return out;
  }
  const Json texts = spec[literal].is_string() ? Json::array({spec[literal]}) : spec[literal];
  if (!texts.is_array() || texts.empty())
    refuse_template(where + ", " + literal, "a text or a list of texts", base::short_json(spec[literal]));
  for (const Json& text : texts) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty())
      refuse_template(where + ", " + literal, "texts that are not empty", base::short_json(text));
    out.literals_.push_back(base::to_code_points(text.get_ref<const std::string&>()));
  }
  std::ranges::stable_sort(out.literals_, [](const auto& a, const auto& b) { return a.size() > b.size(); });
  out.can_extend_ = false;
  for (const auto& one : out.literals_)
    for (const auto& other : out.literals_) out.can_extend_ |= one != other && one.starts_with(other);
  return out;
}

std::optional<Delimiter::Found> Delimiter::find(std::u32string_view text, std::size_t from,
                                                long& steps) const {
  if (!pattern_) {
    std::optional<Found> best;
    for (const std::u32string& literal :
         literals_) {  // the longest first, which wins where two begin at one place
      const std::size_t at = text.find(literal, from);
      if (at != text.npos && (!best || at < best->begin))
        best = Found{.begin = at, .end = at + literal.size(), .captures = {}};
    }
    return best;
  }
  const std::optional<base::Match> match = pattern_->search(text, from, steps);
  if (!match) return std::nullopt;
  if (ahead_) return Found{.begin = from, .end = from, .captures = {}};
  Found out{.begin = match->begin(), .end = match->end(), .captures = Json::object()};
  for (const auto& [name, group] : pattern_->groups())
    if (match->has(group)) out.captures[name] = base::to_utf8(match->text(text, group));
  return out;
}

bool Delimiter::can_grow(const Found& found, std::size_t size) const {
  return found.end == size && (found.begin == found.end || can_extend_);
}

ResponseTemplate::ResponseTemplate(const Json& spec, const std::string& where) {
  constexpr std::array<std::string_view, 5> kKeys = {"version", "defaults", "fields", "start_anchor",
                                                     "start_anchor_pattern"};
  if (!spec.is_object()) refuse_template(where, "a response template: an object", base::short_json(spec));
  if (spec.contains("version") && spec["version"] != 1)
    refuse_template(where + ", version", "1", base::short_json(spec["version"]));
  check_keys(spec, kKeys, where);
  defaults_ = spec.value("defaults", Json::object());
  if (!defaults_.is_object()) refuse_template(where + ", defaults", "an object", base::short_json(defaults_));
  const Json fields = spec.value("fields", Json());
  if (!fields.is_object() || fields.empty())
    refuse_template(where + ", fields", "an object with a field at least", base::short_json(fields));
  for (const auto& [name, field] : fields.items()) {
    fields_.push_back(field_of(name, field, where + ", field '" + name + "'"));
    if (fields_.back().open) continue;
    if (implicit_ >= 0)
      refuse_template(where + ", fields", "one field without open or open_pattern at most",
                      "'" + fields_[static_cast<std::size_t>(implicit_)].name + "' and '" + name + "'");
    implicit_ = static_cast<int>(fields_.size()) - 1;
  }
  anchor_ = Delimiter::of(spec, "start_anchor", "start_anchor_pattern", where);
  if (!anchor_) refuse_template(where, "start_anchor or start_anchor_pattern", "none");
}

// The prompt from the beginning of the last turn on; all of it when the anchor is not in it.
std::u32string ResponseTemplate::behind_anchor(std::string_view prompt, long& steps) const {
  const std::u32string text = base::to_code_points(prompt);
  std::size_t last = 0;
  for (std::size_t from = 0; from <= text.size();) {
    const std::optional<Delimiter::Found> found = anchor_->find(text, from, steps);
    if (!found) break;
    last = found->end;
    from = std::max(found->end, found->begin + 1);
  }
  return text.substr(last);
}

}  // namespace hone::tools
