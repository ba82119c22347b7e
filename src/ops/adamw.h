// The arithmetic of AdamW (Loshchilov and Hutter 2019; torch.optim.AdamW) and of gradient clipping, element by element
// or in sums of a fixed order: no result depends on the number of threads or on instructions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hone::ops {

// p, m, v and g [n] fp32, contiguous. In this order, each operation rounded:
//   p *= decay;  m += lerp (g - m);  v = beta2 v + one_minus_beta2 g^2;
//   p += minus_step_size m / (sqrt(v) / root_correction2 + epsilon)
struct AdamwStep {
  at::Tensor p, g, m, v;
  float decay = 1, lerp = 0, beta2 = 0, one_minus_beta2 = 1, root_correction2 = 1, epsilon = 0,
        minus_step_size = 0;
};
void adamw(const AdamwStep& step);

// bitsandbytes' AdamW on moments of 8 bits, in blocks of kCodeBlock numbers (ops/dynamic_codes.h): decoded, stepped in fp32 in the
// order above, but with m = beta1 m + one_minus_beta1 g, and made codes again.
struct AdamwCodesStep {
  at::Tensor p, g;            // [n] fp32 contiguous; fp64 for a reference, which leaves the codes as they are
  at::Tensor codes1, codes2;  // [n] uint8: with a sign, and without
  at::Tensor scales1, scales2;  // [blocks] fp32
  double decay = 1, beta1 = 0, one_minus_beta1 = 1, beta2 = 0, one_minus_beta2 = 1, root_correction2 = 1,
         epsilon = 0, minus_step_size = 0;
};
void adamw_codes(const AdamwCodesStep& step);

// Elements of one partial sum of a norm.
constexpr std::int64_t kSumBlock = 1 << 14;

// The sums of squares of x [n] fp32, contiguous, of each block of kSumBlock elements, in fp64: [blocks] on the host.
at::Tensor block_sums_of_squares(const at::Tensor& x);
// The same into `sums` [blocks] fp64, contiguous, on x's device, without a wait for it.
void block_sums_of_squares_into(at::Tensor sums, const at::Tensor& x);

// x *= factor, [n] fp32, contiguous.
void scale(at::Tensor x, float factor);

}  // namespace hone::ops
