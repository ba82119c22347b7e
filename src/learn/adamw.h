// AdamW (Loshchilov and Hutter 2019; torch.optim.AdamW's arithmetic) on one flat fp32 buffer, and gradient
// clipping.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>

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

// Returns the factor by which clip_gradient() multiplies a gradient of this norm; nothing: it is not clipped.
std::optional<float> clip_factor(double norm, double max_norm);
// gradient [n] fp32 *= factor, with clip_gradient()'s bits.
void scale_gradient(at::Tensor gradient, float factor);

// clip_gradient()'s norm of a gradient that comes in parts, in any order, with the same bits.
class GradientNorm {
 public:
  GradientNorm(std::int64_t size, at::Device device);
  // The elements [offset, offset + part's size), fp32 and contiguous, on the device. Every element comes once. Waits for
  // nothing.
  void add(std::int64_t offset, const at::Tensor& part);
  // False: an element that has come is not finite; of the elements near a border this may be found after the next part
  // only. Waits for the device.
  bool is_finite() const;
  double value() const;  // when all have come; waits for the device

 private:
  struct Border {
    at::Tensor values;
    std::int64_t filled = 0;
  };
  void fill_border(std::int64_t block, std::int64_t begin, const at::Tensor& values);

  std::int64_t size_;
  at::Tensor blocks_;                       // sums of squares; 0: not yet
  std::map<std::int64_t, Border> borders_;  // blocks of which parts have come
};

}  // namespace hone::learn
