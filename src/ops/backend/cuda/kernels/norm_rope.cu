// A warp has a head: its norm, then its rotation. A thread writes only numbers that it alone reads after the sums, so that the
// result may lie where the input was.
#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kThreads = 256, kHeadsOfBlock = kThreads / kWarp;

struct Place {
  std::int64_t token, head;
  int lane;
};

__device__ bool find_place(Place& place, const NormRope& n) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kHeadsOfBlock + threadIdx.x / kWarp;
  place = {at / n.heads, at % n.heads, static_cast<int>(threadIdx.x % kWarp)};
  return at < n.tokens * n.heads;
}

template <typename T>
__device__ T* row_of(const Heads& x, const Place& place) {
  return static_cast<T*>(x.data) + place.token * x.token_stride + place.head * x.head_stride;
}

template <typename X>
__device__ float inverse_rms(const X* x, const NormRope& n, int lane) {
  float sum = 0;
  for (std::int64_t i = lane; i < n.dim; i += kWarp) sum += to_float(x[i]) * to_float(x[i]);
  return 1 / sqrtf(warp_sum(sum) / static_cast<float>(n.dim) + n.eps);
}

// A number of the normed row, rounded as ops::rms_norm rounds it.
template <typename X, typename W>
__device__ float normed(float x, float inverse, const W* weight, std::int64_t i) {
  if (weight == nullptr) return x;
  const float y = rounded<X>(x * inverse) * to_float(weight[i]);
  if constexpr (sizeof(X) == 2 && sizeof(W) == 2) return rounded<X>(y);
  return y;
}

template <typename Out, typename X, typename W>
__global__ void forward_kernel(NormRope n) {
  Place place;
  if (!find_place(place, n)) return;
  const X* const x = row_of<const X>(n.x, place);
  Out* const out = row_of<Out>(n.out, place);
  const auto* const weight = static_cast<const W*>(n.weight.data);
  const W* const cos = static_cast<const W*>(n.cos.data) + place.token * n.rotated;
  const W* const sin = static_cast<const W*>(n.sin.data) + place.token * n.rotated;
  const float inverse = weight == nullptr ? 1 : inverse_rms(x, n, place.lane);
  const std::int64_t half = n.rotated / 2;
  for (std::int64_t i = place.lane; i < half; i += kWarp) {
    const float low = normed<X>(to_float(x[i]), inverse, weight, i),
                high = normed<X>(to_float(x[i + half]), inverse, weight, i + half);
    out[i] = Rounding<Out>::of(low * to_float(cos[i]) - high * to_float(sin[i]));
    out[i + half] = Rounding<Out>::of(high * to_float(cos[i + half]) + low * to_float(sin[i + half]));
  }
  for (std::int64_t i = n.rotated + place.lane; i < n.dim; i += kWarp)
    out[i] = Rounding<Out>::of(normed<X>(to_float(x[i]), inverse, weight, i));
}

// The gradient of the rotation's input, at column i.
template <typename D, typename W>
__device__ float turned_back(const D* d, const W* cos, const W* sin, const NormRope& n, std::int64_t i) {
  const std::int64_t half = n.rotated / 2;
  const float own = to_float(d[i]);
  if (i >= n.rotated) return own;
  if (i < half) return own * to_float(cos[i]) + to_float(d[i + half]) * to_float(sin[i + half]);
  return own * to_float(cos[i]) - to_float(d[i - half]) * to_float(sin[i - half]);
}

template <typename D, typename X, typename W>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kThreads)) backward_kernel(NormRope n) {
  Place place;
  if (!find_place(place, n)) return;
  D* const d = row_of<D>(n.out, place);
  const auto* const weight = static_cast<const W*>(n.weight.data);
  const W* const cos = static_cast<const W*>(n.cos.data) + place.token * n.rotated;
  const W* const sin = static_cast<const W*>(n.sin.data) + place.token * n.rotated;
  const std::int64_t half = n.rotated / 2;
  const X* x = nullptr;
  float inverse = 1, mean = 0;
  if (weight != nullptr) {
    x = row_of<const X>(n.x, place);
    inverse = inverse_rms(x, n, place.lane);
    float product = 0;
    for (std::int64_t i = place.lane; i < n.dim; i += kWarp)
      product += turned_back(d, cos, sin, n, i) * to_float(weight[i]) * to_float(x[i]);
    mean = warp_sum(product) * inverse / static_cast<float>(n.dim);
  }
  // of x, given that of the normed row
  const auto through = [&](float g, std::int64_t i) {
    return weight == nullptr ? g : inverse * (g * to_float(weight[i]) - to_float(x[i]) * inverse * mean);
  };
  HONE_ROLLED
  for (std::int64_t i = place.lane; i < half; i += kWarp) {
    const float low = turned_back(d, cos, sin, n, i), high = turned_back(d, cos, sin, n, i + half);
    d[i] = Rounding<D>::of(through(low, i));
    d[i + half] = Rounding<D>::of(through(high, i + half));
  }
  for (std::int64_t i = n.rotated + place.lane; i < n.dim; i += kWarp)
    d[i] = Rounding<D>::of(through(to_float(d[i]), i));
}

}  // namespace

int norm_rope(const NormRope& n, void* stream) {
  return with_type(n.out.dtype, [&](auto out) {
    return with_type(n.x.dtype, [&](auto x) {
      return with_type(n.cos.dtype, [&](auto w) {
        return launch(forward_kernel<decltype(out), decltype(x), decltype(w)>,
                      ceil_div(n.tokens * n.heads, kHeadsOfBlock), kThreads, stream, n);
      });
    });
  });
}

int norm_rope_backward(const NormRope& n, void* stream) {
  return with_type(n.out.dtype, [&](auto d) {
    return with_type(n.x.dtype, [&](auto x) {
      return with_type(n.cos.dtype, [&](auto w) {
        return launch(backward_kernel<decltype(d), decltype(x), decltype(w)>,
                      ceil_div(n.tokens * n.heads, kHeadsOfBlock), kThreads, stream, n);
      });
    });
  });
}

}  // namespace hone::ops::cuda::kernels
