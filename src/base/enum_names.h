// The words of an enum, as one array in the order of its values.
#pragma once

#include <array>
#include <cstddef>

namespace hone::base {

// names[value]; an empty word for a value that the array does not have.
template <typename Word, std::size_t N, typename Enum>
constexpr Word enum_name(const std::array<Word, N>& names, Enum value) {
  const auto at = static_cast<std::size_t>(value);
  return at < N ? names[at] : Word("");
}

}  // namespace hone::base
