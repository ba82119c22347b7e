// The online softmax of the head. Forward a block has a row: its peak, then its sums and probabilities, so that a tile's logits
// are read twice, the second time from a cache. Backward a thread has four neighbors, or one.
#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr float kLeastExponent = -1e30F;  // finite: an impossible token adds 0 and not 0 * inf

// A logit and its column; of equal ones the first is the larger.
struct Peak {
  float value;
  int column;
};

__device__ Peak larger(Peak a, Peak b) {
  return b.value > a.value || (b.value == a.value && b.column < a.column) ? b : a;
}

// The largest of a block, in all of its threads. `parts` is the block's own.
__device__ Peak block_peak(Peak peak, Peak* parts) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    peak = larger(peak, {__shfl_xor_sync(kAllLanes, peak.value, distance),
                         __shfl_xor_sync(kAllLanes, peak.column, distance)});
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = peak;
  __syncthreads();
  peak = parts[0];
  for (int i = 1; i < kWarps; ++i) peak = larger(peak, parts[i]);
  return peak;
}

// Of z = (x - base) / temperature: sum exp(z), sum z exp(z), sum exp(2 z).
struct Sums {
  float one, dot, squares;
};

// Of a block, in its first thread.
__device__ Sums block_sums(Sums sums, Sums* parts) {
  sums = {warp_sum(sums.one), warp_sum(sums.dot), warp_sum(sums.squares)};
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = sums;
  __syncthreads();
  sums = parts[0];
  for (int i = 1; i < kWarps; ++i)
    sums = {sums.one + parts[i].one, sums.dot + parts[i].dot, sums.squares + parts[i].squares};
  return sums;
}

template <int kCount>
__device__ Peak row_peak(const float* row, std::int64_t width) {
  Peak peak = {row[0], 0};
  for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) * kCount; i < width; i += kThreads * kCount) {
    float x[kCount];
    load<kCount>(x, row + i);
    for (int j = 0; j < kCount; ++j) peak = larger(peak, {x[j], static_cast<int>(i + j)});
  }
  return peak;
}

// The row's sums; exp(z) goes to `chances`, 0 at column `target`.
template <typename P, int kCount>
__device__ Sums row_sums(const float* row, P* chances, std::int64_t target, float base, float scale,
                         std::int64_t width) {
  Sums sums = {0, 0, 0};
  for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) * kCount; i < width; i += kThreads * kCount) {
    float x[kCount];
    load<kCount>(x, row + i);
    for (int j = 0; j < kCount; ++j) {
      const float far = (x[j] - base) * scale, z = far < kLeastExponent ? kLeastExponent : far;  // or NaN
      const float e = expf(z);
      sums = {sums.one + e, sums.dot + z * e, sums.squares + e * e};
      x[j] = i + j == target ? 0 : e;
    }
    if (chances != nullptr) store<kCount>(chances + i, x);
  }
  return sums;
}

// What exp's argument is taken from: 0 while every logit was -inf.
__device__ float base_of(float peak) {
  return peak == -INFINITY ? 0 : peak;
}

template <typename P, int kCount>
__global__ void __launch_bounds__(kThreads) forward_kernel(SoftmaxTile s) {
  Peak* const peaks = shared<0, Peak, kWarps>();
  Sums* const parts = shared<1, Sums, kWarps>();
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  const float* const row = static_cast<const float*>(s.logits.data) + token * s.logits.stride;
  auto* const chances = static_cast<P*>(s.probabilities.data);
  const std::int64_t target = s.targets[token] - s.first_column;
  const float before = s.peak[token];
  const Peak most = block_peak(row_peak<kCount>(row, s.width), peaks);
  const float peak = most.value > before ? most.value : before, base = base_of(peak);
  const double shift = (static_cast<double>(base_of(before)) - base) / s.temperature;
  const double factor = before == -INFINITY ? 0 : exp(shift);
  const Sums sums = block_sums(
      row_sums<P, kCount>(row, chances == nullptr ? nullptr : chances + token * s.probabilities.stride,
                          target, base, static_cast<float>(1 / s.temperature), s.width),
      parts);
  if (s.accumulator.data != nullptr && factor != 1) {
    float* const sum = static_cast<float*>(s.accumulator.data) + token * s.accumulator.stride;
    for (std::int64_t i = threadIdx.x; i < s.hidden; i += kThreads) sum[i] *= static_cast<float>(factor);
  }
  if (threadIdx.x != 0) return;
  s.dot[token] = (s.dot[token] + shift * s.sum[token]) * factor + sums.dot;
  s.sum[token] = s.sum[token] * factor + sums.one;
  if (s.squares != nullptr) s.squares[token] = s.squares[token] * factor * factor + sums.squares;
  if (most.value > before) s.first[token] = s.first_column + most.column;
  if (target >= 0 && target < s.width) s.target[token] = row[target];
  s.peak[token] = peak;
}

template <typename Out, int kCount>
__global__ void __launch_bounds__(kThreads) backward_kernel(SoftmaxBackward s) {
  const std::int64_t of_row = s.width / kCount,
                     at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= s.tokens * of_row) return;
  const std::int64_t token = at / of_row, column = at % of_row * kCount;
  const std::int64_t target = s.targets[token] - s.first_column;
  const float log_sum = s.log_sum[token], upstream = s.upstream[token] / -s.temperature;
  float x[kCount];
  load<kCount>(x, static_cast<const float*>(s.logits.data) + token * s.logits.stride + column);
  for (int j = 0; j < kCount; ++j) {
    const float log_p = x[j] / s.temperature - log_sum;
    x[j] = upstream * (column + j == target ? expm1f(log_p) : expf(log_p));  // p - 1 keeps what 1 - p loses
  }
  store<kCount>(static_cast<Out*>(s.out.data) + token * s.out.stride + column, x);
}

}  // namespace

int softmax_tile(const SoftmaxTile& s, void* stream) {
  const bool fours =
      by_fours(s.logits, s.width) && (s.probabilities.data == nullptr || by_fours(s.probabilities, s.width));
  return with_type(s.probabilities.dtype, [&](auto p) {
    return with_count(fours, [&](auto count) {
      return launch(forward_kernel<decltype(p), decltype(count)::value>, s.tokens, kThreads, stream, s);
    });
  });
}

int softmax_backward(const SoftmaxBackward& s, void* stream) {
  return with_type(s.out.dtype, [&](auto out) {
    return with_count(by_fours(s.logits, s.width) && by_fours(s.out, s.width), [&](auto count) {
      return launch(backward_kernel<decltype(out), decltype(count)::value>,
                    ceil_div(s.tokens * (s.width / decltype(count)::value), kThreads), kThreads, stream, s);
    });
  });
}

}  // namespace hone::ops::cuda::kernels
