// Checked arithmetic: conversions and divisions that are not exact throw InternalError.
#pragma once

#include <concepts>
#include <limits>
#include <utility>

#include "base/error.h"

namespace hone::base {

// `value` as To, or InternalError when To cannot hold it.
template <std::integral To, std::integral From>
constexpr To narrow(From value) {
  require(std::in_range<To>(value), "narrow", "a value that fits the smaller integer type");
  return static_cast<To>(value);
}

// a / b, or InternalError when b is 0 or does not divide a.
template <std::integral T>
constexpr T div_exact(T a, T b) {
  require(b != 0 && a % b == 0, "div_exact", "an exact division");
  return a / b;
}

}  // namespace hone::base
