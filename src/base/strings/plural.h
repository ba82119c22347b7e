// Singular and plural of counted things in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hone::base {

// The noun alone, for a text that writes the number itself: "row" for 1, else "rows", or `many` where an s is not enough.
inline std::string plural(std::int64_t count, std::string_view one, std::string_view many = "") {
  if (count == 1) return std::string(one);
  return many.empty() ? std::string(one) + "s" : std::string(many);
}

// "1 row", "2 rows".
inline std::string counted(std::int64_t count, std::string_view one, std::string_view many = "") {
  return std::to_string(count) + " " + plural(count, one, many);
}

}  // namespace hone::base
