// A row of logits as the sampler sees it: scores, weights, and what a pass over all of them finds.
#pragma once

#include "ops/backend/cuda/kernels/device.h"

namespace hone::ops::cuda::kernels {

constexpr int kWord = 32;
constexpr float kLeastZ = -87.0F, kLeastWeight = 0x1.666d0ep-126F;  // exp_of(kLeastZ)

// exp(x) for -87 <= x <= 0: the CPU's operations, each rounded by itself.
__device__ inline float exp_of(float x) {
  constexpr float kRound = 12582912.0F;
  constexpr float kTaylor[] = {1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1.0F, 1.0F};
  const float shifted = __fadd_rn(__fmul_rn(x, 1.44269504F), kRound), n = __fadd_rn(shifted, -kRound);
  const float r = __fadd_rn(__fadd_rn(x, -__fmul_rn(n, 0.693359375F)), __fmul_rn(n, 2.12194440e-4F));
  float p = 1.0F / 5040;
  for (const float c : kTaylor) p = __fadd_rn(__fmul_rn(p, r), c);
  return __uint_as_float(__float_as_uint(p) + (__float_as_uint(shifted) << 23U));
}

// exp(z), and exactly 0 from -87 down.
__device__ inline float weight_of(float z) {
  return __fadd_rn(exp_of(z > kLeastZ ? z : kLeastZ), -kLeastWeight);
}

// A row's logits, and its scores: after the penalty, and without tokens that may not be drawn yet.
struct Row {
  const float* logits;
  const std::uint32_t* seen;      // null: no penalty
  const std::int32_t* forbidden;  // [stops]
  int stops, count;
  float penalty, scale;

  __device__ float score(int id) const {
    float x = logits[id];
    if (seen != nullptr && (seen[id / kWord] >> (id % kWord) & 1U) != 0)
      x = x < 0 ? __fmul_rn(x, penalty) : __fdiv_rn(x, penalty);
    for (int i = 0; i < stops; ++i)
      if (forbidden[i] == id) x = -INFINITY;
    return __fadd_rn(x, 0);  // no negative zero, whose bits would be another key
  }
};

struct Best {
  float logit, score;
  int id, bad;  // the first of the best scores; whether a logit is not finite
};

__device__ inline Best better(const Best& a, const Best& b) {
  const bool other = b.score > a.score || (b.score == a.score && b.id < a.id);
  return {b.logit > a.logit ? b.logit : a.logit, other ? b.score : a.score, other ? b.id : a.id,
          a.bad | b.bad};
}

// In all threads of the block.
template <int kThreads>
__device__ Best look(const Row& row) {
  constexpr std::uint32_t kExponent = 0x7F800000U;
  Best* const parts = shared<8, Best, kThreads / kWarp>();
  Best best = {-INFINITY, -INFINITY, row.count, 0};
  for (int i = static_cast<int>(threadIdx.x); i < row.count; i += kThreads) {
    const bool bad = (__float_as_uint(row.logits[i]) & kExponent) == kExponent;
    best = better(best, {row.logits[i], row.score(i), i, bad ? 1 : 0});
  }
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    best = better(
        best,
        {__shfl_xor_sync(kAllLanes, best.logit, distance), __shfl_xor_sync(kAllLanes, best.score, distance),
         __shfl_xor_sync(kAllLanes, best.id, distance), __shfl_xor_sync(kAllLanes, best.bad, distance)});
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = best;
  __syncthreads();
  best = parts[0];
  HONE_ROLLED
  for (int i = 1; i < kThreads / kWarp; ++i) best = better(best, parts[i]);
  return best;
}

__device__ inline double warp_sum(double x) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(kAllLanes, x, distance);
  return x;
}

// With z = (logit - the best) / temperature these are ln sum exp(z), and sum z exp(z) / sum exp(z).
struct Facts {
  double log_sum, mean;
  float best;
};

// Into the block's memory, for its first thread.
template <int kThreads>
__device__ void add_facts(const Row& row, float best) {
  double* const parts = shared<1, double, 2 * kThreads / kWarp>();
  double sum = 0, dot = 0;
  for (int i = static_cast<int>(threadIdx.x); i < row.count; i += kThreads) {
    const float z = __fmul_rn(__fadd_rn(row.logits[i], -best), row.scale), weight = weight_of(z);
    sum += weight;
    dot += weight > 0 ? static_cast<double>(z) * weight : 0;
  }
  sum = warp_sum(sum);
  dot = warp_sum(dot);
  if (threadIdx.x % kWarp == 0) {
    parts[threadIdx.x / kWarp * 2] = sum;
    parts[threadIdx.x / kWarp * 2 + 1] = dot;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  sum = dot = 0;
  HONE_ROLLED
  for (int i = 0; i < kThreads / kWarp; ++i) {
    sum += parts[2 * i];
    dot += parts[2 * i + 1];
  }
  shared<2, Facts, 1>()[0] = {log(sum), dot / sum, best};
}

}  // namespace hone::ops::cuda::kernels
