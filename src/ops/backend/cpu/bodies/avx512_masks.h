// Masks of the first n lanes, for files that are compiled for avx512 (cmake/Folders.cmake). n may be above the lanes, or negative.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace hone::ops::kernels {

[[gnu::always_inline]] inline __mmask16 first_floats(std::int64_t n) {
  return static_cast<__mmask16>(n >= 16 ? 0xFFFF : (1U << (n < 0 ? 0 : n)) - 1);
}

[[gnu::always_inline]] inline __mmask32 first_words(std::int64_t n) {
  return n >= 32 ? ~__mmask32{0} : (__mmask32{1} << (n < 0 ? 0 : n)) - 1;
}

}  // namespace hone::ops::kernels
