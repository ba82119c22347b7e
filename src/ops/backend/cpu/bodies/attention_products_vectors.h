// The products of the attention kernels with vectors: blocks of kRows rows in registers, pairs of bf16 by `multiply` of
// attention_vectors.h. An element is one chain over pairs in order. attention_products_tiles.h has the same functions.
#pragma once

#include "ops/backend/cpu/bodies/attention_vectors.h"

namespace hone::ops::attention_kernels {
namespace {

constexpr int kRows = 8;  // in registers at once

[[gnu::always_inline]] inline void begin_products(std::int64_t /*head_dim*/) {}
[[gnu::always_inline]] inline void end_products() {}

template <int R>
void scores_of(float* to, const Pair* rows, const Pair* keys, std::int64_t dim, std::int64_t first,
               std::int64_t last) {
  for (int half = 0; half < 2; ++half) {
    if (last <= 32 * half || first >= 32 * half + 32) continue;
    Floats c[R][2];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) c[r][0] = c[r][1] = zero();
    multiply<R, 2>(c, rows, dim / 2, 1, keys + 32 * half, 64, dim / 2);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      store(to + 64 * r + 32 * half, c[r][0]);
      store(to + 64 * r + 32 * half + 16, c[r][1]);
    }
  }
}

template <int R, int C>
[[gnu::always_inline]] inline void add_columns(float* sums, const Pair* a, std::int64_t row_step,
                                               std::int64_t pair_step, const Pair* b, std::int64_t dim,
                                               std::int64_t pairs, const float* factor) {
  Floats c[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < C; ++i) {
      c[r][i] = load(sums + r * dim + 16 * i);
      if (factor != nullptr) c[r][i] = times(c[r][i], all_of(factor[r]));
    }
  }
  multiply<R, C>(c, a, row_step, pair_step, b, dim, pairs);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < C; ++i) store(sums + r * dim + 16 * i, c[r][i]);
  }
}

// sums [R][dim] = sums * factor (null: 1) + a b, b [pairs][dim].
template <int R>
[[gnu::always_inline]] inline void add_product(float* sums, const Pair* a, std::int64_t row_step,
                                               std::int64_t pair_step, const Pair* b, std::int64_t dim,
                                               std::int64_t pairs, const float* factor) {
  std::int64_t d = 0;
  for (; d + 32 <= dim; d += 32)
    add_columns<R, 2>(sums + d, a, row_step, pair_step, b + d, dim, pairs, factor);
  if (d < dim) add_columns<R, 1>(sums + d, a, row_step, pair_step, b + d, dim, pairs, factor);
}

template <int R>
void values_of(float* sums, const float* factor, const Pair* p, const Pair* values, std::int64_t dim,
               std::int64_t first, std::int64_t last) {
  const std::int64_t begin = first / 2, end = (last + 1) / 2;
  add_product<R>(sums, p + begin, 32, 1, values + begin * dim, dim, end - begin, factor);
}

using ScoresOf = void (*)(float*, const Pair*, const Pair*, std::int64_t, std::int64_t, std::int64_t);
using ValuesOf = void (*)(float*, const float*, const Pair*, const Pair*, std::int64_t, std::int64_t,
                          std::int64_t);
constexpr ScoresOf kScoresOf[] = {scores_of<1>, scores_of<2>, scores_of<3>, scores_of<4>,
                                  scores_of<5>, scores_of<6>, scores_of<7>, scores_of<8>};
constexpr ValuesOf kValuesOf[] = {values_of<1>, values_of<2>, values_of<3>, values_of<4>,
                                  values_of<5>, values_of<6>, values_of<7>, values_of<8>};

// to [n][64] = rows [n][dim] times keys [dim / 2][64] of pairs, at least those of slots [first, last).
void add_scores(float* to, const Pair* rows, int n, const Pair* keys, std::int64_t dim, std::int64_t first,
                std::int64_t last) {
  kScoresOf[n - 1](to, rows, keys, dim, first, last);
}

// sums [n][dim] = sums * factor [n] + p [n][32] of pairs times values [32][dim] of pairs; p is zero outside of slots
// [first, last).
void add_values(float* sums, const float* factor, const Pair* p, int n, const Pair* values, std::int64_t dim,
                std::int64_t first, std::int64_t last) {
  kValuesOf[n - 1](sums, factor, p, values, dim, first, last);
}

// The backward's: sums [kRows][dim] += ds [kRows][32] of pairs times keys [32][dim]; ds is zero from slot `last` on.
void add_to_rows(float* sums, const Pair* ds, const Pair* keys, std::int64_t dim, std::int64_t last) {
  add_product<kRows>(sums, ds, 32, 1, keys, dim, (last + 1) / 2, nullptr);
}

// sums [keys][dim] += weights^T rows: of `n` rows, weights [n / 2][64] and rows [n / 2][dim] in pairs of rows. Keys up to
// the next multiple of kRows.
void add_to_keys(float* sums, Pair* weights, Pair* rows, std::int64_t dim, std::int64_t n,
                 std::int64_t keys) {
  for (std::int64_t key = 0; key < keys; key += kRows)
    add_product<kRows>(sums + key * dim, weights + key, 1, 64, rows, dim, n / 2, nullptr);
}

}  // namespace
}  // namespace hone::ops::attention_kernels
