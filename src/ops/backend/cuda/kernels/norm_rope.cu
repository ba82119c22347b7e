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

__device__ bool find_place(Place& place, std::int64_t tokens, std::int64_t heads) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kHeadsOfBlock + threadIdx.x / kWarp;
  place = {at / heads, at % heads, static_cast<int>(threadIdx.x % kWarp)};
  return at < tokens * heads;
}

template <typename T>
__device__ T* row_of(const Heads& x, const Place& place) {
  return static_cast<T*>(x.data) + place.token * x.token_stride + place.head * x.head_stride;
}

template <typename X>
__device__ float inverse_rms(const X* x, std::int64_t dim, float eps, int lane) {
  float sum = 0;
  for (std::int64_t i = lane; i < dim; i += kWarp) sum += to_float(x[i]) * to_float(x[i]);
  return 1 / sqrtf(warp_sum(sum) / static_cast<float>(dim) + eps);
}

// A number of the normed row, rounded as ops::rms_norm rounds it.
template <typename X, typename W>
__device__ float normed(float x, float inverse, const W* weight, std::int64_t i) {
  if (weight == nullptr) return x;
  const float y = rounded<X>(x * inverse) * to_float(weight[i]);
  if constexpr (sizeof(X) == 2 && sizeof(W) == 2) return rounded<X>(y);
  return y;
}

// A head of `a`, a NormRope or a StepHeads.
template <typename Arguments, typename Out, typename X, typename W>
__device__ void turn_head(Out* out, const X* x, const W* weight, const Arguments& a, const Place& place) {
  const W* const cos = static_cast<const W*>(a.cos.data) + place.token * a.rotated;
  const W* const sin = static_cast<const W*>(a.sin.data) + place.token * a.rotated;
  const float inverse = weight == nullptr ? 1 : inverse_rms(x, a.dim, a.eps, place.lane);
  const std::int64_t half = a.rotated / 2;
  for (std::int64_t i = place.lane; i < half; i += kWarp) {
    const float low = normed<X>(to_float(x[i]), inverse, weight, i),
                high = normed<X>(to_float(x[i + half]), inverse, weight, i + half);
    out[i] = Rounding<Out>::of(low * to_float(cos[i]) - high * to_float(sin[i]));
    out[i + half] = Rounding<Out>::of(high * to_float(cos[i + half]) + low * to_float(sin[i + half]));
  }
  for (std::int64_t i = a.rotated + place.lane; i < a.dim; i += kWarp)
    out[i] = Rounding<Out>::of(normed<X>(to_float(x[i]), inverse, weight, i));
}

template <typename Out, typename X, typename W>
__global__ void forward_kernel(NormRope n) {
  Place place;
  if (!find_place(place, n.tokens, n.heads)) return;
  turn_head(row_of<Out>(n.out, place), row_of<const X>(n.x, place), static_cast<const W*>(n.weight.data), n,
            place);
}

// A warp has a head of queries, of keys or of values.
template <typename T, typename W>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kThreads)) step_kernel(StepHeads s) {
  Place place;
  if (!find_place(place, s.tokens, s.heads + 2 * s.kv_heads)) return;
  T* const x = row_of<T>(s.qkv, place);
  const bool is_query = place.head < s.heads, is_value = place.head >= s.heads + s.kv_heads;
  T* to = x;
  if (!is_query) {
    const std::int64_t kv_head = (place.head - s.heads) % s.kv_heads;
    to = static_cast<T*>(is_value ? s.values : s.keys) +
         ((s.pages[place.token] * s.kv_heads + kv_head) * kPageTokens + s.places[place.token]) * s.dim;
  }
  if (is_value) {
    for (std::int64_t i = place.lane; i < s.dim; i += kWarp) to[i] = x[i];
    return;
  }
  // One call for both, so that its code is there once: two of them spill.
  turn_head(to, x, static_cast<const W*>(is_query ? s.q_weight.data : s.k_weight.data), s, place);
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
  if (!find_place(place, n.tokens, n.heads)) return;
  D* const d = row_of<D>(n.out, place);
  const auto* const weight = static_cast<const W*>(n.weight.data);
  const W* const cos = static_cast<const W*>(n.cos.data) + place.token * n.rotated;
  const W* const sin = static_cast<const W*>(n.sin.data) + place.token * n.rotated;
  const std::int64_t half = n.rotated / 2;
  const X* x = nullptr;
  float inverse = 1, mean = 0;
  if (weight != nullptr) {
    x = row_of<const X>(n.x, place);
    inverse = inverse_rms(x, n.dim, n.eps, place.lane);
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

int step_heads(const StepHeads& s, void* stream) {
  return with_type(s.qkv.dtype, [&](auto type) {
    return with_type(s.cos.dtype, [&](auto w) {
      return launch(step_kernel<decltype(type), decltype(w)>,
                    ceil_div(s.tokens * (s.heads + 2 * s.kv_heads), kHeadsOfBlock), kThreads, stream, s);
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
