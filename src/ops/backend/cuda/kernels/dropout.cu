// Dropout with the numbers that the CPU draws: a thread has one block of Philox, which is four features of a token.
#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"
#include "ops/backend/cuda/kernels/philox.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kThreads = 256;

template <typename Out, typename In, int kCount>
__global__ void dropout_kernel(Dropout d) {
  const std::int64_t blocks = (d.features + kFour - 1) / kFour;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= d.tokens * blocks) return;
  const std::int64_t token = at / blocks, first = at % blocks * kFour;
  const auto row = static_cast<std::uint64_t>(d.rows[token]);
  const Words words =
      philox({{static_cast<std::uint32_t>(first / kFour), static_cast<std::uint32_t>(d.positions[token]),
               static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(row >> 32)}},
             d.key[0], d.key[1]);
  Out* const out = static_cast<Out*>(d.out.data) + token * d.out.stride + first;
  const In* const in = static_cast<const In*>(d.x.data) + token * d.x.stride + first;
  for (int i = 0; i < kFour; i += kCount) {
    if (first + i >= d.features) return;
    float x[kCount], sum[kCount];
    load<kCount>(x, in + i);
    if (d.add) load<kCount>(sum, out + i);
    for (int j = 0; j < kCount; ++j) {
      const float kept = words.at[i + j] < d.dropped_below ? 0.0F : x[j] * d.kept;
      sum[j] = d.add ? sum[j] + kept : kept;
    }
    store<kCount>(out + i, sum);
  }
}

}  // namespace

int dropout(const Dropout& x, void* stream) {
  const std::int64_t all = x.tokens * ceil_div(x.features, kFour);
  return with_type(x.out.dtype, [&](auto out) {
    return with_type(x.x.dtype, [&](auto in) {
      return with_count(by_fours(x.out, x.features) && by_fours(x.x, x.features), [&](auto count) {
        return launch(dropout_kernel<decltype(out), decltype(in), decltype(count)::value>,
                      ceil_div(all, kThreads), kThreads, stream, x);
      });
    });
  });
}

}  // namespace hone::ops::cuda::kernels
