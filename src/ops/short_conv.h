// A short convolution with gates, as LFM2 has it between its two projections (transformers 5.23, models/lfm2,
// Lfm2ShortConv): each channel by itself, over the tokens of one sequence,
//
//   z = b * x,   y[t] = c[t] * (bias + sum over k = 0 .. L - 1 of w[L - 1 - k] z[t - k]),   z = 0 before the first token.
//
// Shapes: T tokens of all segments, packed, H channels, L taps. bcx [T, 3 H]: b, c and x side by side. w [H, 1, L], bias
// [H] or undefined, in bcx's dtype. The sum over taps is in fp32 and rounded once; z and y are rounded products.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "ops/attention.h"

namespace hone::ops {

// bcx -> y [T, H]. The segments cover 0..T in order without a gap; nothing is read across their borders. Differentiable in
// bcx, w and bias.
at::Tensor short_conv(const at::Tensor& bcx, const at::Tensor& weight, const at::Tensor& bias,
                      const std::vector<std::pair<std::int64_t, std::int64_t>>& segments);

// ---- the fused form

// The parts of bcx, [T, H] each, rows strided.
struct ConvGates {
  at::Tensor b, c, x;
};
ConvGates conv_gates(const at::Tensor& bcx);
// z [T, H] of bcx.
at::Tensor conv_inputs(const at::Tensor& bcx);

// Rows [begin, end) are consecutive tokens of one sequence. `before` [n, H]: z of the tokens before them, the last row the
// nearest; undefined or shorter than L - 1: the sequence begins there.
struct ConvRows {
  std::int64_t begin = 0, end = 0;
  at::Tensor before;
};
// Of packed segments: what is before one with a prefix are the prefix's last tokens.
std::vector<ConvRows> conv_rows(const at::Tensor& inputs, const std::vector<AttentionSegment>& segments,
                                std::int64_t taps);

// out [T, H] = y, from inputs = conv_inputs(bcx). The bits of a row depend only on it and the L - 1 inputs before it.
void short_conv_into(at::Tensor out, const at::Tensor& inputs, const at::Tensor& bcx,
                     const at::Tensor& weight, const at::Tensor& bias, const std::vector<ConvRows>& rows);

// In place: bcx holds the forward's inputs on entry and their gradients on return, given d [T, H], whose memory is used.
// A prefix gets the sum over itself and the segments that follow it, in order. d_weight [H, 1, L] and d_bias [H], fp32:
// theirs are added, in the order of the tokens; undefined: not wanted.
void short_conv_backward(at::Tensor bcx, at::Tensor d, const at::Tensor& weight, const at::Tensor& bias,
                         const std::vector<AttentionSegment>& segments, const at::Tensor& d_weight,
                         const at::Tensor& d_bias);

// The last inputs z of one sequence in one layer: what its next tokens need, and a few more, so that some tokens can be
// taken back.
class ConvInputs {
 public:
  static constexpr std::int64_t kTakenBack = 8;  // so many tokens always can

  ConvInputs() = default;
  ConvInputs(std::int64_t channels, std::int64_t taps, at::ScalarType dtype, at::Device device = at::kCPU);

  void append(const at::Tensor& inputs);     // [n, H]
  at::Tensor last(std::int64_t most) const;  // [at most so many, H], the newest last
  // Whether what comes after the first `length` tokens can still be computed.
  bool can_truncate(std::int64_t length) const;
  void truncate(std::int64_t length);
  ConvInputs clone() const;  // with memory of its own; copying the object shares it

  std::int64_t length() const { return length_; }
  std::int64_t bytes() const { return rows_.defined() ? static_cast<std::int64_t>(rows_.nbytes()) : 0; }
  static std::int64_t bytes(std::int64_t channels, std::int64_t taps, at::ScalarType dtype);

 private:
  at::Tensor rows_;  // [capacity, H]; the first held_ are the last of length_ tokens
  std::int64_t taps_ = 0, length_ = 0, held_ = 0;
};

}  // namespace hone::ops
