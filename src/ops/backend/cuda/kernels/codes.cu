// AdamW and Lion whose moments are codes of 8 bits: a thread block has the 256 numbers that share a scale, so that they are read, stepped and
// made codes again without being written between.
#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
static_assert(kThreads == kCodeBlock);

// The largest of a block's numbers, in all of its threads. `parts` is the block's own.
__device__ float block_largest(float x, float* parts) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, distance));
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = parts[0];
  for (int i = 1; i < kWarps; ++i) x = fmaxf(x, parts[i]);
  return x;
}

// DynamicCodes::quantize
__device__ std::uint8_t code_of(float x, float largest, const std::uint8_t* places) {
  if (largest < kLeastCodeScale) return 0;
  const float share = __fmul_rn(x, __fdiv_rn(1, largest));
  const float value = share >= -1 ? fminf(share, 1) : -1;  // not a number: -1
  return places[static_cast<int>(__fadd_rn(__fmul_rn(__fmul_rn(__fadd_rn(value, 1), 0.5F), 65535), 0.5F))];
}

__global__ void __launch_bounds__(kThreads) adamw_codes_kernel(AdamwCodes s) {
  const auto block = static_cast<std::int64_t>(blockIdx.x);
  const std::int64_t i = block * kThreads + threadIdx.x;
  const bool inside = i < s.size;
  float m = 0, v = 0;
  if (inside) {
    const float g = s.g[i];
    m = __fmul_rn(s.first.values[s.first.codes[i]], s.first.scales[block]);
    v = __fmul_rn(s.second.values[s.second.codes[i]], s.second.scales[block]);
    m = fmaf(s.one_minus_beta1, g, __fmul_rn(m, s.beta1));
    v = fmaf(__fmul_rn(s.one_minus_beta2, g), g, __fmul_rn(v, s.beta2));
    const float root = __fadd_rn(__fdiv_rn(__fsqrt_rn(v), s.root_correction2), s.epsilon);
    s.p[i] = __fadd_rn(__fmul_rn(s.p[i], s.decay), __fdiv_rn(__fmul_rn(s.minus_step_size, m), root));
  }
  const float first = block_largest(fabsf(m), shared<0, float, kWarps>());
  const float second = block_largest(fabsf(v), shared<1, float, kWarps>());
  if (inside) {
    s.first.codes[i] = code_of(m, first, s.first.places);
    s.second.codes[i] = code_of(v, second, s.second.places);
  }
  if (threadIdx.x != 0) return;
  s.first.scales[block] = first;  // all threads have read what was there: they met since
  s.second.scales[block] = second;
}

__global__ void __launch_bounds__(kThreads) lion_codes_kernel(LionCodes s) {
  const auto block = static_cast<std::int64_t>(blockIdx.x);
  const std::int64_t place = block * kThreads + threadIdx.x;
  const LionRates& r = s.rates;
  float m = 0;
  if (place < s.size) {
    const float g = s.g[place];
    m = __fmul_rn(s.moment.values[s.moment.codes[place]], s.moment.scales[block]);
    const float toward = __fadd_rn(__fmul_rn(m, r.beta1), __fmul_rn(g, r.one_minus_beta1));
    s.p[place] = fmaf(r.minus_learning_rate, sign(toward), __fmul_rn(s.p[place], r.decay));
    m = fmaf(r.one_minus_beta2, g, __fmul_rn(m, r.beta2));
  }
  const float largest = block_largest(fabsf(m), shared<0, float, kWarps>());
  if (place < s.size) s.moment.codes[place] = code_of(m, largest, s.moment.places);
  if (threadIdx.x == 0) s.moment.scales[block] = largest;  // all have read what was there: they met since
}

}  // namespace

int adamw_codes(const AdamwCodes& s, void* stream) {
  return launch(adamw_codes_kernel, ceil_div(s.size, kCodeBlock), kThreads, stream, s);
}

int lion_codes(const LionCodes& s, void* stream) {
  return launch(lion_codes_kernel, ceil_div(s.size, kCodeBlock), kThreads, stream, s);
}

}  // namespace hone::ops::cuda::kernels
