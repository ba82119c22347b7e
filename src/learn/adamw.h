// AdamW (Loshchilov and Hutter 2019; torch.optim.AdamW's arithmetic) on one flat fp32 buffer, and gradient
// clipping.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hone::learn {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
};

// First and second moments of a flat parameter buffer, on its device, and the number of steps taken.
struct AdamWState {
  at::Tensor m, v;  // [P] fp32
  std::int64_t step = 0;
  static AdamWState zeros_like(const at::Tensor& parameters);
};

// One step in place: p -= lr * (m_hat / (sqrt(v_hat) + eps) + weight_decay * p). All [P] fp32.
void adamw_step(at::Tensor parameters, const at::Tensor& gradient, AdamWState& state,
                const AdamWOptions& options, double learning_rate);

// Global L2 norm of `gradient` [P]; scales it by max_norm / (norm + 1e-6) when that is below 1 (torch's
// clip_grad_norm_). max_norm 0: measures only. Returns the norm before clipping. fp64 accumulation in fixed
// order.
double clip_gradient(at::Tensor gradient, double max_norm);

}  // namespace hone::learn
