// Attention over two parts of the keys becomes that over all: a thread has four neighbors of a head, or one, and computes the parts'
// shares of the sum again, which is cheaper than to bring them.
#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kThreads = 256;

__device__ float* at(const HeadNumbers& x, std::int64_t token, std::int64_t head) {
  return x.data + token * x.token_stride + head * x.head_stride;
}

template <typename T>
__device__ T* at(const Heads& x, std::int64_t token, std::int64_t head, std::int64_t column) {
  return static_cast<T*>(x.data) + token * x.token_stride + head * x.head_stride + column;
}

template <typename Out, typename In, int kCount>
__global__ void __launch_bounds__(kThreads) join_kernel(JoinAttention a) {
  const std::int64_t of_head = a.dim / kCount,
                     place = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (place >= a.tokens * a.heads * of_head) return;
  const std::int64_t column = place % of_head * kCount, head = place / of_head % a.heads,
                     token = place / of_head / a.heads, row = a.rows == nullptr ? token : a.rows[token];
  const float own = *at(a.own_lse, row, head), part = *at(a.part_lse, token, head);
  const float apart = part == INFINITY ? -INFINITY : part - own;  // no keys, whose sum is zero
  const float share = 1 / (1 + expf(apart));
  float x[kCount], y[kCount];
  load<kCount>(x, at<const In>(a.own, row, head, column));
  load<kCount>(y, at<const In>(a.part, token, head, column));
  for (int j = 0; j < kCount; ++j) x[j] = y[j] + (x[j] - y[j]) * share;
  store<kCount>(at<Out>(a.out, row, head, column), x);
  if (column == 0 && a.lse.data != nullptr)
    *at(a.lse, row, head) = apart <= 0 ? own + log1pf(expf(apart)) : part + log1pf(expf(-apart));
}

bool by_fours(const Heads& x, std::int64_t dim) {
  return by_fours(Rows{x.data, x.token_stride, x.dtype}, dim) && x.head_stride % kFour == 0;
}

}  // namespace

int join_attention(const JoinAttention& a, void* stream) {
  const bool fours = by_fours(a.out, a.dim) && by_fours(a.own, a.dim) && by_fours(a.part, a.dim);
  return with_type(a.out.dtype, [&](auto out) {
    return with_type(a.own.dtype, [&](auto in) {
      return with_count(fours, [&](auto count) {
        constexpr int kCount = decltype(count)::value;
        return launch(join_kernel<decltype(out), decltype(in), kCount>,
                      ceil_div(a.tokens * a.heads * (a.dim / kCount), kThreads), kThreads, stream, a);
      });
    });
  });
}

}  // namespace hone::ops::cuda::kernels
