// A matrix of a GGUF kept in its blocks, in the order that the CPU's products read: Q8_0, Q6_K, Q5_0 and Q4_0 in as many bytes as
// the file has, Q4_K and Q5_K in 4 more a block of 256, whose scales of 6 bits become bytes. Its values are
// base::dequantize's, bit for bit, in float32, and those rounded once in bfloat16.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/gguf/gguf.h"
#include "ops/quantized.h"

namespace hone::ops {

// The scheme of a matrix [out, in] that can be kept for products in `compute`; empty: another type, a shape that is not
// of whole panels and blocks, or no kernels of ours.
std::optional<QuantScheme> kept_ggml_scheme(base::GgmlType type, std::int64_t out, std::int64_t in,
                                            at::ScalarType compute);

// Quantized::bytes() of what keep_ggml makes of a matrix [out, in] with this scheme.
std::int64_t kept_ggml_bytes(std::int64_t out, std::int64_t in, const QuantScheme& scheme);

// `blocks` are those of [out, in], as the file has them. Row i of the result is row source_rows[i]; empty: row i.
Quantized keep_ggml(base::GgmlType type, std::span<const std::byte> blocks, std::int64_t out, std::int64_t in,
                    const std::vector<std::int64_t>& source_rows = {});

// How the numbers of a kept matrix lie: panels of kGgmlPanelRows rows, one behind another. In a panel, lane l is its row, and
// column k of panel p is at c = p * in + k.
//   bits 8: the code is int8 low[c * rows + l]. Fewer: its lowest 4 bits are in word (c / 8) * rows + l of low, eight in a word;
//   5 and 6 bits: the one or two above them in a word of high, 32 or 16 in a word. The code minus `zero` is what is scaled.
//   halves: fp16, one for `block` columns and each lane; with a minimum those of the minima follow those of the panel's lanes.
//   factors: of `group` columns each, in the same order; int8, with a minimum uint8; null: 1.
//   number = code * (half * factor) - (half * factor of the minimum)
inline constexpr std::int64_t kGgmlPanelRows = 32;
struct GgmlPanels {
  int bits = 4, zero = 0;
  bool has_minimum = false;
  std::int64_t block = 32, group = 32;
  const std::uint8_t *low = nullptr, *high = nullptr, *halves = nullptr, *factors = nullptr;  // on its device
};
GgmlPanels ggml_panels(const Quantized& kept);  // valid while `kept` lives

// Whether kept matrices can lie on this device: their numbers are made there for as long as a product runs.
bool keeps_ggml(at::Device device);

// A kept matrix close to `w` [out, in], of a type of ggml's and a shape that can be kept: for probes and tests.
Quantized sample_ggml(const at::Tensor& w, QuantType type);

}  // namespace hone::ops
