// Attention of single tokens to pages of bf16, by tensor cores. A block has a part and a head of keys (pages.cu). Tokens are the
// sixteen rows of a product and queries its eight columns, so that few queries fill it: scores [tokens, queries] = K Q^T, and sums
// [dim, queries] = V^T P^T. Weights are two numbers of bf16 each, whose sum is near the fp32 weight. Sums are in fp32.
//
// Keys and values of a tile come by copies that nobody waits for until they are needed: values while keys are multiplied, the next
// keys while values are. A row's numbers do not depend on the rows beside it: each is of a column of its own, and tokens are in order.
#pragma once

#include "ops/backend/cuda/kernels/device.h"
#include "ops/backend/cuda/kernels/entries.h"
#include "ops/backend/cuda/kernels/pages_block.h"

namespace hone::ops::cuda::kernels {
namespace {

constexpr int kMatrixRows = 16, kMatrixColumns = 8;  // of a product; sixteen also are what it adds up
constexpr int kPackNumbers = kPackBytes / static_cast<int>(sizeof(bf16)), kPacksOfMatrix = 2;

// Sizes of a block: `kQueries` of them by tokens of a tile. Rows have a pack more, so that they begin in other banks.
template <int kMostDim, int kMostQueries, int kEach>
struct TensorSizes {
  static constexpr int kDim = kMostDim, kQueries = kMostQueries, kOfThread = kEach;
  static constexpr int kTokens = kDim <= 128 ? 32 : 16, kRow = kDim / kPackNumbers + 1;
  static constexpr int kSlots = kQueries / kOfThread, kThreads = kSlots * kLanes, kWarps = kThreads / kWarp;
  // A query has this many scores, and in their place both parts of its weights.
  static constexpr int kScores = kTokens + kFour;
  // Matrices of sums, and those of a warp: some of one column of them, or one with some of its neighbors.
  static constexpr int kHeights = kDim / kMatrixRows, kWidths = kQueries / kMatrixColumns;
  static constexpr int kOwnHeights = kHeights > kWarps ? kHeights / kWarps : 1;
  static constexpr int kOwnWidths = kHeights > kWarps ? kWidths : kWidths* kHeights / kWarps;
  static_assert(kPage % kTokens == 0 && kOwnWidths * kOwnHeights * kWarps == kHeights * kWidths);
};

using Packed = Pack<bf16, kPackNumbers>;

template <typename S>
struct TensorBlock {
  Packed *queries, *keys, *values;  // [kQueries, kRow], [kTokens, kRow] twice
  float *scores, *factors;          // [kQueries, kScores], [kQueries]
};

// They are a warp's matrices of sums.
template <typename S>
using Sums = float[S::kOwnHeights][S::kOwnWidths][4];

// It is what a query has seen so far.
struct Seen {
  float peak, weights;
};

__device__ inline int lane_of_warp() {
  return static_cast<int>(threadIdx.x) % kWarp;
}
__device__ inline int warp_of_block() {
  return static_cast<int>(threadIdx.x) / kWarp;
}

// Packs of a row that products read: those past its end are zeros.
__device__ int packs_read(const AttendPages& a) {
  const int packs = static_cast<int>(a.dim) / kPackNumbers;
  return packs + packs % kPacksOfMatrix;
}

// Tokens of the tile that begins with `first`.
template <typename S>
__device__ int tokens_from(const PagePart& part, int first) {
  return part.tokens - first < S::kTokens ? part.tokens - first : S::kTokens;
}

template <typename S>
__device__ void ask_for_queries(const AttendPages& a, const PagePart& part, std::int64_t kv_head, int queries,
                                const TensorBlock<S>& block) {
  const int packs = static_cast<int>(a.dim) / kPackNumbers, read = packs_read(a);
  HONE_ROLLED
  for (int i = static_cast<int>(threadIdx.x); i < queries * read; i += S::kThreads) {
    const int query = i / read, pack = i % read;
    const auto* const from = reinterpret_cast<const Packed*>(static_cast<const bf16*>(a.q.data) +
                                                             query_at(a, part, query) * a.q.token_stride +
                                                             head_at(a, kv_head, query) * a.q.head_stride);
    const bool is_there = pack < packs;
    async_copy(block.queries + query * S::kRow + pack, from + (is_there ? pack : 0), is_there);
  }
}

// A tile: `count` tokens of the part from `first` on, which are of one page, and zeros for others.
template <typename S>
__device__ void ask_for_tile(const AttendPages& a, const void* memory, const PagePart& part,
                             std::int64_t kv_head, int first, int count, Packed* tile) {
  const int packs = static_cast<int>(a.dim) / kPackNumbers, read = packs_read(a);
  const auto* const from = static_cast<const Packed*>(memory) + token_at(a, part, kv_head, first) * packs;
  HONE_ROLLED
  for (int i = static_cast<int>(threadIdx.x); i < S::kTokens * read; i += S::kThreads) {
    const int token = i / read, pack = i % read;
    const bool is_there = token < count && pack < packs;
    async_copy(tile + token * S::kRow + pack, from + (is_there ? token * packs + pack : 0), is_there);
  }
}

// Tokens past the end have -inf. Columns of queries that are not there are nobody's.
template <typename S>
__device__ void score_by_matrices(const AttendPages& a, int queries, int count, const TensorBlock<S>& block) {
  constexpr int kAbove = S::kTokens / kMatrixRows;
  const int lane = lane_of_warp(), steps = packs_read(a) / kPacksOfMatrix;
  HONE_ROLLED
  for (int i = warp_of_block(); i < kAbove * S::kWidths; i += S::kWarps) {
    const int token = i % kAbove * kMatrixRows, query = i / kAbove * kMatrixColumns;
    if (query >= queries) continue;
    const Packed* const keys = block.keys + (token + lane % 16) * S::kRow + lane / 16;
    const Packed* const of_query = block.queries + (query + lane / 4) * S::kRow;
    float sums[4] = {};
    HONE_ROLLED
    for (int step = 0; step < steps; ++step) {
      std::uint32_t k[4];
      load_matrices(k, keys + step * kPacksOfMatrix);
      const auto* const words = reinterpret_cast<const std::uint32_t*>(of_query + step * kPacksOfMatrix);
      const std::uint32_t q[2] = {words[lane % 4], words[4 + lane % 4]};
      multiply_add(sums, k, q);
    }
    for (int j = 0; j < 4; ++j) {
      const int row = token + lane / 4 + j / 2 * 8, column = query + lane % 4 * 2 + j % 2;
      block.scores[column * S::kScores + row] = row < count ? a.scale * sums[j] : -INFINITY;
    }
  }
}

// Scores become weights. Sixteen lanes have a query: each has read its scores when the largest of all is known.
template <typename S>
__device__ void weigh_scores(float* scores, float* factor, int lane, Seen& seen) {
  constexpr int kOwn = S::kTokens / kLanes;
  float own[kOwn], peak = seen.peak, weights = 0;
  for (int i = 0; i < kOwn; ++i) {
    own[i] = scores[i * kLanes + lane];
    peak = fmaxf(peak, own[i]);
  }
  peak = most_of_lanes(peak);
  const float base = peak == -INFINITY ? 0 : peak, of_before = expf(seen.peak - base);
  auto* const parts = reinterpret_cast<bf16*>(scores);
  for (int i = 0; i < kOwn; ++i) {
    const float weight = expf(own[i] - base);
    const bf16 first = to_bf16(weight);
    parts[i * kLanes + lane] = first;
    parts[S::kTokens + i * kLanes + lane] = to_bf16(weight - to_float(first));
    weights += weight;
  }
  seen = {.peak = peak, .weights = seen.weights * of_before + sum_of_lanes(weights)};
  if (lane == 0) *factor = of_before;
}

// The first query of a warp's matrices, and its first sixteen columns of values.
template <typename S>
__device__ int own_query() {
  return warp_of_block() / S::kHeights * S::kOwnWidths * kMatrixColumns;
}
template <typename S>
__device__ int own_column(int height) {
  return (warp_of_block() % S::kHeights + height * S::kWarps) * kMatrixRows;
}

template <typename S>
__device__ void add_by_matrices(const AttendPages& a, int queries, const TensorBlock<S>& block,
                                Sums<S>& sums) {
  const int lane = lane_of_warp(), first = own_query<S>();
  for (int h = 0; h < S::kOwnHeights; ++h) {
    const int column = own_column<S>(h);
    if (column >= a.dim) continue;
    for (int w = 0; w < S::kOwnWidths; ++w) {
      const int query = first + w * kMatrixColumns + lane % 4 * 2;
      for (int j = 0; j < 4; ++j) sums[h][w][j] *= block.factors[query + j % 2];
    }
    const Packed* const values =
        block.values + (lane % 8 + lane / 16 * 8) * S::kRow + column / kPackNumbers + lane / 8 % 2;
    for (int step = 0; step < S::kTokens / kMatrixRows; ++step) {
      std::uint32_t v[4];
      load_transposed(v, values + step * kMatrixRows * S::kRow);
      for (int w = 0; w < S::kOwnWidths; ++w) {
        const int query = first + w * kMatrixColumns;
        if (query >= queries) continue;
        const auto* const words =
            reinterpret_cast<const std::uint32_t*>(block.scores + (query + lane / 4) * S::kScores);
        for (int part = 0; part < 2; ++part) {
          const int word = part * S::kTokens / 2 + step * 8 + lane % 4;
          const std::uint32_t p[2] = {words[word], words[word + 4]};
          multiply_add(sums[h][w], v, p);
        }
      }
    }
  }
}

template <typename S>
__device__ void put_sums(const AttendPages& a, const PagePart& part, std::int64_t kv_head, int queries,
                         const float* weights, const Sums<S>& sums) {
  const int lane = lane_of_warp();
  for (int w = 0; w < S::kOwnWidths; ++w) {
    for (int side = 0; side < 2; ++side) {
      const int query = own_query<S>() + w * kMatrixColumns + lane % 4 * 2 + side;
      if (query >= queries) continue;
      float* const to = a.partial + result_at(a, part, kv_head, query) * a.dim;
      for (int h = 0; h < S::kOwnHeights; ++h) {
        for (int half = 0; half < 2; ++half) {
          const int column = own_column<S>(h) + lane / 4 + half * 8;
          if (column < a.dim) to[column] = sums[h][w][half * 2 + side] / weights[query];
        }
      }
    }
  }
}

template <typename S>
__global__ void __launch_bounds__(S::kThreads, blocks_at_once(S::kThreads))
    tensor_part_kernel(AttendPages a, std::int64_t first_part) {
  const auto kv_heads = static_cast<unsigned>(a.kv_heads);
  const auto kv_head = static_cast<int>(blockIdx.x % kv_heads);
  const PagePart part = a.parts[first_part + blockIdx.x / kv_heads];
  const int queries = part.rows * static_cast<int>(a.heads / a.kv_heads);
  if (queries == 0) return;
  const TensorBlock<S> block = {
      shared<0, Packed, S::kQueries * S::kRow>(), shared<1, Packed, S::kTokens * S::kRow>(),
      shared<2, Packed, S::kTokens * S::kRow>(), shared<3, float, S::kQueries * S::kScores>(),
      shared<4, float, S::kQueries>()};
  const int lane = static_cast<int>(threadIdx.x) % kLanes, slot = static_cast<int>(threadIdx.x) / kLanes;
  Seen seen[S::kOfThread];
  for (Seen& one : seen) one = {.peak = -INFINITY, .weights = 0};
  Sums<S> sums = {};
  ask_for_queries(a, part, kv_head, queries, block);
  ask_for_tile<S>(a, a.keys, part, kv_head, 0, tokens_from<S>(part, 0), block.keys);
  async_group();
  HONE_ROLLED
  for (int first = 0; first < part.tokens; first += S::kTokens) {
    const int next = first + S::kTokens;
    async_wait<0>();
    __syncthreads();  // keys are there, and values and weights of the tile before are done with
    ask_for_tile<S>(a, a.values, part, kv_head, first, tokens_from<S>(part, first), block.values);
    async_group();
    score_by_matrices(a, queries, tokens_from<S>(part, first), block);
    __syncthreads();  // scores are there, and keys are done with
    if (next < part.tokens)
      ask_for_tile<S>(a, a.keys, part, kv_head, next, tokens_from<S>(part, next), block.keys);
    async_group();
    for (int i = 0; i < S::kOfThread; ++i) {
      const int query = slot + i * S::kSlots;
      weigh_scores<S>(block.scores + query * S::kScores, block.factors + query, lane, seen[i]);
    }
    async_wait<1>();  // not for the next keys
    __syncthreads();  // values and weights are there
    add_by_matrices(a, queries, block, sums);
  }
  __syncthreads();  // the last factors are done with
  for (int i = 0; i < S::kOfThread; ++i) {
    const int query = slot + i * S::kSlots;
    if (query >= queries || lane != 0) continue;
    block.factors[query] = seen[i].weights;
    a.partial_lse[result_at(a, part, kv_head, query)] = seen[i].peak + logf(seen[i].weights);
  }
  __syncthreads();  // sums of weights
  put_sums<S>(a, part, kv_head, queries, block.factors, sums);
}

}  // namespace
}  // namespace hone::ops::cuda::kernels
