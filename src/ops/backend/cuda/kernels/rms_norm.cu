// A block has a row: a sum over it, then its numbers.
#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;

// The sum of a block's numbers, in all of its threads. `part` is the block's own.
__device__ float block_sum(float x, float* part) {
  x = warp_sum(x);
  if (threadIdx.x % kWarp == 0) part[threadIdx.x / kWarp] = x;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kWarps; ++i) sum += part[i];
  return sum;
}

template <typename X, int kCount>
__device__ float sum_of_squares(const X* row, std::int64_t width) {
  float sum = 0;
  for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) * kCount; i < width; i += kThreads * kCount) {
    float x[kCount];
    load<kCount>(x, row + i);
    for (int j = 0; j < kCount; ++j) sum += x[j] * x[j];
  }
  return sum;
}

template <typename Out, typename X, typename W, int kCount>
__global__ void norm_kernel(RmsNorm n) {
  float* const part = shared<0, float, kWarps>();
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  const X* const row = static_cast<const X*>(n.x.data) + token * n.x.stride;
  const auto* const weight = static_cast<const W*>(n.weight.data);
  Out* const out = static_cast<Out*>(n.out.data) + token * n.out.stride;
  const float sum = block_sum(sum_of_squares<X, kCount>(row, n.width), part);
  const float inverse = 1 / sqrtf(sum / static_cast<float>(n.width) + n.eps);
  for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) * kCount; i < n.width;
       i += kThreads * kCount) {
    float x[kCount], w[kCount];
    load<kCount>(x, row + i);
    load<kCount>(w, weight + i);
    for (int j = 0; j < kCount; ++j) {
      x[j] = rounded<X>(x[j] * inverse) * w[j];
      if constexpr (sizeof(X) == 2 && sizeof(W) == 2) x[j] = rounded<X>(x[j]);
    }
    store<kCount>(out + i, x);
  }
}

// g = dy * weight, y = x * inverse; dx += inverse * (g - y * mean(g * y))
template <typename X, typename D, typename W, int kCount>
__global__ void backward_kernel(RmsNormBackward n) {
  float *const squares = shared<0, float, kWarps>(), *const products = shared<1, float, kWarps>();
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  const X* const row = static_cast<const X*>(n.x.data) + token * n.x.stride;
  const D* const dy = static_cast<const D*>(n.dy.data) + token * n.dy.stride;
  const auto* const weight = static_cast<const W*>(n.weight.data);
  X* const dx = static_cast<X*>(n.dx.data) + token * n.dx.stride;
  bf16* const cast =
      n.cast.data == nullptr ? nullptr : static_cast<bf16*>(n.cast.data) + token * n.cast.stride;
  const auto width = static_cast<float>(n.width);
  float square = 0, product = 0;
  for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) * kCount; i < n.width;
       i += kThreads * kCount) {
    float x[kCount], d[kCount], w[kCount];
    load<kCount>(x, row + i);
    load<kCount>(d, dy + i);
    load<kCount>(w, weight + i);
    for (int j = 0; j < kCount; ++j) {
      square += x[j] * x[j];
      product += d[j] * w[j] * x[j];
    }
  }
  const float inverse = 1 / sqrtf(block_sum(square, squares) / width + n.eps);
  const float mean = block_sum(product, products) * inverse / width;
  for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) * kCount; i < n.width;
       i += kThreads * kCount) {
    float x[kCount], d[kCount], w[kCount], sum[kCount];
    load<kCount>(x, row + i);
    load<kCount>(d, dy + i);
    load<kCount>(w, weight + i);
    load<kCount>(sum, dx + i);
    for (int j = 0; j < kCount; ++j) sum[j] += inverse * (d[j] * w[j] - x[j] * inverse * mean);
    store<kCount>(dx + i, sum);
    if (cast != nullptr) store<kCount>(cast + i, sum);
  }
}

bool by_fours(const Vector& x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % static_cast<std::uintptr_t>(kFour * bytes_of(x.dtype)) ==
         0;
}

}  // namespace

int rms_norm(const RmsNorm& n, void* stream) {
  const bool fours = by_fours(n.out, n.width) && by_fours(n.x, n.width) && by_fours(n.weight);
  return with_type(n.out.dtype, [&](auto out) {
    return with_type(n.x.dtype, [&](auto x) {
      return with_type(n.weight.dtype, [&](auto w) {
        return with_count(fours, [&](auto count) {
          return launch(norm_kernel<decltype(out), decltype(x), decltype(w), decltype(count)::value>,
                        n.tokens, kThreads, stream, n);
        });
      });
    });
  });
}

int rms_norm_backward(const RmsNormBackward& n, void* stream) {
  const bool fours = by_fours(n.dx, n.width) && by_fours(n.dy, n.width) && by_fours(n.x, n.width) &&
                     by_fours(n.weight) && (n.cast.data == nullptr || by_fours(n.cast, n.width));
  return with_type(n.x.dtype, [&](auto x) {
    return with_type(n.dy.dtype, [&](auto d) {
      return with_type(n.weight.dtype, [&](auto w) {
        return with_count(fours, [&](auto count) {
          return launch(backward_kernel<decltype(x), decltype(d), decltype(w), decltype(count)::value>,
                        n.tokens, kThreads, stream, n);
        });
      });
    });
  });
}

}  // namespace hone::ops::cuda::kernels
