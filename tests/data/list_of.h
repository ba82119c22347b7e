// Of an example's tokens or flags, a vector that can be compared.
#pragma once

#include <span>
#include <vector>

namespace hone::data {

template <typename T>
std::vector<T> list_of(std::span<const T> values) {
  return {values.begin(), values.end()};
}

}  // namespace hone::data
