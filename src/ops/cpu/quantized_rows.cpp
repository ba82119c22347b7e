// The plain form of quantized_kernels.h. Compiled without contraction (CMakeLists.txt): a scale that is
// quantized itself is a product and a sum, each rounded, as bitsandbytes computes it.
#include <cstring>

#include "ops/cpu/quantized_kernels.h"

namespace hone::ops::kernels {
namespace {

using std::int64_t;

float scale_of(const QuantizedView& matrix, int64_t block) {
  if (matrix.scales != nullptr) return matrix.scales[block];
  const float scaled =
      matrix.scale_table[matrix.scale_codes[block]] * matrix.scale_scales[block / matrix.scale_block];
  return scaled + matrix.scale_offset;
}

float code_at(const QuantizedView& matrix, int64_t i) {
  if (matrix.table == nullptr) return static_cast<float>(static_cast<std::int8_t>(matrix.codes[i]));
  const unsigned pair = matrix.codes[i / 2];
  return matrix.table[i % 2 == 0 ? pair >> 4 : pair & 15U];
}

void put(float value, float* to) {
  *to = value;
}

void put(float value, Bf16* to) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  *to = static_cast<Bf16>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

template <typename T>
void run(const QuantizedView& matrix, int64_t begin, int64_t count, T* to) {
  for (int64_t i = begin; i < begin + count;) {
    const int64_t block = i / matrix.block;
    const int64_t end =
        (block + 1) * matrix.block < begin + count ? (block + 1) * matrix.block : begin + count;
    const float scale = scale_of(matrix, block);
    for (; i < end; ++i) put(code_at(matrix, i) * scale, to + (i - begin));
  }
}

}  // namespace

void dequantize_run(const QuantizedView& matrix, int64_t begin, int64_t count, float* to) {
  run(matrix, begin, count, to);
}

void dequantize_run(const QuantizedView& matrix, int64_t begin, int64_t count, Bf16* to) {
  run(matrix, begin, count, to);
}

}  // namespace hone::ops::kernels
