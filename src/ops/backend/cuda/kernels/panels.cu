// Matrices that a GGUF has in blocks, in the CPU's panels, to numbers with the definition's bits: each operation is rounded by itself.
// A thread has eight neighbors of a row, which share a scale. The rows of a panel are the lanes of a warp. A matrix has whole
// blocks of threads.
#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kThreads = 256, kEight = 8;
constexpr std::int64_t kLanes = kPanelRows;
static_assert(kPanelRows * kPanelColumns % (kThreads * kEight) == 0);
static_assert(kPanelRows == kWarp);

// An fp16 number; exact.
__device__ float half_at(const std::uint8_t* halves, std::int64_t i) {
  const unsigned bits = reinterpret_cast<const std::uint16_t*>(halves)[i];
  const int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
  const float magnitude = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                          : exponent == 0 ? ldexpf(static_cast<float>(fraction), -24)
                                          : ldexpf(static_cast<float>(1024 + fraction), exponent - 25);
  return bits >> 15 == 0 ? magnitude : -magnitude;
}

__device__ unsigned word_at(const std::uint8_t* words, std::int64_t i) {
  return reinterpret_cast<const unsigned*>(words)[i];
}

struct Line {
  float scale = 0, minimum = 0;
};

// The numbers from `first` on in a panel's columns.
__device__ Line line_of(const DequantizePanels& d, std::int64_t first, std::int64_t lane) {
  const std::int64_t block = first / d.block * kLanes, group = first / d.group * kLanes;
  if (d.factors == nullptr) return {half_at(d.halves, block + lane)};
  if (!d.has_minimum) {
    const auto factor = static_cast<std::int8_t>(d.factors[group + lane]);
    return {__fmul_rn(half_at(d.halves, block + lane), static_cast<float>(factor))};
  }
  const float factor = d.factors[2 * group + lane], of_minimum = d.factors[2 * group + kLanes + lane];
  return {__fmul_rn(half_at(d.halves, 2 * block + lane), factor),
          __fmul_rn(half_at(d.halves, 2 * block + kLanes + lane), of_minimum)};
}

// The codes of eight neighbors, without their zero.
__device__ void load_codes(int (&codes)[kEight], const DequantizePanels& d, std::int64_t first,
                           std::int64_t lane) {
  if (d.bits == 8) {
    for (int j = 0; j < kEight; ++j) codes[j] = static_cast<std::int8_t>(d.low[(first + j) * kLanes + lane]);
    return;
  }
  const int width = d.bits - 4, in_word = width == 0 ? kEight : 32 / width;  // of the upper bits
  const unsigned low = word_at(d.low, first / kEight * kLanes + lane);
  const unsigned high = width == 0 ? 0
                                   : word_at(d.high, first / in_word * kLanes + lane) >>
                                         static_cast<int>(first % in_word) * width;
  for (int j = 0; j < kEight; ++j)
    codes[j] =
        static_cast<int>((low >> 4 * j & 15U) | (high >> width * j & ((1U << width) - 1)) << 4U) - d.zero;
}

template <typename Out>
__global__ void __launch_bounds__(kThreads) panels_kernel(DequantizePanels d) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t first = at / kLanes * kEight, lane = at % kLanes;  // columns of all panels, side by side
  const Line line = line_of(d, first, lane);
  int codes[kEight];
  load_codes(codes, d, first, lane);
  float x[kEight];
  for (int j = 0; j < kEight; ++j)
    x[j] = __fadd_rn(__fmul_rn(static_cast<float>(codes[j]), line.scale), -line.minimum);
  const std::int64_t row = first / d.in * kLanes + lane;
  store<kEight>(static_cast<Out*>(d.out.data) + row * d.out.stride + first % d.in, x);
}

}  // namespace

int dequantize_panels(const DequantizePanels& d, void* stream) {
  return with_type(d.out.dtype, [&](auto out) {
    return launch(panels_kernel<decltype(out)>, d.rows * d.in / (kThreads * kEight), kThreads, stream, d);
  });
}

}  // namespace hone::ops::cuda::kernels
