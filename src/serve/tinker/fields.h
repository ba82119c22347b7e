// The fields of a JSON request. Reading one that is absent, of another type or out of range is a UserError
// that names it; null counts as absent.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace hone::serve {

class Fields {
 public:
  // UserError unless `body` is a JSON object; an empty body is an empty object.
  explicit Fields(std::string_view body);
  // A part of a request; `where` is its field, for errors.
  Fields(const base::Json& object, std::string where);

  // UserError for a field that is not among these, with what may have been meant.
  void only(std::initializer_list<std::string_view> known) const;

  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::string text(std::string_view name) const;
  std::optional<std::string> maybe_text(std::string_view name) const;
  std::int64_t whole(std::string_view name, std::int64_t least = 0,
                     std::int64_t most = std::numeric_limits<std::int32_t>::max()) const;
  std::int64_t whole_or(std::string_view name, std::int64_t absent, std::int64_t least = 0,
                        std::int64_t most = std::numeric_limits<std::int32_t>::max()) const;
  double number_or(std::string_view name, double absent) const;  // finite
  bool flag_or(std::string_view name, bool absent) const;
  std::optional<Fields> maybe_object(std::string_view name) const;
  const base::Json* find(std::string_view name) const;  // null: absent
  // An object of texts, as JSON; null where it is absent.
  base::Json texts(std::string_view name) const;

  [[noreturn]] void fail(std::string_view name, const std::string& expected, const std::string& found) const;

 private:
  std::string named(std::string_view name) const;
  base::Json object_;
  std::string where_;
};

// Says what a value is, for errors: "a text", "an array", ...
std::string kind_of_json(const base::Json& value);

}  // namespace hone::serve
