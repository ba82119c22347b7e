// Rows looked up, and rows added to others without atomics. Of a sum a block has a row of the sum, or a part of one that is wide, and adds what comes to it one
// after another, so that the sum has the CPU's bits. A thread has four neighbors, or one.
#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kThreads = 256;

template <typename D, int kCount>
__global__ void __launch_bounds__(kThreads) add_rows_kernel(AddRows a) {
  // of 32 bits: a division of 64 is a call, before which ptxas stores registers
  const auto parts = static_cast<unsigned>((a.width + kThreads * kCount - 1) / (kThreads * kCount));
  const std::int64_t group = blockIdx.x / parts, part = blockIdx.x % parts;
  const std::int64_t column = (part * kThreads + threadIdx.x) * kCount;
  if (column >= a.width) return;
  float* const out = static_cast<float*>(a.out.data) + a.rows[group] * a.out.stride + column;
  float sum[kCount];
  load<kCount>(sum, out);
  for (std::int64_t i = a.starts[group]; i < a.starts[group + 1]; ++i) {
    float x[kCount];
    load<kCount>(x, static_cast<const D*>(a.d.data) + a.from[i] * a.d.stride + column);
    for (int j = 0; j < kCount; ++j) sum[j] += x[j];
  }
  store<kCount>(out, sum);
}

template <typename Out, typename Table, int kCount>
__global__ void __launch_bounds__(kThreads) gather_rows_kernel(GatherRows g) {
  const std::int64_t of_row = g.width / kCount;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= g.tokens * of_row) return;
  const std::int64_t token = at / of_row, first = at % of_row * kCount;
  float x[kCount];
  load<kCount>(x, static_cast<const Table*>(g.table.data) + g.ids[token] * g.table.stride + first);
  store<kCount>(static_cast<Out*>(g.out.data) + token * g.out.stride + first, x);
}

}  // namespace

int add_rows(const AddRows& a, void* stream) {
  return with_type(a.d.dtype, [&](auto d) {
    return with_count(by_fours(a.out, a.width) && by_fours(a.d, a.width), [&](auto count) {
      constexpr int kCount = decltype(count)::value;
      return launch(add_rows_kernel<decltype(d), kCount>, a.groups * ceil_div(a.width, kThreads * kCount),
                    kThreads, stream, a);
    });
  });
}

int gather_rows(const GatherRows& g, void* stream) {
  return with_type(g.out.dtype, [&](auto out) {
    return with_type(g.table.dtype, [&](auto table) {
      return with_count(by_fours(g.out, g.width) && by_fours(g.table, g.width), [&](auto count) {
        constexpr int kCount = decltype(count)::value;
        return launch(gather_rows_kernel<decltype(out), decltype(table), kCount>,
                      ceil_div(g.tokens * (g.width / kCount), kThreads), kThreads, stream, g);
      });
    });
  });
}

}  // namespace hone::ops::cuda::kernels
