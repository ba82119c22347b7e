// 16-bit floats to and from float, in integer arithmetic. Widening is exact; narrowing rounds to nearest
// even.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace hone::base {

constexpr float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// NaN stays NaN (made quiet), overflow becomes infinity.
constexpr std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

// The bits that lie at `bytes`, aligned or not.
inline std::uint16_t half_at(const std::byte* bytes) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits;
}

constexpr float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormals: fraction x 2^-24, exact
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 0xFFU : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// NaN stays NaN (made quiet), overflow becomes infinity, small values become subnormal or zero.
constexpr std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint32_t>(bits >> 16 & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U | (magnitude >> 13 & 0x3FFU));
  if (magnitude >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // 65536 and above
  const auto rounded = [](std::uint32_t significand, std::uint32_t shift) {
    const std::uint32_t rest = significand & ((1U << shift) - 1);
    const std::uint32_t kept = significand >> shift;
    const std::uint32_t middle = 1U << (shift - 1);
    return kept + (rest > middle || (rest == middle && (kept & 1U) != 0) ? 1U : 0U);
  };
  // normal: a carry out of the fraction increments the exponent, as it should
  if (magnitude >= 0x38800000U) {
    return static_cast<std::uint16_t>(sign | rounded(magnitude - 0x38000000U, 13));
  }
  if (magnitude < 0x33000000U) return static_cast<std::uint16_t>(sign);  // below 2^-25
  const std::uint32_t significand = (magnitude & 0x7FFFFFU) | 0x800000U;
  return static_cast<std::uint16_t>(sign | rounded(significand, 126 - (magnitude >> 23)));
}

}  // namespace hone::base
