// Flash attention's backward (Dao 2022, algorithm 4) for one chunk of queries: the spans of keys that they
// see one after the other, in each tiles of 64 keys outside, blocks of 64 rows inside. With s = q k, p =
// exp(scale s - lse), dp = d_out v, ds = p (dp - delta), or with a soft cap t = tanh(scale s / cap), p = exp(cap t - lse),
// ds = p (dp - delta) (1 - t^2):
//   dv[j] += sum over rows p d_out, dk[j] += sum over rows ds q, dq += sum over keys ds k,
// the scale left to the end. Every sum is one chain in the order of rows or keys.
//
// Included once for each instruction set (attention_level_*.cpp).
#pragma once

#include "ops/backend/cpu/attention_kernels.h"
#include "ops/backend/cpu/bodies/attention_forward_body.h"
#include "ops/backend/cpu/bodies/attention_vectors.h"

namespace hone::ops::attention_kernels {
namespace {

constexpr std::int64_t kBlock = 64;  // rows, whole blocks of kRows

struct Work {
  Half *q, *d_out;              // [rows][D]
  float* dq;                    // [rows][D]
  float *lse, *delta;           // [rows], lse times log2(e)
  std::int32_t *from, *seen;    // [rows] keys of the span that a row sees: [from, seen); seen 0 for padding
  Pair *k_by_dim, *v_by_dim;    // [D / 2][64]
  Pair* k_by_key;               // [32][D]
  float *dk, *dv;               // [64][D]
  float *scores, *dp;           // [kRows][64]
  Pair* ds_rows;                // [kRows][32], pairs of keys
  Pair *p_pairs, *ds_pairs;     // [32][64], pairs of rows
  Pair *q_pairs, *d_out_pairs;  // [32][D]
};

// Hands out pieces of `memory`, or only counts when there is none.
struct Pieces {
  std::byte* memory = nullptr;
  std::size_t used = 0;

  template <typename T>
  void take(T*& to, std::int64_t count) {
    if (memory != nullptr) to = reinterpret_cast<T*>(memory + used);
    used += (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
  }
};

std::int64_t padded(std::int64_t rows) {
  return (rows + kRows - 1) / kRows * kRows;
}

Work lay_out(Pieces& pieces, std::int64_t dim, std::int64_t rows) {
  Work w{};
  pieces.take(w.q, rows * dim);
  pieces.take(w.d_out, rows * dim);
  pieces.take(w.dq, rows * dim);
  pieces.take(w.lse, rows);
  pieces.take(w.delta, rows);
  pieces.take(w.from, rows);
  pieces.take(w.seen, rows);
  pieces.take(w.k_by_dim, 32 * dim);
  pieces.take(w.v_by_dim, 32 * dim);
  pieces.take(w.k_by_key, 32 * dim);
  pieces.take(w.dk, 64 * dim);
  pieces.take(w.dv, 64 * dim);
  pieces.take(w.scores, kRows * 64);
  pieces.take(w.dp, kRows * 64);
  pieces.take(w.ds_rows, kRows * 32);
  pieces.take(w.p_pairs, 32 * 64);
  pieces.take(w.ds_pairs, 32 * 64);
  pieces.take(w.q_pairs, 32 * dim);
  pieces.take(w.d_out_pairs, 32 * dim);
  return w;
}

// Rows x[0], x[1], ... in pairs: to[pair][D].
void pair_rows(Pair* to, const Half* x, std::int64_t dim, std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; r += 2) {
    for (std::int64_t d = 0; d < dim; d += 16) {
      store_words(to + r / 2 * dim + d, interleaved(x + r * dim + d, x + (r + 1) * dim + d));
    }
  }
}

// One tile of keys: [D / 2][64] pairs of dims, zero where there is no key.
void pack_by_dim(Pair* to, const Half* x, std::int64_t stride, std::int64_t dim, std::int64_t keys) {
  for (std::int64_t j = 0; j < 64; ++j) {
    const Pair* const row = reinterpret_cast<const Pair*>(x + j * stride);
    for (std::int64_t d = 0; d < dim / 2; ++d) to[d * 64 + j] = j < keys ? row[d] : 0;
  }
}

void pack_by_key(Pair* to, const Half* x, std::int64_t stride, std::int64_t dim, std::int64_t keys) {
  for (std::int64_t j = 0; j < 64; j += 2) {
    for (std::int64_t d = 0; d < dim; ++d) {
      const Pair low = j < keys ? x[j * stride + d] : Half{0};
      const Pair high = j + 1 < keys ? x[(j + 1) * stride + d] : Half{0};
      to[j / 2 * dim + d] = low | high << 16;
    }
  }
}

void load_rows(const Work& w, const Backward& b, std::int64_t rows, std::int64_t all) {
  for (std::int64_t r = 0; r < all; ++r) {
    Half *const q = w.q + r * b.head_dim, *const d_out = w.d_out + r * b.head_dim;
    float* const dq = w.dq + r * b.head_dim;
    const bool real = r < rows;
    const std::int64_t token = b.begin + r / b.group, head = r % b.group;
    const Half* const out = static_cast<const Half*>(b.out) + token * b.out_stride + head * b.head_dim;
    const Half* const from_q = static_cast<const Half*>(b.q) + token * b.q_stride + head * b.head_dim;
    const Half* const from_d = static_cast<const Half*>(b.d_out) + token * b.d_out_stride + head * b.head_dim;
    if (real) {
      copy_row(q, from_q, b.head_dim);
      copy_row(d_out, from_d, b.head_dim);
    } else {
      __builtin_memset(q, 0, static_cast<std::size_t>(b.head_dim) * sizeof(Half));
      __builtin_memset(d_out, 0, static_cast<std::size_t>(b.head_dim) * sizeof(Half));
    }
    Floats delta = zero();
    for (std::int64_t d = 0; d < b.head_dim; d += 16) {
      if (real) delta = multiply_add(load_bf16(from_d + d), load_bf16(out + d), delta);
      store(dq + d, zero());
    }
    w.delta[r] = sum_of(delta);
    w.lse[r] = real ? b.lse[token * b.lse_stride + head] * kLog2E : 0.0F;
  }
}

// From products of queries and keys to the logarithm of p: p = 2^(s to_log2 - lse), with a cap s = tanh(ratio s).
struct Scores {
  float to_log2, ratio;
  bool capped;
};

Scores scores_of(const Backward& b, float scale) {
  if (b.soft_cap <= 0) return {kLog2E * scale, 0, false};
  return {kLog2E * b.soft_cap, scale / b.soft_cap, true};
}

// p and ds of rows r and r + 1 of the kRows from `row`, written in the layouts that the products read.
void gradients_of_scores(const Work& w, std::int64_t row, std::int64_t pair, int r, std::int64_t tile_place,
                         const Scores& scores) {
  const Floats scale = all_of(scores.to_log2), ratio = all_of(scores.ratio), one = all_of(1.0F);
  Floats p[2][4], ds[2][4];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const std::int64_t at = row + r + i;
    const std::uint64_t mask =
        bits(clamp(w.from[at] - tile_place, 0, 64), clamp(w.seen[at] - tile_place, 0, 64));
    const Floats lse = all_of(w.lse[at]), delta = all_of(w.delta[at]);
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const Mask m = static_cast<Mask>(mask >> (16 * c));
      Floats s = where(m, load(w.scores + 64 * (r + i) + 16 * c));
      const Floats dp = where(m, load(w.dp + 64 * (r + i) + 16 * c));
      if (scores.capped) s = tanh_16(times(s, ratio));
      p[i][c] = where(m, exp2_16(multiply_subtract(s, scale, lse)));
      ds[i][c] = where(m, times(p[i][c], subtract(dp, delta)));
      if (scores.capped) ds[i][c] = times(ds[i][c], subtract(one, times(s, s)));
    }
    store_words(w.ds_rows + 32 * (r + i), to_bf16(ds[i][0], ds[i][1]));
    store_words(w.ds_rows + 32 * (r + i) + 16, to_bf16(ds[i][2], ds[i][3]));
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    store_words(w.p_pairs + pair * 64 + 16 * c, pairs_of(p[0][c], p[1][c]));
    store_words(w.ds_pairs + pair * 64 + 16 * c, pairs_of(ds[0][c], ds[1][c]));
  }
}

// Rows of a span in whole blocks of kRows; those of its neighbors see none of its keys.
struct SpanRows {
  std::int64_t begin, end;
};

SpanRows begin_span(const Work& w, const Backward& b, const BackwardSpan& span) {
  const std::int64_t first = (span.begin - b.begin) * b.group, last = (span.end - b.begin) * b.group;
  const SpanRows rows{first / kRows * kRows, padded(last)};
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const std::int64_t up_to_own = b.begin + r / b.group - span.origin + 1;
    w.seen[r] = r < first || r >= last ? 0 : static_cast<std::int32_t>(span.own ? up_to_own : span.keys);
    w.from[r] = 0;
    if (b.window > 0 && w.seen[r] > 0) {
      const std::int64_t from = span.own ? up_to_own - b.window : b.first_seen[r / b.group];
      w.from[r] = static_cast<std::int32_t>(clamp(from, 0, w.seen[r]));
    }
  }
  return rows;
}

void add_tile(const Work& w, const Backward& b, const BackwardSpan& span, SpanRows rows,
              std::int64_t tile_place, const Scores& scores) {
  const std::int64_t dim = b.head_dim;
  const auto seen_up_to = [&](std::int64_t row) {  // keys of the tile that row and those before it see
    const std::int64_t token = b.begin + row / b.group;
    const std::int64_t seen = span.own ? (token < span.end ? token + 1 : span.end) - span.origin : span.keys;
    return clamp(seen - tile_place, 0, 64);
  };
  if (span.own && span.origin + tile_place > span.begin) {
    rows.begin = (span.origin + tile_place - b.begin) * b.group / kRows * kRows;
  }
  if (span.own && b.window > 0) {  // later queries see no key of this tile
    const std::int64_t end = padded((span.origin + tile_place + 63 + b.window - b.begin) * b.group);
    if (end < rows.end) rows.end = end;
  }
  for (std::int64_t block = rows.begin; block < rows.end; block += kBlock) {
    const std::int64_t n = clamp(rows.end - block, 0, kBlock);
    for (std::int64_t sub = 0; sub < n; sub += kRows) {
      const std::int64_t row = block + sub, seen = seen_up_to(row + kRows - 1);
      add_scores(w.scores, reinterpret_cast<const Pair*>(w.q + row * dim), kRows, w.k_by_dim, dim, 0, seen);
      add_scores(w.dp, reinterpret_cast<const Pair*>(w.d_out + row * dim), kRows, w.v_by_dim, dim, 0, seen);
      for (int r = 0; r < kRows; r += 2) gradients_of_scores(w, row, (sub + r) / 2, r, tile_place, scores);
      add_to_rows(w.dq + row * dim, w.ds_rows, w.k_by_key, dim, seen);
    }
    pair_rows(w.q_pairs, w.q + block * dim, dim, n);
    pair_rows(w.d_out_pairs, w.d_out + block * dim, dim, n);
    const std::int64_t seen = seen_up_to(block + n - 1);
    add_to_keys(w.dv, w.p_pairs, w.d_out_pairs, dim, n, seen);
    add_to_keys(w.dk, w.ds_pairs, w.q_pairs, dim, n, seen);
  }
}

void add_span(const Work& w, const Backward& b, const BackwardSpan& span, const Scores& scores) {
  const std::int64_t dim = b.head_dim;
  const SpanRows rows = begin_span(w, b, span);
  for (std::int64_t tile = 0; tile < span.keys; tile += 64) {
    const std::int64_t keys = clamp(span.keys - tile, 0, 64);
    const Half* const k = static_cast<const Half*>(span.k) + tile * b.k_stride;
    const Half* const v = static_cast<const Half*>(span.v) + tile * b.v_stride;
    pack_by_dim(w.k_by_dim, k, b.k_stride, dim, keys);
    pack_by_dim(w.v_by_dim, v, b.v_stride, dim, keys);
    pack_by_key(w.k_by_key, k, b.k_stride, dim, keys);
    for (std::int64_t i = 0; i < 64 * dim; i += 16) {
      store(w.dk + i, zero());
      store(w.dv + i, zero());
    }
    add_tile(w, b, span, rows, tile, scores);
    for (std::int64_t i = 0; i < keys * dim; i += 16) {
      store(span.part_k + tile * dim + i, load(w.dk + i));
      store(span.part_v + tile * dim + i, load(w.dv + i));
    }
  }
}

std::size_t scratch_bytes(std::int64_t head_dim, std::int64_t rows) {
  Pieces pieces;
  lay_out(pieces, head_dim, padded(rows));
  return pieces.used;
}

void backward_bf16(const Backward& b) {
  const std::int64_t dim = b.head_dim, rows = (b.end - b.begin) * b.group, all = padded(rows);
  Pieces pieces{b.scratch};
  const Work w = lay_out(pieces, dim, all);
  const float scale = b.scale > 0 ? b.scale : 1.0F / __builtin_sqrtf(static_cast<float>(dim));
  load_rows(w, b, rows, all);
  begin_products(dim);
  for (std::int64_t i = 0; i < b.span_count; ++i) add_span(w, b, b.spans[i], scores_of(b, scale));
  end_products();
  for (std::int64_t r = 0; r < rows; ++r) {
    Half* const to = static_cast<Half*>(b.dq) + (b.begin + r / b.group) * b.dq_stride + r % b.group * dim;
    for (std::int64_t d = 0; d < dim; d += 16) {
      store_bf16(to + d, times(load(w.dq + r * dim + d), all_of(scale)));
    }
  }
}

void sum_partials_bf16(const PartialSums& s) {
  const Floats scale = all_of(s.scale > 0 ? s.scale : 1.0F / __builtin_sqrtf(static_cast<float>(s.head_dim)));
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    Half *const dk = static_cast<Half*>(s.dk) + t * s.dk_stride, *const dv = static_cast<Half*>(s.dv) +
                                                                             t * s.dv_stride;
    for (std::int64_t d = 0; d < s.head_dim; d += 16) {
      Floats k = zero(), v = zero();
      for (std::int64_t i = 0; i < s.count; ++i) {
        const PartialSum& share = s.shares[i];
        if (t >= share.keys) continue;
        k = add(k, load(share.k + t * s.head_dim + d));
        v = add(v, load(share.v + t * s.head_dim + d));
      }
      store_bf16(dk + d, times(k, scale));
      store_bf16(dv + d, v);
    }
  }
}

constexpr Bf16Kernels kBf16Kernels = {.forward = forward_bf16,
                                      .backward = backward_bf16,
                                      .backward_scratch = scratch_bytes,
                                      .sum_partials = sum_partials_bf16};

}  // namespace
}  // namespace hone::ops::attention_kernels
