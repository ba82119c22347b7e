// Codes of 4 and 8 bits to numbers, with the definition's bits: each operation is rounded by itself. A thread has eight
// neighbors of a row, which share a scale and are four bytes of codes, or one number.
#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kThreads = 256, kEight = 8, kTable = 16;

// The scale of a block of 4-bit codes.
__device__ float scale_of(const Dequantize& d, std::int64_t block) {
  if (d.scale_codes == nullptr) return d.scales[block];
  const float offset = d.offsets == nullptr ? d.offset : d.offsets[block / d.blocks_of_matrix];
  return __fadd_rn(__fmul_rn(d.scale_table[d.scale_codes[block]], d.scales[block / d.nested_block]), offset);
}

template <typename Out>
__device__ Out* place_of(const Dequantize& d, std::int64_t first) {
  return static_cast<Out*>(d.out.data) + first / d.in * d.out.stride + first % d.in;
}

template <typename Out, int kCount>
__global__ void __launch_bounds__(kThreads) narrow_kernel(Dequantize d) {
  float* const table = shared<0, float, kTable>();
  if (threadIdx.x < kTable) table[threadIdx.x] = d.table[threadIdx.x];
  __syncthreads();
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kCount;
  if (first >= d.rows * d.in) return;
  const auto* const codes = static_cast<const std::uint8_t*>(d.codes) + first / 2;
  const float scale = scale_of(d, first / d.block);
  float x[kCount];
  if constexpr (kCount == 1) {  // the first number of a byte is in its upper half
    x[0] = __fmul_rn(table[first % 2 == 0 ? *codes >> 4 : *codes & 15], scale);
  } else {
    const auto bytes = *reinterpret_cast<const Pack<std::uint8_t, kCount / 2>*>(codes);
    for (int j = 0; j < kCount; ++j)
      x[j] = __fmul_rn(table[j % 2 == 0 ? bytes.values[j / 2] >> 4 : bytes.values[j / 2] & 15], scale);
  }
  store<kCount>(place_of<Out>(d, first), x);
}

template <typename Out, int kCount>
__global__ void __launch_bounds__(kThreads) bytes_kernel(Dequantize d) {
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kCount;
  if (first >= d.rows * d.in) return;
  const auto bytes =
      *reinterpret_cast<const Pack<std::int8_t, kCount>*>(static_cast<const std::int8_t*>(d.codes) + first);
  const float scale = d.scales[first / d.in];
  float x[kCount];
  for (int j = 0; j < kCount; ++j) x[j] = __fmul_rn(bytes.values[j], scale);
  store<kCount>(place_of<Out>(d, first), x);
}

bool is_aligned(const void* data, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) == 0;
}

}  // namespace

int dequantize(const Dequantize& d, void* stream) {
  const bool is_narrow = d.table != nullptr;
  const bool eights = d.in % kEight == 0 && (!is_narrow || d.block % kEight == 0) &&
                      d.out.stride % kEight == 0 && is_aligned(d.out.data, kEight * bytes_of(d.out.dtype)) &&
                      is_aligned(d.codes, is_narrow ? kEight / 2 : kEight);
  const std::int64_t blocks = ceil_div(d.rows * d.in, kThreads * (eights ? kEight : 1));
  return with_type(d.out.dtype, [&](auto out) {
    using Out = decltype(out);
    if (is_narrow)
      return eights ? launch(narrow_kernel<Out, kEight>, blocks, kThreads, stream, d)
                    : launch(narrow_kernel<Out, 1>, blocks, kThreads, stream, d);
    return eights ? launch(bytes_kernel<Out, kEight>, blocks, kThreads, stream, d)
                  : launch(bytes_kernel<Out, 1>, blocks, kThreads, stream, d);
  });
}

}  // namespace hone::ops::cuda::kernels
