#include "serve/openai/schema_pattern.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "base/strings/pattern.h"
#include "base/strings/suggest.h"
#include "serve/openai/errors.h"

namespace hone::serve::openai {
namespace {

using base::Json;

constexpr int kMostDepth = 32;               // of schemas in schemas
constexpr int kMostSchemas = 4096;           // that are read: $ref may name one again and again
constexpr std::int64_t kMostRepeats = 4096;  // of a letter or an item that has a bound
constexpr std::string_view kPath = "response_format.json_schema.schema";

// One letter of a text: surrogates are halves of letters, so they are not written as \u.
constexpr std::string_view kLetter =
    R"re((?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u(?:[0-9a-ce-fA-CE-F][0-9a-fA-F]|[dD][0-7])[0-9a-fA-F]{2}))re";
constexpr std::string_view kInteger = "-?(?:0|[1-9][0-9]{0,15})";
constexpr std::string_view kFraction = R"re((?:\.[0-9]{1,16})?(?:[eE][+-]?[0-9]{1,2})?)re";
constexpr std::string_view kComma = ", ?", kColon = ": ?";

constexpr std::array<std::string_view, 10> kSilent = {"title",    "description", "default", "examples",
                                                      "$schema",  "$id",         "$defs",   "deprecated",
                                                      "readOnly", "writeOnly"};
constexpr std::array<std::string_view, 7> kTypes = {"object",  "array",   "string", "number",
                                                    "integer", "boolean", "null"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view(R"(\.^$*+?{}[]|()-)").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string literal(const Json& value) {
  return escaped(base::dump_json(value));
}

std::string text_of(const std::string& repeats) {
  return '"' + std::string(kLetter) + repeats + '"';
}

std::string number() {
  return std::string(kInteger) + std::string(kFraction);
}

// `begin` one `end`, none, or several with commas between them.
std::string listed(const char* begin, const std::string& one, const char* end) {
  return begin + ("(?:" + one + "(?:" + std::string(kComma) + one + ")*)?") + end;
}

std::string members(const std::string& value) {
  return listed(R"(\{)", text_of("*") + std::string(kColon) + value, R"(\})");
}

std::string any_value(int depth) {
  std::string out = "(?:" + text_of("*") + "|" + number() + "|true|false|null";
  if (depth > 0) {
    const std::string inner = any_value(depth - 1);
    out += "|" + listed(R"(\[)", inner, R"(\])") + "|" + members(inner);
  }
  return out + ")";
}

bool is_of(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_number_integer();
  return type == "boolean" ? value.is_boolean() : value.is_null();
}

class Writer {
 public:
  explicit Writer(const Json& root) : root_(root) {}

  std::string of(const Json& schema, const std::string& path, int depth) {
    if (++schemas_ > kMostSchemas) refuse(path, "stands in too many places: the schema is too large");
    if (depth > kMostDepth) refuse(path, "is nested deeper than 32 schemas, or holds itself");
    if (schema.is_boolean() && schema.get<bool>()) return any_value(kMostFree);
    if (!schema.is_object()) refuse(path, "must be a schema, an object");
    std::string out;
    if (const auto inner = other(schema, path)) {
      out = of(*inner->schema, inner->path, depth + 1);
    } else if (const Json* const all = word(schema, "anyOf")) {
      only(schema, path, {"anyOf"});
      if (!all->is_array() || all->empty()) refuse(path + ".anyOf", "must be a list of schemas");
      for (std::size_t i = 0; i < all->size(); ++i)
        out += (i == 0 ? "(?:" : "|") + of((*all)[i], path + ".anyOf." + std::to_string(i), depth + 1);
      out += ")";
    } else if (schema.contains("enum") || schema.contains("const")) {
      out = constants(schema, path);
    } else {
      out = typed(schema, path, depth);
    }
    if (out.size() > base::Pattern::kMaxSource / 2) refuse(path, "allows too many forms: it is too large");
    return out;
  }

 private:
  struct Inner {
    const Json* schema;
    std::string path;
  };

  // A name of a client's may be long.
  static std::string shown(const std::string& path) {
    constexpr std::size_t kMost = 200;
    return path.size() <= kMost ? path : path.substr(0, kMost) + "...";
  }

  [[noreturn]] static void refuse(const std::string& path, const std::string& what) {
    throw Refusal(400, shown(path) + " " + what, "response_format");
  }

  static const Json* word(const Json& schema, const char* name) {
    const auto place = schema.find(name);
    return place == schema.end() ? nullptr : &*place;
  }

  // Beside those of `read` and the silent ones there is no other word.
  static void only(const Json& schema, const std::string& path, std::vector<std::string> read) {
    for (const auto& [name, value] : schema.items()) {
      if (std::find(kSilent.begin(), kSilent.end(), name) != kSilent.end() || name == "definitions") continue;
      if (std::find(read.begin(), read.end(), name) != read.end()) continue;
      throw Refusal(400,
                    shown(path + "." + name) + " is not supported here." + base::did_you_mean(name, read),
                    "response_format", "unsupported_parameter");
    }
  }

  // What $ref, or allOf with one schema, stands for.
  std::optional<Inner> other(const Json& schema, const std::string& path) const {
    if (const Json* const all = word(schema, "allOf")) {
      only(schema, path, {"allOf"});
      if (!all->is_array() || all->size() != 1) refuse(path + ".allOf", "must be a list of one schema");
      return Inner{&all->front(), path + ".allOf.0"};
    }
    const Json* const ref = word(schema, "$ref");
    if (ref == nullptr) return {};
    only(schema, path, {"$ref"});
    if (!ref->is_string() || !ref->get<std::string>().starts_with("#"))
      refuse(path + ".$ref", "must begin with '#', a place in the schema itself");
    const std::string place = ref->get<std::string>().substr(1);
    try {
      return Inner{&root_.at(Json::json_pointer(place)), std::string(kPath) + place};
    } catch (const Json::exception&) {
      refuse(path + ".$ref", "names '#" + place.substr(0, 60) + "', which the schema does not have");
    }
  }

  static std::vector<std::string> types(const Json& schema, const std::string& path) {
    const Json* const type = word(schema, "type");
    if (type == nullptr) return {};
    std::vector<std::string> out;
    for (const Json& one : type->is_array() ? *type : Json::array({*type})) {
      if (!one.is_string() || std::find(kTypes.begin(), kTypes.end(), one.get<std::string>()) == kTypes.end())
        refuse(path + ".type",
               "must be object, array, string, number, integer, boolean or null, or a list of them");
      out.push_back(one.get<std::string>());
    }
    if (out.empty()) refuse(path + ".type", "must name a type");
    return out;
  }

  static std::string constants(const Json& schema, const std::string& path) {
    only(schema, path, {"enum", "const", "type"});
    if (schema.contains("enum") && schema.contains("const"))
      refuse(path, "has enum and const: leave one out");
    const bool is_one = schema.contains("const");
    const Json values = is_one ? Json::array({schema["const"]}) : schema["enum"];
    if (!values.is_array() || values.empty()) refuse(path + ".enum", "must be a list of values");
    const std::vector<std::string> allowed = types(schema, path);
    std::string out;
    for (const Json& value : values) {
      if (!allowed.empty() && std::none_of(allowed.begin(), allowed.end(),
                                           [&](const std::string& type) { return is_of(value, type); }))
        refuse(path, "has a constant of another type than its own");
      out += (out.empty() ? "(?:" : "|") + literal(value);
    }
    return out + ")";
  }

  std::string typed(const Json& schema, const std::string& path, int depth) {
    std::vector<std::string> all = types(schema, path), read = {"type"};
    if (all.empty() && schema.contains("properties")) all = {"object"};
    if (all.empty() && schema.contains("items")) all = {"array"};
    std::string out;
    for (const std::string& type : all) {
      out += out.empty() ? "(?:" : "|";
      if (type == "object") {
        read.insert(read.end(), {"properties", "required", "additionalProperties"});
        out += object(schema, path, depth);
      } else if (type == "array") {
        read.insert(read.end(), {"items", "minItems", "maxItems"});
        out += array(schema, path, depth);
      } else if (type == "string") {
        read.insert(read.end(), {"minLength", "maxLength"});
        out += text_of(counts(schema, path, "minLength", "maxLength"));
      } else if (type == "boolean") {
        out += "true|false";
      } else {
        out += type == "null" ? "null" : type == "integer" ? std::string(kInteger) : number();
      }
    }
    only(schema, path, read);
    return all.empty() ? any_value(kMostFree) : out + ")";
  }

  static std::int64_t count(const Json& schema, const std::string& path, const char* name,
                            std::int64_t otherwise) {
    const Json* const given = word(schema, name);
    if (given == nullptr) return otherwise;
    if (!given->is_number_unsigned() ||
        given->get<std::uint64_t>() > static_cast<std::uint64_t>(kMostRepeats))
      refuse(path + "." + name, "must be a whole number from 0 to " + std::to_string(kMostRepeats));
    return given->get<std::int64_t>();
  }

  // {least,most}
  static std::string counts(const Json& schema, const std::string& path, const char* least,
                            const char* most) {
    const std::int64_t from = count(schema, path, least, 0), to = count(schema, path, most, -1);
    if (to >= 0 && to < from) refuse(path + "." + most, std::string("is below ") + least);
    return "{" + std::to_string(from) + "," + (to < 0 ? "" : std::to_string(to)) + "}";
  }

  std::string array(const Json& schema, const std::string& path, int depth) {
    const Json* const items = word(schema, "items");
    const std::int64_t from = count(schema, path, "minItems", 0), to = count(schema, path, "maxItems", -1);
    if (to >= 0 && to < from) refuse(path + ".maxItems", "is below minItems");
    const std::string one = items == nullptr ? any_value(kMostFree) : of(*items, path + ".items", depth + 1);
    if (to == 0) return R"(\[\])";
    const std::string more = "{" + std::to_string(std::max<std::int64_t>(from - 1, 0)) + "," +
                             (to < 0 ? "" : std::to_string(to - 1)) + "}";
    return R"(\[(?:)" + one + "(?:" + std::string(kComma) + one + ")" + more + (from > 0 ? ")" : ")?") +
           R"(\])";
  }

  std::string object(const Json& schema, const std::string& path, int depth) {
    const Json* const properties = word(schema, "properties");
    const Json* const more = word(schema, "additionalProperties");
    if (properties != nullptr && !properties->is_object()) refuse(path + ".properties", "must be an object");
    std::vector<std::string> required;
    if (const Json* const names = word(schema, "required")) {
      if (!names->is_array()) refuse(path + ".required", "must be a list of names");
      for (const Json& name : *names) {
        if (!name.is_string() || properties == nullptr || !properties->contains(name.get<std::string>()))
          refuse(path + ".required", "must be names that properties has");
        required.push_back(name.get<std::string>());
      }
    }
    if (properties == nullptr || properties->empty()) {
      if (more != nullptr && more->is_boolean() && !more->get<bool>()) return R"(\{\})";
      return members(more == nullptr ? any_value(kMostFree)
                                     : of(*more, path + ".additionalProperties", depth + 1));
    }
    // From the last on: what may follow a member that was written, and what may begin the object.
    std::string after, first;
    for (auto one = properties->rbegin(); one != properties->rend(); ++one) {
      const std::string& name = one.key();
      const std::string member = literal(Json(name)) + std::string(kColon) +
                                 of(one.value(), path + ".properties." + name, depth + 1);
      const bool must = std::find(required.begin(), required.end(), name) != required.end();
      first = must ? member + after : "(?:" + member + after + "|" + first + ")";
      after = (must ? std::string(kComma) + member : "(?:" + std::string(kComma) + member + ")?") + after;
      if (first.size() > base::Pattern::kMaxSource / 2)
        refuse(path, "allows too many forms: it is too large");
    }
    return R"(\{)" + first + R"(\})";
  }

  int schemas_ = 0;  // that were read so far
  const Json& root_;
};

}  // namespace

std::string pattern_of_schema(const Json& schema) {
  return Writer(schema).of(schema, std::string(kPath), 0);
}

std::string pattern_of_any_object() {
  return members(any_value(kMostFree + 1));
}

}  // namespace hone::serve::openai
