// AdamW, Lion, sums of squares and a factor over flat fp32 buffers. Each operation is rounded by itself and sums are in the CPU's order,
// so that a step has the CPU's bits. A thread has four neighbors, or one; a block has one sum.
#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 16;            // running sums of a block, which the CPU folds by halves too
constexpr std::int64_t kPart = 4096;  // numbers in shared memory at a time: 16 KiB
static_assert(kSquaresBlock % kPart == 0 && kPart % kLanes == 0);

// a + (b - a) * weight as at::lerp has it: from the end that is nearer.
__device__ float lerp(float a, float b, float weight) {
  const float delta = __fadd_rn(b, -a);
  return weight < 0.5F ? __fadd_rn(a, __fmul_rn(weight, delta))
                       : __fadd_rn(b, -__fmul_rn(delta, __fadd_rn(1, -weight)));
}

template <int kCount>
__global__ void __launch_bounds__(kThreads) adamw_kernel(Adamw s) {
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kCount;
  if (first >= s.size) return;
  float p[kCount], g[kCount], m[kCount], v[kCount];
  load<kCount>(p, s.p + first);
  load<kCount>(g, s.g + first);
  load<kCount>(m, s.m + first);
  load<kCount>(v, s.v + first);
  for (int j = 0; j < kCount; ++j) {
    m[j] = lerp(m[j], g[j], s.lerp);
    v[j] = __fadd_rn(__fmul_rn(v[j], s.beta2), __fmul_rn(__fmul_rn(s.one_minus_beta2, g[j]), g[j]));
    const float root = __fdiv_rn(__fsqrt_rn(v[j]), s.root_correction2);
    const float change = __fdiv_rn(__fmul_rn(s.minus_step_size, m[j]), __fadd_rn(root, s.epsilon));
    p[j] = __fadd_rn(__fmul_rn(p[j], s.decay), change);
  }
  store<kCount>(s.p + first, p);
  store<kCount>(s.m + first, m);
  store<kCount>(s.v + first, v);
}

template <int kCount>
__global__ void __launch_bounds__(kThreads) lion_kernel(Lion s) {
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kCount;
  if (first >= s.size) return;
  const LionRates& r = s.rates;
  float p[kCount], g[kCount], m[kCount];
  load<kCount>(p, s.p + first);
  load<kCount>(g, s.g + first);
  load<kCount>(m, s.m + first);
  for (int j = 0; j < kCount; ++j) {
    const float toward = fmaf(r.one_minus_beta1, g[j], __fmul_rn(m[j], r.beta1));
    p[j] = fmaf(r.minus_learning_rate, sign(toward), __fmul_rn(p[j], r.decay));
    m[j] = fmaf(r.one_minus_beta2, g[j], __fmul_rn(m[j], r.beta2));
  }
  store<kCount>(s.p + first, p);
  store<kCount>(s.m + first, m);
}

// All threads bring the numbers; a lane adds up every sixteenth. A square of fp32 is exact in fp64.
__global__ void __launch_bounds__(kThreads) squares_kernel(SquareSums s) {
  float* const part = shared<0, float, kPart>();
  double* const lanes = shared<1, double, kLanes>();
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kSquaresBlock;
  const std::int64_t left = s.size - begin, size = left < kSquaresBlock ? left : kSquaresBlock;
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  double sum = 0;
  for (std::int64_t from = 0; from < size; from += kPart) {
    const std::int64_t count = size - from < kPart ? size - from : kPart;
    for (std::int64_t i = thread; i < count; i += kThreads) part[i] = s.x[begin + from + i];
    __syncthreads();
    for (std::int64_t i = thread; thread < kLanes && i < count; i += kLanes) {
      const double x = part[i];
      sum += x * x;
    }
    __syncthreads();  // before the next part takes its place
  }
  if (thread < kLanes) lanes[thread] = sum;
  __syncthreads();
  if (thread != 0) return;
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  s.sums[blockIdx.x] = lanes[0];
}

template <int kCount>
__global__ void __launch_bounds__(kThreads) scale_kernel(Scale s) {
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kCount;
  if (first >= s.size) return;
  float x[kCount];
  load<kCount>(x, s.x + first);
  for (int j = 0; j < kCount; ++j) x[j] *= s.factor;
  store<kCount>(s.x + first, x);
}

template <int kCount>
std::int64_t blocks_of(std::int64_t size) {
  return ceil_div(size, kThreads * kCount);
}

}  // namespace

int adamw(const Adamw& s, void* stream) {
  const bool fours =
      by_fours(s.p, s.size) && by_fours(s.g, s.size) && by_fours(s.m, s.size) && by_fours(s.v, s.size);
  return with_count(fours, [&](auto count) {
    constexpr int kCount = decltype(count)::value;
    return launch(adamw_kernel<kCount>, blocks_of<kCount>(s.size), kThreads, stream, s);
  });
}

int lion(const Lion& s, void* stream) {
  const bool fours = by_fours(s.g, s.size) && by_fours(s.m, s.size) && by_fours(s.p, s.size);
  return with_count(fours, [&](auto count) {
    constexpr int kCount = decltype(count)::value;
    return launch(lion_kernel<kCount>, blocks_of<kCount>(s.size), kThreads, stream, s);
  });
}

int squares(const SquareSums& s, void* stream) {
  return launch(squares_kernel, ceil_div(s.size, kSquaresBlock), kThreads, stream, s);
}

int scale(const Scale& s, void* stream) {
  return with_count(by_fours(s.x, s.size), [&](auto count) {
    constexpr int kCount = decltype(count)::value;
    return launch(scale_kernel<kCount>, blocks_of<kCount>(s.size), kThreads, stream, s);
  });
}

}  // namespace hone::ops::cuda::kernels
