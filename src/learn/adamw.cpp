// AdamW and clipping are element by element, or sums over blocks of a fixed size added in order: no result
// depends on the number of threads.
#include "learn/adamw.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace hone::learn {
namespace {

constexpr std::int64_t kBlock = 1 << 14;  // elements of one partial sum and of one thread's least share

void require_flat(const at::Tensor& tensor, std::int64_t size, const char* name) {
  base::require(tensor.defined() && tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat &&
                    tensor.dim() == 1 && tensor.is_contiguous() && tensor.numel() == size,
                "learn::adamw",
                std::string(name) + " to be a flat contiguous fp32 tensor of the parameters' size");
}

// The constants of one step, rounded to fp32 where torch rounds them.
struct Coefficients {
  float decay, lerp, beta2, one_minus_beta2, root_correction2, epsilon, minus_step_size;
};

Coefficients coefficients(const AdamWOptions& options, double learning_rate, std::int64_t step) {
  const auto t = static_cast<double>(step);
  const double correction1 = 1.0 - std::pow(options.beta1, t);
  const double correction2 = 1.0 - std::pow(options.beta2, t);
  return {static_cast<float>(1.0 - learning_rate * options.weight_decay),
          static_cast<float>(1.0 - options.beta1),
          static_cast<float>(options.beta2),
          static_cast<float>(1.0 - options.beta2),
          static_cast<float>(std::sqrt(correction2)),
          static_cast<float>(options.epsilon),
          static_cast<float>(-(learning_rate / correction1))};
}

// Elements [begin, end) in the order of torch.optim.AdamW (single tensor form): p *= 1 - lr wd; m = lerp(m,
// g); v = beta2 v + (1 - beta2) g g; p += -lr/c1 * m / (sqrt(v)/sqrt(c2) + eps).
void update(float* p, const float* g, float* m, float* v, const Coefficients& c, std::int64_t begin,
            std::int64_t end) {
  const bool near_zero = c.lerp < 0.5F;  // at::lerp's two forms
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float delta = g[i] - m[i];
    m[i] = near_zero ? m[i] + c.lerp * delta : g[i] - delta * (1.0F - c.lerp);
    v[i] = v[i] * c.beta2 + c.one_minus_beta2 * g[i] * g[i];
    const float denominator = std::sqrt(v[i]) / c.root_correction2 + c.epsilon;
    p[i] = p[i] * c.decay + c.minus_step_size * m[i] / denominator;
  }
}

// Element i in lane i % 16, folded by halves: one running sum would wait for itself at every addition.
double sum_of_squares(const float* values, std::int64_t size) {
  constexpr std::int64_t kLanes = 16;
  double lane[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const auto value = static_cast<double>(values[i + j]);
      lane[j] += value * value;
    }
  }
  for (std::int64_t j = 0; j < size - i; ++j) {
    const auto value = static_cast<double>(values[i + j]);
    lane[j] += value * value;
  }
  for (std::int64_t half = kLanes / 2; half >= 1; half /= 2) {
    for (std::int64_t j = 0; j < half; ++j) lane[j] += lane[j + half];
  }
  return lane[0];
}

double l2_norm(const float* values, std::int64_t size) {
  const std::int64_t blocks = (size + kBlock - 1) / kBlock;
  std::vector<double> partial(static_cast<std::size_t>(blocks));
  at::parallel_for(0, blocks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t b = first; b < last; ++b) {
      partial[static_cast<std::size_t>(b)] =
          sum_of_squares(values + b * kBlock, std::min(kBlock, size - b * kBlock));
    }
  });
  double sum = 0;
  for (const double block : partial) sum += block;
  return std::sqrt(sum);
}

}  // namespace

AdamWState AdamWState::zeros_like(const at::Tensor& parameters) {
  return {at::zeros({parameters.numel()}, at::kFloat), at::zeros({parameters.numel()}, at::kFloat), 0};
}

void adamw_step(at::Tensor parameters, const at::Tensor& gradient, AdamWState& state,
                const AdamWOptions& options, double learning_rate) {
  const std::int64_t size = parameters.numel();
  require_flat(parameters, size, "parameters");
  require_flat(gradient, size, "gradient");
  require_flat(state.m, size, "m");
  require_flat(state.v, size, "v");
  state.step += 1;
  const Coefficients c = coefficients(options, learning_rate, state.step);
  auto* p = static_cast<float*>(parameters.data_ptr());
  const auto* g = static_cast<const float*>(gradient.const_data_ptr());
  auto* m = static_cast<float*>(state.m.data_ptr());
  auto* v = static_cast<float*>(state.v.data_ptr());
  at::parallel_for(0, size, kBlock,
                   [&](std::int64_t begin, std::int64_t end) { update(p, g, m, v, c, begin, end); });
  parameters.unsafeGetTensorImpl()->bump_version();  // shadows of the parameters are made again
}

double clip_gradient(at::Tensor gradient, double max_norm) {
  const std::int64_t size = gradient.numel();
  require_flat(gradient, size, "gradient");
  auto* g = static_cast<float*>(gradient.data_ptr());
  const double norm = l2_norm(g, size);
  const double scale = max_norm / (norm + 1e-6);
  if (max_norm > 0 && scale < 1.0) {
    const auto factor = static_cast<float>(scale);
    at::parallel_for(0, size, kBlock, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) g[i] *= factor;
    });
  }
  return norm;
}

}  // namespace hone::learn
