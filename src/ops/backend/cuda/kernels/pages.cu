// Attention of single tokens to keys and values in pages. A block has a part and a head of keys: all rows that read the part, and all
// heads of queries over that head, so that a prompt's page is read once for all samples: here in fp32, in tensor_pages.h for bf16. Then
// a thread joins four neighbors of a row's results. A row's numbers do not depend on the rows beside it: wide and narrow blocks take
// as many tokens at a time.
#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"
#include "ops/backend/cuda/kernels/tensor_pages.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kJoinThreads = 256;

// Sizes of a block: `kQueries` of them by tokens of a tile, in rows of packs, and one pack more so that rows begin in other banks.
template <typename T, int kMostDim, int kMostQueries, int kEach>
struct Sizes {
  using Number = T;
  static constexpr int kDim = kMostDim, kQueries = kMostQueries, kOfThread = kEach;
  static constexpr int kVector = kPackBytes / static_cast<int>(sizeof(T)),
                       kRowBytes = kDim * static_cast<int>(sizeof(T));
  static constexpr int kRow = kDim / kVector + 1;
  static constexpr int kTokens = kRowBytes <= 256 ? 32 : kRowBytes <= 512 ? 16 : 8;
  static constexpr int kSlots = kQueries / kOfThread, kThreads = kSlots * kLanes,
                       kColumns = kDim / (kLanes * kFour);
  static_assert(kPage % kTokens == 0);
  using Numbers = Pack<T, kVector>;
};

template <typename Numbers, int kVector>
__device__ float dot(const Numbers* a, const Numbers* b, int packs) {
  float sum = 0;
  HONE_ROLLED
  for (int i = 0; i < packs; ++i)
    for (int j = 0; j < kVector; ++j) sum += to_float(a[i].values[j]) * to_float(b[i].values[j]);
  return sum;
}

template <typename S>
struct Block {
  typename S::Numbers *queries, *tile;  // [kQueries, kRow] and [kTokens, kRow]
  float* scores;                        // [kQueries, kTokens], then weights
};

template <typename S>
__device__ void load_queries(const AttendPages& a, const PagePart& part, std::int64_t kv_head, int queries,
                             const Block<S>& block) {
  const int packs = static_cast<int>(a.dim) / S::kVector;
  for (int i = static_cast<int>(threadIdx.x); i < queries * packs; i += S::kThreads) {
    const int query = i / packs;
    const auto* const from = static_cast<const typename S::Number*>(a.q.data) +
                             query_at(a, part, query) * a.q.token_stride +
                             head_at(a, kv_head, query) * a.q.head_stride;
    block.queries[query * S::kRow + i % packs] =
        reinterpret_cast<const typename S::Numbers*>(from)[i % packs];
  }
}

// `count` tokens of the part, from `first` on; they are of one page.
template <typename S>
__device__ void load_tile(const AttendPages& a, const void* memory, const PagePart& part,
                          std::int64_t kv_head, int first, int count, const Block<S>& block) {
  const int packs = static_cast<int>(a.dim) / S::kVector;
  const auto* const from =
      static_cast<const typename S::Numbers*>(memory) + token_at(a, part, kv_head, first) * packs;
  for (int i = static_cast<int>(threadIdx.x); i < count * packs; i += S::kThreads)
    block.tile[i / packs * S::kRow + i % packs] = from[i];
}

// Of tokens past the end, and of queries past theirs: -inf.
template <typename S>
__device__ void score_tile(const AttendPages& a, int queries, int count, const Block<S>& block) {
  const int packs = static_cast<int>(a.dim) / S::kVector;
  for (int i = static_cast<int>(threadIdx.x); i < S::kQueries * S::kTokens; i += S::kThreads) {
    const int token = i % S::kTokens, query = i / S::kTokens;
    float score = -INFINITY;
    if (token < count && query < queries)
      score = a.scale * dot<typename S::Numbers, S::kVector>(block.queries + query * S::kRow,
                                                             block.tile + token * S::kRow, packs);
    block.scores[i] = score;
  }
}

// Of one query and a thread's columns: the weighted sum of values at `peak`, and of the weights.
template <typename S>
struct Sum {
  float peak, weights, values[S::kColumns][kFour];
};

// Scores become weights, and the sums so far are of the new peak. Sixteen lanes have a query.
template <typename S>
__device__ void weigh_tile(float* scores, int lane, Sum<S>& sum) {
  float peak = sum.peak;
  for (int t = lane; t < S::kTokens; t += kLanes) peak = fmaxf(peak, scores[t]);
  peak = most_of_lanes(peak);
  const float base = peak == -INFINITY ? 0 : peak, factor = expf(sum.peak - base);
  float weights = 0;
  for (int t = lane; t < S::kTokens; t += kLanes) {
    scores[t] = expf(scores[t] - base);
    weights += scores[t];
  }
  sum.peak = peak;
  sum.weights = sum.weights * factor + sum_of_lanes(weights);
  for (int c = 0; c < S::kColumns; ++c)
    for (int j = 0; j < kFour; ++j) sum.values[c][j] *= factor;
}

template <typename S>
__device__ void add_values(const float* weights, const typename S::Numbers* tile, int lane, int count,
                           std::int64_t dim, Sum<S>& sum) {
  HONE_ROLLED
  for (int t = 0; t < count; ++t) {
    const auto* const row = reinterpret_cast<const typename S::Number*>(tile + t * S::kRow);
    for (int c = 0; c < S::kColumns; ++c) {
      const int column = (c * kLanes + lane) * kFour;
      if (column >= dim) continue;
      float x[kFour];
      load<kFour>(x, row + column);
      for (int j = 0; j < kFour; ++j) sum.values[c][j] += weights[t] * x[j];
    }
  }
}

template <typename S>
__device__ void put(const AttendPages& a, const PagePart& part, std::int64_t kv_head, int query, int lane,
                    const Sum<S>& sum) {
  const std::int64_t place = result_at(a, part, kv_head, query);
  for (int c = 0; c < S::kColumns; ++c) {
    const int column = (c * kLanes + lane) * kFour;
    if (column >= a.dim) continue;
    float x[kFour];
    for (int j = 0; j < kFour; ++j) x[j] = sum.values[c][j] / sum.weights;
    store<kFour>(a.partial + place * a.dim + column, x);
  }
  if (lane == 0) a.partial_lse[place] = sum.peak + logf(sum.weights);
}

template <typename S>
__global__ void __launch_bounds__(S::kThreads, blocks_at_once(S::kThreads))
    part_kernel(AttendPages a, std::int64_t first_part) {
  const std::int64_t kv_head = blockIdx.x % a.kv_heads;
  const PagePart part = a.parts[first_part + blockIdx.x / a.kv_heads];
  const int queries = part.rows * static_cast<int>(a.heads / a.kv_heads);
  if (queries == 0) return;
  const Block<S> block = {shared<0, typename S::Numbers, S::kQueries * S::kRow>(),
                          shared<1, typename S::Numbers, S::kTokens * S::kRow>(),
                          shared<2, float, S::kQueries * S::kTokens>()};
  const int lane = static_cast<int>(threadIdx.x) % kLanes, slot = static_cast<int>(threadIdx.x) / kLanes;
  Sum<S> sums[S::kOfThread];
  for (Sum<S>& sum : sums) {
    sum = {};
    sum.peak = -INFINITY;
  }
  load_queries(a, part, kv_head, queries, block);
  HONE_ROLLED
  for (int first = 0; first < part.tokens; first += S::kTokens) {
    const int left = part.tokens - first, count = left < S::kTokens ? left : S::kTokens;
    load_tile(a, a.keys, part, kv_head, first, count, block);
    __syncthreads();  // keys, and at first queries
    score_tile(a, queries, count, block);
    __syncthreads();  // scores
    load_tile(a, a.values, part, kv_head, first, count, block);
    for (int i = 0; i < S::kOfThread; ++i)
      weigh_tile(block.scores + (slot + i * S::kSlots) * S::kTokens, lane, sums[i]);
    __syncthreads();  // values and weights
    for (int i = 0; i < S::kOfThread; ++i)
      add_values(block.scores + (slot + i * S::kSlots) * S::kTokens, block.tile, lane, count, a.dim, sums[i]);
    __syncthreads();  // before the next keys take their place
  }
  for (int i = 0; i < S::kOfThread; ++i) {
    const int query = slot + i * S::kSlots;
    if (query < queries) put(a, part, kv_head, query, lane, sums[i]);
  }
}

template <typename T>
__global__ void __launch_bounds__(kJoinThreads) join_parts_kernel(AttendPages a) {
  const std::int64_t of_head = a.dim / kFour,
                     place = static_cast<std::int64_t>(blockIdx.x) * kJoinThreads + threadIdx.x;
  if (place >= a.tokens * a.heads * of_head) return;
  const std::int64_t column = place % of_head * kFour, head = place / of_head % a.heads,
                     token = place / of_head / a.heads;
  const std::int32_t begin = a.results_of[token], end = a.results_of[token + 1];
  float peak = -INFINITY, weights = 0, sum[kFour] = {};
  for (std::int32_t i = begin; i < end; ++i) peak = fmaxf(peak, a.partial_lse[i * a.heads + head]);
  for (std::int32_t i = begin; i < end; ++i) {
    const float weight = expf(a.partial_lse[i * a.heads + head] - peak);
    float x[kFour];
    load<kFour>(x, a.partial + (i * a.heads + head) * a.dim + column);
    for (int j = 0; j < kFour; ++j) sum[j] += weight * x[j];
    weights += weight;
  }
  for (float& x : sum) x = begin == end ? 0 : x / weights;
  store<kFour>(static_cast<T*>(a.out.data) + token * a.out.token_stride + head * a.out.head_stride + column,
               sum);
  if (column == 0 && a.lse.data != nullptr)
    a.lse.data[token * a.lse.token_stride + head * a.lse.head_stride] =
        begin == end ? -INFINITY : peak + logf(weights);
}

template <int kDim, int kQueries, int kEach>
int attend(float /*type*/, const AttendPages& a, std::int64_t first, std::int64_t parts, void* stream) {
  using S = Sizes<float, kDim, kQueries, kEach>;
  return launch(part_kernel<S>, parts * a.kv_heads, S::kThreads, stream, a, first);
}
template <int kDim, int kQueries, int kEach>
int attend(bf16 /*type*/, const AttendPages& a, std::int64_t first, std::int64_t parts, void* stream) {
  using S = TensorSizes<kDim, kQueries, kEach>;
  return launch(tensor_part_kernel<S>, parts * a.kv_heads, S::kThreads, stream, a, first);
}

template <typename T, int kDim>
int attend_parts(const AttendPages& a, void* stream) {
  constexpr int kWidest = static_cast<int>(widest_part(kDim)), kAtOnce = 32;
  const int error = attend<kDim, kWidest, kWidest / kAtOnce>(T(), a, 0, a.wide, stream);
  if (error != 0) return error;
  return attend<kDim, static_cast<int>(kNarrowPart), 1>(T(), a, a.wide, a.narrow, stream);
}

}  // namespace

int attend_pages(const AttendPages& a, void* stream) {
  return with_type(a.q.dtype, [&](auto type) {
    using T = decltype(type);
    const int error = a.dim <= 64    ? attend_parts<T, 64>(a, stream)
                      : a.dim <= 128 ? attend_parts<T, 128>(a, stream)
                                     : attend_parts<T, 256>(a, stream);
    if (error != 0) return error;
    return launch(join_parts_kernel<T>, ceil_div(a.tokens * a.heads * (a.dim / kFour), kJoinThreads),
                  kJoinThreads, stream, a);
  });
}

}  // namespace hone::ops::cuda::kernels
