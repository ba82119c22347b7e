// Blocks of matrices that are copied, or added, to others in one launch. A thread block has one of them, or a part of it; a thread has
// four neighbors, or one.
#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kThreads = 256;

template <typename Out, typename X, int kCount>
__device__ void copy_part(const BlockCopy& b, std::int64_t at) {
  const std::int64_t of_row = b.columns / kCount, row = at / of_row, column = at % of_row * kCount;
  if (row >= b.rows) return;
  Out* const out = static_cast<Out*>(b.out.data) + row * b.out.stride + column;
  float x[kCount];
  const auto* const from = static_cast<const X*>(b.x.data);
  load<kCount>(x, b.transposed ? from + column * b.x.stride + row : from + row * b.x.stride + column);
  if (b.add) {
    float sum[kCount];
    load<kCount>(sum, out);
    for (int j = 0; j < kCount; ++j) x[j] += sum[j];
  }
  store<kCount>(out, x);
}

template <typename Out, typename X>
__device__ void copy_part(const BlockCopy& b, std::int64_t at) {
  if (b.four)
    copy_part<Out, X, kFour>(b, at);
  else
    copy_part<Out, X, 1>(b, at);
}

template <typename Out>
__device__ void copy_part(const BlockCopy& b, std::int64_t at) {
  if (b.x.dtype == Dtype::kFloat)
    copy_part<Out, float>(b, at);
  else
    copy_part<Out, bf16>(b, at);
}

__global__ void __launch_bounds__(kThreads) copy_blocks_kernel(const __grid_constant__ CopyBlocks c) {
  int i = 0;
  while (i + 1 < c.count && static_cast<std::int64_t>(blockIdx.x) >= c.blocks[i + 1].first) ++i;
  const BlockCopy& b = c.blocks[i];
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) - b.first) * kThreads + threadIdx.x;
  if (b.out.dtype == Dtype::kFloat)
    copy_part<float>(b, at);
  else
    copy_part<bf16>(b, at);
}

}  // namespace

int copy_blocks(const CopyBlocks& c, void* stream) {
  CopyBlocks placed = c;
  std::int64_t blocks = 0;
  for (int i = 0; i < c.count; ++i) {
    BlockCopy& b = placed.blocks[i];
    b.four = !b.transposed && by_fours(b.out, b.columns) && by_fours(b.x, b.columns);
    b.first = blocks;
    blocks += ceil_div(b.rows * b.columns, kThreads * (b.four ? kFour : 1));
  }
  return launch(copy_blocks_kernel, blocks, kThreads, stream, placed);
}

}  // namespace hone::ops::cuda::kernels
