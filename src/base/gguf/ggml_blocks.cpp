#include "base/gguf/ggml_blocks.h"

#include "base/error.h"
#include "base/half.h"

namespace hone::base {
namespace {

unsigned at(const std::byte* bytes, std::size_t i) {
  return std::to_integer<unsigned>(bytes[i]);
}

std::uint8_t low_byte(unsigned value) {
  return static_cast<std::uint8_t>(value & 0xFFU);
}

// 32 numbers: the first 16 in the lower halves of `nibbles`, the others in the upper ones; fifth bits, or none.
void split_small(const std::byte* nibbles, std::uint32_t fifth, GgmlBlock& parts) {
  for (std::size_t i = 0; i < 32; ++i) {
    const unsigned low = at(nibbles, i % 16) >> (i < 16 ? 0 : 4) & 0x0FU;
    parts.codes[i] = low_byte(low | (fifth >> i & 1U) << 4);
  }
}

// 6-bit scales and minima of 8 groups in 12 bytes (k_blocks.cpp writes them).
void split_factors(const std::byte* packed, GgmlBlock& parts) {
  for (std::size_t g = 0; g < 4; ++g) {
    parts.factors[g] = low_byte(at(packed, g) & 63U);
    parts.factors[8 + g] = low_byte(at(packed, g + 4) & 63U);
    parts.factors[4 + g] = low_byte((at(packed, g + 8) & 0x0FU) | at(packed, g) >> 6 << 4);
    parts.factors[12 + g] = low_byte(at(packed, g + 8) >> 4 | at(packed, g + 4) >> 6 << 4);
  }
}

// `fifth`: 32 bytes whose bit g is the fifth bit of group g; null: none.
void split_lines(const std::byte* block, const std::byte* fifth, const std::byte* nibbles, GgmlBlock& parts) {
  parts.halves = {half_at(block), half_at(block + 2)};
  split_factors(block + 4, parts);
  for (std::size_t g = 0; g < 8; ++g) {
    for (std::size_t i = 0; i < 32; ++i) {
      unsigned code = at(nibbles, g / 2 * 32 + i) >> (g % 2 == 0 ? 0 : 4) & 0x0FU;
      if (fifth != nullptr) code |= (at(fifth, i) >> g & 1U) << 4;
      parts.codes[32 * g + i] = low_byte(code);
    }
  }
}

void split_q6_k(const std::byte* block, GgmlBlock& parts) {
  parts.halves[0] = half_at(block + 208);
  std::memcpy(parts.factors.data(), block + 192, 16);
  for (std::size_t e = 0; e < 256; ++e) {
    const std::size_t half = e / 128, run = e % 128 / 32, i = e % 32;
    const unsigned low = at(block, 64 * half + 32 * (run % 2) + i) >> (run < 2 ? 0 : 4) & 0x0FU;
    parts.codes[e] = low_byte(low | (at(block, 128 + 32 * half + i) >> (2 * run) & 3U) << 4);
  }
}

}  // namespace

bool has_ggml_parts(GgmlType type) {
  switch (type) {
    case GgmlType::kQ4_0:
    case GgmlType::kQ5_0:
    case GgmlType::kQ8_0:
    case GgmlType::kQ4_K:
    case GgmlType::kQ5_K:
    case GgmlType::kQ6_K:
      return true;
    default:
      return false;
  }
}

void split_ggml_block(GgmlType type, const std::byte* block, GgmlBlock& parts) {
  require(has_ggml_parts(type), "split_ggml_block", "a type of blocks that are kept");
  std::uint32_t fifth = 0;
  switch (type) {
    case GgmlType::kQ4_K:
      split_lines(block, nullptr, block + 16, parts);
      return;
    case GgmlType::kQ5_K:
      split_lines(block, block + 16, block + 48, parts);
      return;
    case GgmlType::kQ6_K:
      split_q6_k(block, parts);
      return;
    case GgmlType::kQ8_0:
      std::memcpy(parts.codes.data(), block + 2, 32);
      break;
    case GgmlType::kQ5_0:
      std::memcpy(&fifth, block + 2, sizeof fifth);
      split_small(block + 6, fifth, parts);
      break;
    default:  // Q4_0
      split_small(block + 2, 0, parts);
      break;
  }
  parts.halves[0] = half_at(block);
}

}  // namespace hone::base
