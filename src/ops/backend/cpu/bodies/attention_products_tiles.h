// The products of the attention kernels with the tile registers of amx: blocks of 16 rows. An element is one chain over
// groups of 32 numbers of k, which begin where a tile of keys or a block of rows does. What a group has beyond the rows,
// keys or slots asked for is zero on one side and finite on the other.
#pragma once

#include "ops/backend/cpu/bodies/attention_vectors.h"
#include "ops/backend/cpu/bodies/tile_registers.h"
#include "ops/backend/cpu/bodies/transpose.h"

namespace hone::ops::attention_kernels {
namespace {

constexpr int kRows = 16;  // in a tile

// Tiles 0 to 3 are sums; 4 and 6 a group of the left and of the right side; 5 and 7 the last group of a head_dim that
// ends with half of one.
[[gnu::always_inline]] inline void begin_products(std::int64_t head_dim) {
  TileShapes shapes;
  for (int tile = 0; tile < 8; ++tile) shapes.set(tile, 16, 64);
  if (head_dim % 32 != 0) {
    shapes.set(5, 16, 32);
    shapes.set(7, 8, 64);
  }
  use_tiles(shapes);
}

[[gnu::always_inline]] inline void end_products() {
  release_tiles();
}

// Sum Tile: 16 keys from slot 16 * Tile on.
template <int Tile>
[[gnu::always_inline]] inline void add_scores_of(float* to, const Pair* rows, const Pair* keys,
                                                 std::int64_t dim, std::int64_t first, std::int64_t last) {
  if (last <= 16 * Tile || first >= 16 * Tile + 16) return;
  const std::int64_t row_bytes = 2 * dim;
  zero_tile<Tile>();
  std::int64_t d = 0;
  for (; d + 32 <= dim; d += 32) {
    load_tile<4>(rows + d / 2, row_bytes);
    load_tile<6>(keys + d / 2 * 64 + 16 * Tile, 256);
    add_tile_product<Tile, 4, 6>();
  }
  if (d < dim) {
    load_tile<5>(rows + d / 2, row_bytes);
    load_tile<7>(keys + d / 2 * 64 + 16 * Tile, 256);
    add_tile_product<Tile, 5, 7>();
  }
  store_tile<Tile>(to + 16 * Tile, 256);
}

// to [16][64] = rows [16][dim] times keys [dim / 2][64] of pairs, at least those of slots [first, last).
void add_scores(float* to, const Pair* rows, int /*n*/, const Pair* keys, std::int64_t dim,
                std::int64_t first, std::int64_t last) {
  add_scores_of<0>(to, rows, keys, dim, first, last);
  add_scores_of<1>(to, rows, keys, dim, first, last);
  add_scores_of<2>(to, rows, keys, dim, first, last);
  add_scores_of<3>(to, rows, keys, dim, first, last);
}

// Columns `d` .. d + 16 * Tiles of sums [16][dim] += a [16][a_step] times b [..][dim], groups [first, last).
template <int Tiles>
[[gnu::always_inline]] inline void add_columns(float* sums, const Pair* a, std::int64_t a_step, const Pair* b,
                                               std::int64_t dim, std::int64_t first, std::int64_t last) {
  const std::int64_t row_bytes = 4 * dim;
  load_tile<0>(sums, row_bytes);
  if constexpr (Tiles > 1) load_tile<1>(sums + 16, row_bytes);
  if constexpr (Tiles > 2) load_tile<2>(sums + 32, row_bytes);
  if constexpr (Tiles > 3) load_tile<3>(sums + 48, row_bytes);
  for (std::int64_t group = first; group < last; ++group) {
    const Pair* const right = b + 16 * group * dim;
    load_tile<4>(a + 16 * group, 4 * a_step);
    load_tile<6>(right, row_bytes);
    add_tile_product<0, 4, 6>();
    if constexpr (Tiles > 1) {
      load_tile<6>(right + 16, row_bytes);
      add_tile_product<1, 4, 6>();
    }
    if constexpr (Tiles > 2) {
      load_tile<6>(right + 32, row_bytes);
      add_tile_product<2, 4, 6>();
    }
    if constexpr (Tiles > 3) {
      load_tile<6>(right + 48, row_bytes);
      add_tile_product<3, 4, 6>();
    }
  }
  store_tile<0>(sums, row_bytes);
  if constexpr (Tiles > 1) store_tile<1>(sums + 16, row_bytes);
  if constexpr (Tiles > 2) store_tile<2>(sums + 32, row_bytes);
  if constexpr (Tiles > 3) store_tile<3>(sums + 48, row_bytes);
}

void add_product(float* sums, const Pair* a, std::int64_t a_step, const Pair* b, std::int64_t dim,
                 std::int64_t first, std::int64_t last) {
  std::int64_t d = 0;
  for (; d + 64 <= dim; d += 64) add_columns<4>(sums + d, a, a_step, b + d, dim, first, last);
  if (d + 48 == dim) add_columns<3>(sums + d, a, a_step, b + d, dim, first, last);
  if (d + 32 == dim) add_columns<2>(sums + d, a, a_step, b + d, dim, first, last);
  if (d + 16 == dim) add_columns<1>(sums + d, a, a_step, b + d, dim, first, last);
}

// sums [16][dim] = sums * factor [n] + p [16][32] of pairs times values [32][dim] of pairs; p is zero outside of slots
// [first, last).
void add_values(float* sums, const float* factor, const Pair* p, int n, const Pair* values, std::int64_t dim,
                std::int64_t first, std::int64_t last) {
  for (int r = 0; r < n; ++r) {
    const Floats scale = all_of(factor[r]);
    for (std::int64_t d = 0; d < dim; d += 16)
      store(sums + r * dim + d, times(load(sums + r * dim + d), scale));
  }
  add_product(sums, p, 32, values, dim, first / 32, (last + 31) / 32);
}

// The backward's: sums [16][dim] += ds [16][32] of pairs times keys [32][dim]; ds is zero from slot `last` on.
void add_to_rows(float* sums, const Pair* ds, const Pair* keys, std::int64_t dim, std::int64_t last) {
  add_product(sums, ds, 32, keys, dim, 0, (last + 31) / 32);
}

// sums [keys][dim] += weights^T rows: of `n` rows, weights [n / 2][64] and rows [n / 2][dim] in pairs of rows. Keys up to
// the next multiple of 16. Fills weights and rows up to the next 32 with zeros: both have 64 rows.
void add_to_keys(float* sums, Pair* weights, Pair* rows, std::int64_t dim, std::int64_t n,
                 std::int64_t keys) {
  alignas(64) Pair by_key[16][32];
  const std::int64_t groups = (n + 31) / 32;
  if (n % 32 != 0) {
    const std::int64_t missing = 16 * groups - n / 2;
    __builtin_memset(weights + n / 2 * 64, 0, static_cast<std::size_t>(missing) * 64 * sizeof(Pair));
    __builtin_memset(rows + n / 2 * dim, 0, static_cast<std::size_t>(missing * dim) * sizeof(Pair));
  }
  for (std::int64_t key = 0; key < keys; key += 16) {
    for (std::int64_t group = 0; group < groups; ++group) {
      Words r[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) r[i] = load_words(weights + (16 * group + i) * 64 + key);
      kernels::transpose(r);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) store_words(by_key[i] + 16 * group, r[i]);
    }
    add_product(sums + key * dim, by_key[0], 32, rows, dim, 0, groups);
  }
}

}  // namespace
}  // namespace hone::ops::attention_kernels
