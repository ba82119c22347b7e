// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms") in the order of bitsandbytes' CPU
// forms: every number steps as far as any other, by the sign of its moment and gradient.
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::ops {

struct LionRates {
  double decay = 1, beta1 = 0, one_minus_beta1 = 1, beta2 = 0, one_minus_beta2 = 1, minus_learning_rate = 0;
};

// p, m and g [n] fp32, contiguous; fp64 for a reference. In this order, p += as one operation:
//   p *= decay;  p += minus_learning_rate sign(beta1 m + one_minus_beta1 g);  m = beta2 m + one_minus_beta2 g
struct LionStep {
  at::Tensor p, g, m;
  LionRates rates;
};
void lion(const LionStep& step);

// The same on a moment of 8 bits, in blocks of kCodeBlock numbers (ops/dynamic_codes.h): decoded, stepped in fp32
// and made codes again. fp64 for a reference, which leaves the codes as they are.
struct LionCodesStep {
  at::Tensor p, g;
  at::Tensor codes;   // [n] uint8, with a sign
  at::Tensor scales;  // [blocks] fp32
  LionRates rates;
};
void lion_codes(const LionCodesStep& step);

}  // namespace hone::ops
