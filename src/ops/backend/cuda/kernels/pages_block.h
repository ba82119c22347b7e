// Both kernels of attention to pages have this in common: which query and head a block's rows are.
#pragma once

#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kLanes = 16;  // threads of a query
constexpr int kPackBytes = 16, kPage = static_cast<int>(kPageTokens);

__device__ int query_at(const AttendPages& a, const PagePart& part, int i) {
  return a.rows[part.first_row + i / static_cast<int>(a.heads / a.kv_heads)].query;
}

__device__ std::int64_t head_at(const AttendPages& a, std::int64_t kv_head, int i) {
  const auto group = static_cast<int>(a.heads / a.kv_heads);
  return kv_head * group + i % group;
}

// Returns where the result of a part's query goes, in heads of AttendPages::partial.
__device__ std::int64_t result_at(const AttendPages& a, const PagePart& part, std::int64_t kv_head, int i) {
  const std::int64_t result = a.rows[part.first_row + i / static_cast<int>(a.heads / a.kv_heads)].result;
  return result * a.heads + head_at(a, kv_head, i);
}

// Returns where the tokens of that page begin that has the part's token `first`.
__device__ std::int64_t token_at(const AttendPages& a, const PagePart& part, std::int64_t kv_head,
                                 int first) {
  const std::int64_t page = a.pages[part.first_page + first / kPage];
  return (page * a.kv_heads + kv_head) * kPage + first % kPage;
}

// They return the largest, and the sum, of what a thread's sixteen lanes have of a query.
__device__ float most_of_lanes(float x) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, distance));
  return x;
}
__device__ float sum_of_lanes(float x) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(kAllLanes, x, distance);
  return x;
}

}  // namespace
}  // namespace hone::ops::cuda::kernels
