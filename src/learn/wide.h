// Losses of pairs and rows are computed with these: doubles on the CPU, one number a sequence.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>

namespace hone::learn {

// Detached, contiguous, on the CPU.
inline at::Tensor wide(const at::Tensor& values) {
  return values.detach().to(at::kCPU, at::kDouble).contiguous();
}

// Without overflow for any x.
inline double sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

}  // namespace hone::learn
