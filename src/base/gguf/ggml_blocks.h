// The parts of ggml's quantized blocks, for those who keep a matrix in its blocks (ops/kept_ggml.h).
//
//   Q4_0, Q5_0, Q8_0   32 numbers: half * (code - 8), (code - 16), code
//   Q4_K, Q5_K         256 numbers in 8 groups of 32: halves[0] * factors[g] * code - halves[1] * factors[8 + g]
//   Q6_K               256 numbers in 16 groups of 16: halves[0] * factors[g] * (code - 32)
//
// The factors of Q6_K and the codes of Q8_0 are signed. Layouts: ggml-common.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/gguf/gguf.h"

namespace hone::base {

struct GgmlBlock {
  std::array<std::uint8_t, 256> codes{};
  std::array<std::uint16_t, 2> halves{};  // fp16
  std::array<std::uint8_t, 16> factors{};
};

bool has_ggml_parts(GgmlType type);
// InternalError for a type without parts.
void split_ggml_block(GgmlType type, const std::byte* block, GgmlBlock& parts);

}  // namespace hone::base
