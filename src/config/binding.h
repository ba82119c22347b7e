// How a row of the option table fills a field of a plan: the field's type gives the values that the option
// accepts, and its initial value the default.
//
//   bool                     true, false
//   std::int64_t             a whole number
//   double                   a number
//   std::string              any scalar
//   std::vector<std::string> a list, of one where a scalar is given
//   std::vector<double>      the same of numbers
//   std::optional<T>         null is the empty one
//   an enum, with Choices    one of the words
//
// Null for another type, where it is accepted, gives T(): 0, "", {}.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace hone::config {

enum class Kind {
  kBool,    // true, false (yes, no, 1, 0 too, as HfArgumentParser)
  kInt,     // 64-bit whole number
  kFloat,   // finite double
  kString,  // any scalar
  kChoice,  // one of the row's values
  kList,    // strings; a scalar is a list of one
  kMap,     // YAML mapping, or JSON text on the command line
  kIds,     // token ids: a list, or a mapping of one name to a list; JSON, or numbers, on the command line
  kAny,     // kept as read; for rows that treat every value alike
};

// The values of a choice and their enumerators, in the order of --help.
template <typename Enum, std::size_t N>
using Choices = std::array<std::pair<std::string_view, Enum>, N>;

// A field of one of the plan's structs.
struct Binding {
  std::type_index part = typeid(void);  // the struct; void: none
  // Writes `value`, of the option's kind, to the field of *part. `where` is for messages.
  std::function<void(void* part, const base::Json& value, const std::string& where)> set;
};

std::string number_text(double value);           // JSON as people write it: 1.0, 2e-5
std::string json_string(std::string_view text);  // a JSON string
std::int64_t bytes_of(const base::Json& value, const std::string& where);  // "2GB"; null: 0

namespace binding {

template <typename T>
struct Inner {
  using Type = T;
  static constexpr bool kOptional = false, kList = false;
};
template <typename T>
struct Inner<std::optional<T>> : Inner<T> {
  static constexpr bool kOptional = true;
};
template <typename T>
struct Inner<std::vector<T>> {
  using Type = T;
  static constexpr bool kOptional = false, kList = true;
};
template <>
struct Inner<std::pair<double, double>> {
  using Type = double;
  static constexpr bool kOptional = false, kList = true;
};

template <typename Field>
void store(Field& field, const base::Json& value) {
  if (value.is_null()) {
    field = Field();
  } else if constexpr (Inner<Field>::kOptional) {
    field = value.get<typename Field::value_type>();
  } else if constexpr (Inner<Field>::kList) {
    field = value.is_array() ? value.get<Field>() : Field{value.get<typename Inner<Field>::Type>()};
  } else {
    field = value.get<Field>();
  }
}

}  // namespace binding

template <typename Field>
constexpr Kind kind_of() {
  using In = binding::Inner<Field>;
  if (In::kList) return Kind::kList;
  if (std::is_same_v<typename In::Type, bool>) return Kind::kBool;
  if (std::is_integral_v<typename In::Type>) return Kind::kInt;
  return std::is_floating_point_v<typename In::Type> ? Kind::kFloat : Kind::kString;
}

// An empty text or list is null.
template <typename Field>
std::string default_text_of(const Field& value) {
  if constexpr (binding::Inner<Field>::kOptional) {
    return value ? default_text_of(*value) : "null";
  } else if constexpr (binding::Inner<Field>::kList) {
    const base::Json list = value;
    return list.empty() ? "null" : list.dump();
  } else if constexpr (std::is_same_v<Field, std::string>) {
    return value.empty() ? "null" : json_string(value);
  } else if constexpr (std::is_floating_point_v<Field>) {
    return number_text(value);
  } else {
    return base::Json(value).dump();
  }
}

template <typename Part, typename Field>
Binding bind_field(Field Part::* field) {
  return {typeid(Part), [field](void* part, const base::Json& value, const std::string&) {
            binding::store(static_cast<Part*>(part)->*field, value);
          }};
}

// `words` outlives the binding.
template <typename Part, typename Enum, std::size_t N>
Binding bind_choices(Enum Part::* field, const Choices<Enum, N>& words) {
  return {typeid(Part), [field, &words](void* part, const base::Json& value, const std::string&) {
            const auto word = std::find_if(words.begin(), words.end(), [&](const auto& one) {
              return value.is_string() && one.first == value.template get_ref<const std::string&>();
            });
            base::require(word != words.end(), "config::bind_choices", "a checked value of a choice");
            static_cast<Part*>(part)->*field = word->second;
          }};
}

template <typename Part>
Binding bind_bytes(std::int64_t Part::* field) {
  return {typeid(Part), [field](void* part, const base::Json& value, const std::string& where) {
            static_cast<Part*>(part)->*field = bytes_of(value, where);
          }};
}

}  // namespace hone::config
