// A thread has four neighbors of a row, or one where rows cannot be read by fours.
#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"
#include "ops/backend/gelu_constants.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kThreads = 256;

struct Place {
  std::int64_t token, column;
};

template <int kCount>
__device__ bool find_place(Place& place, std::int64_t tokens, std::int64_t width) {
  const std::int64_t of_row = width / kCount,
                     at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= tokens * of_row) return false;
  place = {at / of_row, at % of_row * kCount};
  return true;
}

template <typename T>
__device__ T* at(const Rows& x, const Place& place) {
  return static_cast<T*>(x.data) + place.token * x.stride + place.column;
}

__device__ float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

// Both activations are g sigmoid(argument).
__device__ float argument(float g, bool gelu_tanh) {
  return gelu_tanh ? kGeluScale * g * (1 + kGeluCubic * g * g) : g;
}

// g times the argument's derivative.
__device__ float slope(float g, bool gelu_tanh) {
  return gelu_tanh ? kGeluScale * g * (1 + 3 * kGeluCubic * g * g) : g;
}

template <typename Out, typename T, int kCount>
__global__ void forward_kernel(Swiglu s) {
  Place place;
  if (!find_place<kCount>(place, s.tokens, s.width)) return;
  float gate[kCount], up[kCount];
  load<kCount>(gate, at<const T>(s.gate, place));
  load<kCount>(up, at<const T>(s.up, place));
  for (int j = 0; j < kCount; ++j) gate[j] *= sigmoid(argument(gate[j], s.gelu_tanh)) * up[j];
  store<kCount>(at<Out>(s.out, place), gate);
}

template <typename T, typename D, int kCount>
__global__ void backward_kernel(SwigluBackward s) {
  Place place;
  if (!find_place<kCount>(place, s.tokens, s.width)) return;
  float gate[kCount], up[kCount], d[kCount];
  load<kCount>(gate, at<const T>(s.gate, place));
  load<kCount>(up, at<const T>(s.up, place));
  load<kCount>(d, at<const D>(s.d, place));
  for (int j = 0; j < kCount; ++j) {
    const float g = gate[j], p = sigmoid(argument(g, s.gelu_tanh));
    gate[j] = d[j] * up[j] * p * (1 + slope(g, s.gelu_tanh) * (1 - p));
    up[j] = d[j] * g * p;
  }
  store<kCount>(at<T>(s.gate, place), gate);
  store<kCount>(at<T>(s.up, place), up);
}

template <typename Call>
int launched(std::int64_t tokens, std::int64_t width, bool fours, const Call& call) {
  return with_count(fours, [&](auto count) {
    return call(count, ceil_div(tokens * (width / decltype(count)::value), kThreads));
  });
}

}  // namespace

int swiglu(const Swiglu& s, void* stream) {
  const bool fours = by_fours(s.out, s.width) && by_fours(s.gate, s.width) && by_fours(s.up, s.width);
  return with_type(s.out.dtype, [&](auto out) {
    return with_type(s.gate.dtype, [&](auto in) {
      return launched(s.tokens, s.width, fours, [&](auto count, std::int64_t blocks) {
        return launch(forward_kernel<decltype(out), decltype(in), decltype(count)::value>, blocks, kThreads,
                      stream, s);
      });
    });
  });
}

int swiglu_backward(const SwigluBackward& s, void* stream) {
  const bool fours = by_fours(s.gate, s.width) && by_fours(s.up, s.width) && by_fours(s.d, s.width);
  return with_type(s.gate.dtype, [&](auto in) {
    return with_type(s.d.dtype, [&](auto d) {
      return launched(s.tokens, s.width, fours, [&](auto count, std::int64_t blocks) {
        return launch(backward_kernel<decltype(in), decltype(d), decltype(count)::value>, blocks, kThreads,
                      stream, s);
      });
    });
  });
}

}  // namespace hone::ops::cuda::kernels
