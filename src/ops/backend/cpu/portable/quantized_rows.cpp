// The portable form of quantized_kernels.h, which defines the others. Compiled without contraction (cmake/Folders.cmake): a
// scale that is quantized itself is a product and a sum, each rounded, as bitsandbytes computes it.
#include <cstring>

#include "base/half.h"
#include "ops/backend/cpu/quantized_kernels.h"

namespace hone::ops::kernels {

float scale_at(const QuantizedView& matrix, std::int64_t block) {
  if (matrix.scales != nullptr) return matrix.scales[block];
  const float scaled =
      matrix.scale_table[matrix.scale_codes[block]] * matrix.scale_scales[block / matrix.scale_block];
  return scaled + matrix.scale_offset;
}

namespace {

using std::int64_t;

constexpr int64_t kSuper = 256;  // numbers of a block of ggml's K types

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
    const float scale = scale_at(matrix, block);
    for (; i < end; ++i) put(code_at(matrix, i) * scale, to + (i - begin));
  }
}

// ---- panels

Word word_at(const std::uint8_t* words, int64_t i) {
  Word word;
  std::memcpy(&word, words + 4 * i, sizeof word);
  return word;
}

float half_at(const std::uint8_t* halves, int64_t i) {
  std::uint16_t bits;
  std::memcpy(&bits, halves + 2 * i, sizeof bits);
  return base::half_to_float(bits);
}

// What the code of number `k` of a panel's row `row` stands for.
float value_at(const PanelView& m, int64_t panel, int64_t row, int64_t k) {
  if (m.bits == 8) {
    const std::uint8_t code = m.low[(panel * m.in + k) * kPanelWide + row];
    return static_cast<float>(static_cast<std::int8_t>(code));
  }
  const auto bits_at = [&](const std::uint8_t* words, int64_t each, unsigned mask) {
    const Word word = word_at(words, (panel * m.in + k) / each * kPanelWide + row);
    return word >> (k % each * (32 / each)) & mask;
  };
  const unsigned low = bits_at(m.low, 8, 15);
  if (m.bits == 4) return m.table[low];
  const unsigned high = m.bits == 5 ? bits_at(m.high, 32, 1) : bits_at(m.high, 16, 3);
  return m.table[low] + static_cast<float>(16 * high);
}

struct ScaleAndMinimum {
  float scale = 0, minimum = 0;
};

ScaleAndMinimum scales_of(const PanelView& m, int64_t panel, int64_t row, int64_t k) {
  const int64_t groups = m.in / m.group, group = k / m.group;
  const int64_t place = panel * groups + group, super = (panel * m.in + k) / kSuper;
  switch (m.scale_kind) {
    case PanelScales::kOfRows:
      return {scale_at(m.of_rows, (panel * kPanelWide + row) * groups + group)};
    case PanelScales::kHalf:
      return {half_at(m.halves, place * kPanelWide + row)};
    case PanelScales::kHalfTimes8: {
      const std::uint8_t factor = m.bytes[place * kPanelWide + row];
      return {half_at(m.halves, super * kPanelWide + row) *
              static_cast<float>(static_cast<std::int8_t>(factor))};
    }
    case PanelScales::kWithMinimum: {
      const int64_t scale = 2 * place * kPanelWide + row, of = 2 * super * kPanelWide + row;
      return {half_at(m.halves, of) * static_cast<float>(m.bytes[scale]),
              half_at(m.halves, of + kPanelWide) * static_cast<float>(m.bytes[scale + kPanelWide])};
    }
  }
  return {};
}

}  // namespace

void dequantize_run(const QuantizedView& matrix, int64_t begin, int64_t count, float* to) {
  run(matrix, begin, count, to);
}

void dequantize_run(const QuantizedView& matrix, int64_t begin, int64_t count, Bf16* to) {
  run(matrix, begin, count, to);
}

void unpack_panel(const PanelView& m, const Unpack& run) {
  for (int64_t row = 0; row < kPanelWide; ++row) {
    ScaleAndMinimum found;
    for (int64_t k = run.begin; k < run.begin + run.k; ++k) {
      if (k == run.begin || k % m.group == 0) found = scales_of(m, run.panel, row, k);
      float value = value_at(m, run.panel, row, k) * found.scale;
      if (m.scale_kind == PanelScales::kWithMinimum) value = value - found.minimum;
      const int64_t at = k - run.begin;
      if (run.is_float) {
        put(value, reinterpret_cast<float*>(run.to) + at * kPanelWide + row);
      } else {
        put(value, reinterpret_cast<Bf16*>(run.to) + (at / 2 * kPanelWide + row) * 2 + at % 2);
      }
    }
  }
}

}  // namespace hone::ops::kernels
