#include "serve/tinker/fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/strings/printable.h"
#include "base/strings/suggest.h"

namespace hone::serve {

using base::Json;

std::string kind_of_json(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "a truth value";
  if (value.is_string()) return "a text";
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  return "the number " + base::dump_json(value);
}

Fields::Fields(std::string_view body) {
  object_ = body.empty() ? Json::object() : base::parse_json(body, "the request's body");
  if (object_.is_object()) return;
  throw base::UserError({.where = "the request's body",
                         .expected = "a JSON object",
                         .found = kind_of_json(object_),
                         .cause = {},
                         .fix = {}});
}

Fields::Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (object_.is_object()) return;
  throw base::UserError(
      {.where = where_, .expected = "an object", .found = kind_of_json(object_), .cause = {}, .fix = {}});
}

std::string Fields::named(std::string_view name) const {
  return where_.empty() ? std::string(name) : where_ + "." + std::string(name);
}

void Fields::fail(std::string_view name, const std::string& expected, const std::string& found) const {
  throw base::UserError({.where = named(name), .expected = expected, .found = found, .cause = {}, .fix = {}});
}

void Fields::only(std::initializer_list<std::string_view> known) const {
  for (const auto& [name, value] : object_.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::vector<std::string> names(known.begin(), known.end());
    throw base::UserError(
        {.where = where_.empty() ? "the request's body" : where_,
         .expected = "only fields that hone knows",
         .found = "'" + base::printable(name.substr(0, 100)) + "'." + base::did_you_mean(name, names),
         .cause = "the field is of another version of the SDK, or is not supported",
         .fix = "docs/serve.md lists the fields, and the versions that were tested"});
  }
}

const Json* Fields::find(std::string_view name) const {
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> Fields::maybe_text(std::string_view name) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail(name, "a text", kind_of_json(*value));
  return value->get<std::string>();
}

std::string Fields::text(std::string_view name) const {
  std::optional<std::string> out = maybe_text(name);
  if (!out) fail(name, "a text", "nothing");
  return *std::move(out);
}

std::int64_t Fields::whole_or(std::string_view name, std::int64_t absent, std::int64_t least,
                              std::int64_t most) const {
  return find(name) == nullptr ? absent : whole(name, least, most);
}

std::int64_t Fields::whole(std::string_view name, std::int64_t least, std::int64_t most) const {
  const std::string expected = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  const Json* const value = find(name);
  if (value == nullptr) fail(name, expected, "nothing");
  const bool is_large =
      value->is_number_unsigned() &&
      value->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value->is_number_integer() || is_large) fail(name, expected, kind_of_json(*value));
  const auto number = value->get<std::int64_t>();
  if (number < least || number > most) fail(name, expected, std::to_string(number));
  return number;
}

double Fields::number_or(std::string_view name, double absent) const {
  const Json* const value = find(name);
  if (value == nullptr) return absent;
  if (!value->is_number()) fail(name, "a number", kind_of_json(*value));
  const auto number = value->get<double>();
  if (!std::isfinite(number)) fail(name, "a finite number", kind_of_json(*value));
  return number;
}

bool Fields::flag_or(std::string_view name, bool absent) const {
  const Json* const value = find(name);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) fail(name, "true or false", kind_of_json(*value));
  return value->get<bool>();
}

std::optional<Fields> Fields::maybe_object(std::string_view name) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  return Fields(*value, named(name));
}

Json Fields::texts(std::string_view name) const {
  const Json* const value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) fail(name, "an object of texts", kind_of_json(*value));
  for (const auto& [key, text] : value->items())
    if (!text.is_string())
      fail(name, "an object of texts", "'" + base::printable(key) + "' with " + kind_of_json(text));
  return *value;
}

}  // namespace hone::serve
