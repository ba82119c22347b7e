// Stable 64-bit hashes (FNV-1a) for keys and change detection: the same on every machine and in every
// version. Not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hone::base {

inline constexpr std::uint64_t kHashStart = 0xCBF29CE484222325;

// Pass the last result as `state` to hash data in parts.
constexpr std::uint64_t hash64(std::string_view text, std::uint64_t state = kHashStart) {
  for (const char c : text) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return state;
}

constexpr std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t state = kHashStart) {
  for (const std::byte b : bytes) state = (state ^ std::to_integer<std::uint64_t>(b)) * 0x100000001B3;
  return state;
}

}  // namespace hone::base
