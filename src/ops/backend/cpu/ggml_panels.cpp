#include "ops/kept_ggml.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/gguf/ggml_blocks.h"
#include "base/gguf/ggml_types.h"
#include "base/gguf/quantize.h"
#include "base/half.h"
#include "ops/backend/cpu/gemm_blocks.h"
#include "ops/backend/cpu/quantized_panels.h"

namespace hone::ops {
namespace {

using kernels::kPanelWide;
using kernels::PanelScales;
using kernels::Word;
using std::int64_t;

constexpr int64_t kSuper = 256;

// How a type lies in panels.
struct Layout {
  base::GgmlType type;
  QuantType kept;
  int bits;
  int zero;       // of the codes
  int64_t block;  // numbers
  int64_t group;  // numbers a scale
  PanelScales scales;
};
constexpr std::array<Layout, 6> kLayouts = {{
    {base::GgmlType::kQ4_0, QuantType::kQ4_0, 4, 8, 32, 32, PanelScales::kHalf},
    {base::GgmlType::kQ5_0, QuantType::kQ5_0, 5, 16, 32, 32, PanelScales::kHalf},
    {base::GgmlType::kQ8_0, QuantType::kQ8_0, 8, 0, 32, 32, PanelScales::kHalf},
    {base::GgmlType::kQ4_K, QuantType::kQ4_K, 4, 0, kSuper, 32, PanelScales::kWithMinimum},
    {base::GgmlType::kQ5_K, QuantType::kQ5_K, 5, 0, kSuper, 32, PanelScales::kWithMinimum},
    {base::GgmlType::kQ6_K, QuantType::kQ6_K, 6, 32, kSuper, 16, PanelScales::kHalfTimes8},
}};

const Layout* find(base::GgmlType type) {
  for (const Layout& layout : kLayouts) {
    if (layout.type == type) return &layout;
  }
  return nullptr;
}

const Layout& layout_of(QuantType kept) {
  for (const Layout& layout : kLayouts) {
    if (layout.kept == kept) return layout;
  }
  throw base::InternalError({"ops::ggml_panels", "a type of ggml's", "another", "", ""});
}

int64_t low_bytes(const Layout& layout, int64_t numbers) {
  return layout.bits == 8 ? numbers : numbers / 2;
}

int64_t high_bytes(const Layout& layout, int64_t numbers) {
  return layout.bits == 5 ? numbers / 8 : layout.bits == 6 ? numbers / 4 : 0;
}

int64_t half_bytes(const Layout& layout, int64_t numbers) {
  return numbers / layout.block * (layout.scales == PanelScales::kWithMinimum ? 4 : 2);
}

int64_t factor_bytes(const Layout& layout, int64_t numbers) {
  if (layout.scales == PanelScales::kHalf) return 0;
  return numbers / layout.group * (layout.scales == PanelScales::kWithMinimum ? 2 : 1);
}

// Where the parts of a matrix go.
struct Panels {
  const Layout& layout;
  int64_t in;
  std::uint8_t *low, *high, *halves, *factors;

  void put(const base::GgmlBlock& parts, int64_t panel, int64_t row, int64_t k) const {
    const int64_t at = panel * in + k;
    put_codes(parts.codes.data(), at, row);
    const int64_t block = at / layout.block * kPanelWide;
    if (layout.scales != PanelScales::kWithMinimum) {
      put_half(parts.halves[0], block + row);
    } else {
      put_half(parts.halves[0], 2 * block + row);
      put_half(parts.halves[1], 2 * block + kPanelWide + row);
    }
    if (layout.scales == PanelScales::kHalf) return;
    for (int64_t g = 0; g < layout.block / layout.group; ++g) {
      const int64_t group = (at / layout.group + g) * kPanelWide;
      const auto factor = static_cast<std::size_t>(g);
      if (layout.scales == PanelScales::kHalfTimes8) {
        factors[group + row] = parts.factors[factor];
      } else {
        factors[2 * group + row] = parts.factors[factor];
        factors[2 * group + kPanelWide + row] = parts.factors[8 + factor];
      }
    }
  }

 private:
  void put_half(std::uint16_t bits, int64_t i) const { std::memcpy(halves + 2 * i, &bits, sizeof bits); }

  // `each` fields of 32 / each bits a word.
  static void put_fields(const std::uint8_t* codes, int64_t count, int64_t each, int shift,
                         std::uint8_t* words, int64_t at, int64_t row) {
    const int64_t width = 32 / each;
    for (int64_t i = 0; i < count; i += each) {
      Word word = 0;
      for (int64_t j = 0; j < each; ++j) {
        const Word field = static_cast<Word>(codes[i + j]) >> shift & ((Word{1} << width) - 1);
        word |= field << (j * width);
      }
      std::memcpy(words + ((at + i) / each * kPanelWide + row) * 4, &word, sizeof word);
    }
  }

  void put_codes(const std::uint8_t* codes, int64_t at, int64_t row) const {
    if (layout.bits == 8) {
      for (int64_t i = 0; i < layout.block; ++i) low[(at + i) * kPanelWide + row] = codes[i];
      return;
    }
    put_fields(codes, layout.block, 8, 0, low, at, row);
    if (layout.bits > 4) put_fields(codes, layout.block, layout.bits == 5 ? 32 : 16, 4, high, at, row);
  }
};

// The table of kernels::PanelView: the lowest 4 bits less `zero`.
at::Tensor table_of(const Layout& layout) {
  at::Tensor table = at::empty({16}, at::kFloat);
  for (int i = 0; i < 16; ++i) table.mutable_data_ptr<float>()[i] = static_cast<float>(i - layout.zero);
  return table;
}

// fp16 times whole numbers below 2^14 is zero or between 2^-24 and 2^30, and so are their differences.
bool all_finite(const at::Tensor& scales, int64_t bytes) {
  const auto* const halves = scales.const_data_ptr<std::uint8_t>();
  for (int64_t i = 0; i < bytes; i += 2) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, halves + i, sizeof bits);
    if (!std::isfinite(base::half_to_float(bits))) return false;
  }
  return true;
}

void put_q4_0(const float* x, std::byte* block) {
  float most = 0;
  for (int i = 0; i < 32; ++i) most = std::max(most, std::fabs(x[i]));
  const std::uint16_t half = base::float_to_half(most / 7);
  const float scale = base::half_to_float(half);
  const auto code = [&](int i) {
    const float level = scale == 0 ? 0 : std::clamp(std::nearbyint(x[i] / scale), -8.0F, 7.0F);
    return static_cast<unsigned>(static_cast<int>(level) + 8);
  };
  std::memcpy(block, &half, sizeof half);
  for (int i = 0; i < 16; ++i) block[2 + i] = static_cast<std::byte>(code(i) | code(i + 16) << 4);
}

}  // namespace

std::optional<QuantScheme> kept_ggml_scheme(base::GgmlType type, int64_t out, int64_t in,
                                            at::ScalarType compute) {
  const Layout* const layout = find(type);
  if (layout == nullptr || gemm_kernels(compute) == nullptr) return std::nullopt;
  Quantized shape;
  shape.out = out;
  shape.in = in;
  shape.block = layout->group;
  if (!fits_panels(shape) || in % layout->block != 0) return std::nullopt;
  return QuantScheme{.type = layout->kept};
}

int64_t kept_ggml_bytes(int64_t out, int64_t in, const QuantScheme& scheme) {
  const Layout& layout = layout_of(scheme.type);
  const int64_t numbers = out * in;
  return low_bytes(layout, numbers) + high_bytes(layout, numbers) + half_bytes(layout, numbers) +
         factor_bytes(layout, numbers);
}

Quantized keep_ggml(base::GgmlType type, std::span<const std::byte> blocks, int64_t out, int64_t in,
                    const std::vector<int64_t>& source_rows) {
  const Layout* const layout = find(type);
  const int64_t numbers = out * in;
  base::require(layout != nullptr && out % kPanelWide == 0 && in % layout->block == 0, "ops::keep_ggml",
                "whole panels of a type that is kept");
  const auto bytes = static_cast<int64_t>(base::find_ggml_type(static_cast<std::uint32_t>(type))->bytes);
  base::require(static_cast<int64_t>(blocks.size()) == numbers / layout->block * bytes, "ops::keep_ggml",
                "the blocks of the whole matrix");
  Quantized kept;
  kept.scheme = {.type = layout->kept};
  kept.out = out;
  kept.in = in;
  kept.block = layout->group;
  kept.layout = &cpu::kPanelCodes;
  const int64_t low = low_bytes(*layout, numbers), half = half_bytes(*layout, numbers);
  kept.codes = at::empty({low + high_bytes(*layout, numbers)}, at::kByte);
  kept.scales = at::empty({half + factor_bytes(*layout, numbers)}, at::kByte);
  if (layout->bits < 8) kept.table = table_of(*layout);
  auto* const codes = kept.codes.mutable_data_ptr<std::uint8_t>();
  auto* const scales = kept.scales.mutable_data_ptr<std::uint8_t>();
  const Panels panels{*layout, in, codes, codes + low, scales, scales + half};
  at::parallel_for(0, out / kPanelWide, 1, [&](int64_t begin, int64_t end) {
    base::GgmlBlock parts;
    for (int64_t row = begin * kPanelWide; row < end * kPanelWide; ++row) {
      const int64_t source = source_rows.empty() ? row : source_rows[static_cast<std::size_t>(row)];
      for (int64_t k = 0; k < in; k += layout->block) {
        base::split_ggml_block(type, blocks.data() + (source * in + k) / layout->block * bytes, parts);
        panels.put(parts, row / kPanelWide, row % kPanelWide, k);
      }
    }
  });
  kept.is_tame = all_finite(kept.scales, half);
  return kept;
}

Quantized sample_ggml(const at::Tensor& w, QuantType type) {
  const Layout& layout = layout_of(type);
  const at::Tensor values = w.to(at::kFloat).contiguous();
  const float* const x = values.const_data_ptr<float>();
  const auto numbers = static_cast<std::uint64_t>(values.numel());
  std::vector<std::byte> blocks(base::ggml_bytes(layout.type, numbers));
  if (layout.type != base::GgmlType::kQ4_0) {
    base::quantize(layout.type, {x, numbers}, blocks);
  } else {  // hone writes none
    for (std::size_t b = 0; b < numbers / 32; ++b) put_q4_0(x + 32 * b, blocks.data() + 18 * b);
  }
  return keep_ggml(layout.type, blocks, w.size(0), w.size(1));
}

GgmlPanels ggml_panels(const Quantized& kept) {
  static_assert(kGgmlPanelRows == kPanelWide);
  const Layout& layout = layout_of(kept.scheme.type);
  const int64_t numbers = kept.out * kept.in;
  const auto* const low = kept.codes.const_data_ptr<std::uint8_t>();
  const auto* const halves = kept.scales.const_data_ptr<std::uint8_t>();
  return {.bits = layout.bits,
          .zero = layout.bits == 8 ? 0 : layout.zero,
          .has_minimum = layout.scales == PanelScales::kWithMinimum,
          .block = layout.block,
          .group = layout.group,
          .low = low,
          .high = low + low_bytes(layout, numbers),
          .halves = halves,
          .factors = layout.scales == PanelScales::kHalf ? nullptr : halves + half_bytes(layout, numbers)};
}

kernels::PanelView ggml_panel_view(const Quantized& matrix) {
  const Layout& layout = layout_of(matrix.scheme.type);
  const int64_t numbers = matrix.out * matrix.in;
  kernels::PanelView view;
  view.bits = layout.bits;
  view.low = matrix.codes.const_data_ptr<std::uint8_t>();
  view.high = view.low + low_bytes(layout, numbers);
  view.table = matrix.table.defined() ? matrix.table.const_data_ptr<float>() : nullptr;
  view.scale_kind = layout.scales;
  view.halves = matrix.scales.const_data_ptr<std::uint8_t>();
  view.bytes = view.halves + half_bytes(layout, numbers);
  view.group = layout.group;
  view.in = matrix.in;
  view.is_tame = matrix.is_tame;
  return view;
}

}  // namespace hone::ops
