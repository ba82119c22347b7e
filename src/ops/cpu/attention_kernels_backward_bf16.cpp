// Flash attention's backward (Dao 2022, algorithm 4) for one chunk of queries: the spans of keys that they
// see one after the other, in each tiles of 64 keys outside, blocks of 64 rows inside. With s = q k, p =
// exp(scale s - lse), dp = d_out v, ds = p (dp - delta):
//   dv[j] += sum over rows p d_out, dk[j] += sum over rows ds q, dq += sum over keys ds k,
// the scale left to the end. Every sum is one chain in the order of rows or keys.
#include "ops/cpu/attention_kernels.h"

#if defined(__AVX512BF16__)
#include "ops/cpu/attention_kernels_bf16.h"

namespace hone::ops::attention_kernels {
namespace {

constexpr std::int64_t kSub = 8, kBlock = 64;

struct Work {
  Half *q, *d_out;              // [rows][D]
  float* dq;                    // [rows][D]
  float *lse, *delta;           // [rows], lse times log2(e)
  std::int32_t* seen;           // [rows] keys of the span, 0 for padding
  Pair *k_by_dim, *v_by_dim;    // [D / 2][64]
  Pair* k_by_key;               // [32][D]
  float *dk, *dv;               // [64][D]
  float *scores, *dp;           // [8][64]
  Pair* ds_rows;                // [8][32], pairs of keys
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
  return (rows + kSub - 1) / kSub * kSub;
}

Work lay_out(Pieces& pieces, std::int64_t dim, std::int64_t rows) {
  Work w{};
  pieces.take(w.q, rows * dim);
  pieces.take(w.d_out, rows * dim);
  pieces.take(w.dq, rows * dim);
  pieces.take(w.lse, rows);
  pieces.take(w.delta, rows);
  pieces.take(w.seen, rows);
  pieces.take(w.k_by_dim, 32 * dim);
  pieces.take(w.v_by_dim, 32 * dim);
  pieces.take(w.k_by_key, 32 * dim);
  pieces.take(w.dk, 64 * dim);
  pieces.take(w.dv, 64 * dim);
  pieces.take(w.scores, kSub * 64);
  pieces.take(w.dp, kSub * 64);
  pieces.take(w.ds_rows, kSub * 32);
  pieces.take(w.p_pairs, 32 * 64);
  pieces.take(w.ds_pairs, 32 * 64);
  pieces.take(w.q_pairs, 32 * dim);
  pieces.take(w.d_out_pairs, 32 * dim);
  return w;
}

// (low[i], high[i]) side by side: 16 of each.
[[gnu::always_inline]] inline __m512i interleave(__m512i low_then_high) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, low_then_high);
}

// Rows x[0], x[1], ... in pairs: to[pair][D].
void pair_rows(Pair* to, const Half* x, std::int64_t dim, std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; r += 2) {
    for (std::int64_t d = 0; d < dim; d += 16) {
      const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(x + r * dim + d));
      const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(x + (r + 1) * dim + d));
      _mm512_storeu_si512(to + r / 2 * dim + d,
                          interleave(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)));
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
    __m512 delta = _mm512_setzero_ps();
    for (std::int64_t d = 0; d < b.head_dim; d += 16) {
      const __m256i none = _mm256_setzero_si256();
      _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(q + d),
                          real ? _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(from_q + d)) : none);
      _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(d_out + d),
                          real ? _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(from_d + d)) : none);
      if (real) delta = _mm512_fmadd_ps(load_bf16(from_d + d), load_bf16(out + d), delta);
      _mm512_storeu_ps(dq + d, _mm512_setzero_ps());
    }
    w.delta[r] = _mm512_reduce_add_ps(delta);
    w.lse[r] = real ? b.lse[token * b.lse_stride + head] * kLog2E : 0.0F;
  }
}

void products_of_rows(float* to, const Pair* rows, const Pair* tile, std::int64_t half_dim, int halves) {
  for (int half = 0; half < halves; ++half) {
    __m512 c[8][2];
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r) c[r][0] = c[r][1] = _mm512_setzero_ps();
    multiply<8, 2>(c, rows, half_dim, 1, tile + 32 * half, 64, half_dim);
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r) {
      _mm512_store_ps(to + 64 * r + 32 * half, c[r][0]);
      _mm512_store_ps(to + 64 * r + 32 * half + 16, c[r][1]);
    }
  }
}

template <int C>
[[gnu::always_inline]] inline void add_panel(float* acc, const Pair* a, std::int64_t row_step,
                                             std::int64_t pair_step, const Pair* b, std::int64_t dim,
                                             std::int64_t pairs) {
  __m512 c[8][C];
#pragma GCC unroll 8
  for (int r = 0; r < 8; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < C; ++i) c[r][i] = _mm512_load_ps(acc + r * dim + 16 * i);
  }
  multiply<8, C>(c, a, row_step, pair_step, b, dim, pairs);
#pragma GCC unroll 8
  for (int r = 0; r < 8; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < C; ++i) _mm512_store_ps(acc + r * dim + 16 * i, c[r][i]);
  }
}

// acc [8][D] += a b, b [pairs][D].
void add_product(float* acc, const Pair* a, std::int64_t row_step, std::int64_t pair_step, const Pair* b,
                 std::int64_t dim, std::int64_t pairs) {
  std::int64_t d = 0;
  for (; d + 32 <= dim; d += 32) add_panel<2>(acc + d, a, row_step, pair_step, b + d, dim, pairs);
  if (d < dim) add_panel<1>(acc + d, a, row_step, pair_step, b + d, dim, pairs);
}

// p and ds of rows r and r + 1 of the eight from `row`, written in the layouts that the products read.
void gradients_of_scores(const Work& w, std::int64_t row, std::int64_t pair, int r, std::int64_t tile_place,
                         float to_log2) {
  const __m512 scale = _mm512_set1_ps(to_log2);
  __m512 p[2][4], ds[2][4];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const std::int64_t at = row + r + i;
    const std::uint64_t mask = bits(0, clamp(w.seen[at] - tile_place, 0, 64));
    const __m512 lse = _mm512_set1_ps(w.lse[at]), delta = _mm512_set1_ps(w.delta[at]);
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const __mmask16 m = static_cast<__mmask16>(mask >> (16 * c));
      const __m512 s = _mm512_maskz_load_ps(m, w.scores + 64 * (r + i) + 16 * c);
      const __m512 dp = _mm512_maskz_load_ps(m, w.dp + 64 * (r + i) + 16 * c);
      p[i][c] = _mm512_maskz_mov_ps(m, exp2_16(_mm512_fmsub_ps(s, scale, lse)));
      ds[i][c] = _mm512_maskz_mul_ps(m, p[i][c], _mm512_sub_ps(dp, delta));
    }
    _mm512_store_si512(w.ds_rows + 32 * (r + i), to_bf16(ds[i][0], ds[i][1]));
    _mm512_store_si512(w.ds_rows + 32 * (r + i) + 16, to_bf16(ds[i][2], ds[i][3]));
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    _mm512_store_si512(w.p_pairs + pair * 64 + 16 * c, interleave(to_bf16(p[0][c], p[1][c])));
    _mm512_store_si512(w.ds_pairs + pair * 64 + 16 * c, interleave(to_bf16(ds[0][c], ds[1][c])));
  }
}

// Rows of a span in whole eights; those of its neighbors see none of its keys.
struct SpanRows {
  std::int64_t begin, end;
};

SpanRows begin_span(const Work& w, const Backward& b, const BackwardSpan& span) {
  const std::int64_t first = (span.begin - b.begin) * b.group, last = (span.end - b.begin) * b.group;
  const SpanRows rows{first / kSub * kSub, padded(last)};
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const std::int64_t up_to_own = b.begin + r / b.group - span.origin + 1;
    w.seen[r] = r < first || r >= last ? 0 : static_cast<std::int32_t>(span.own ? up_to_own : span.keys);
  }
  return rows;
}

void add_tile(const Work& w, const Backward& b, const BackwardSpan& span, SpanRows rows,
              std::int64_t tile_place, float to_log2) {
  const std::int64_t dim = b.head_dim;
  const auto seen_up_to = [&](std::int64_t row) {  // keys of the tile that row and those before it see
    const std::int64_t token = b.begin + row / b.group;
    const std::int64_t seen = span.own ? (token < span.end ? token + 1 : span.end) - span.origin : span.keys;
    return clamp(seen - tile_place, 0, 64);
  };
  if (span.own && span.origin + tile_place > span.begin) {
    rows.begin = (span.origin + tile_place - b.begin) * b.group / kSub * kSub;
  }
  for (std::int64_t block = rows.begin; block < rows.end; block += kBlock) {
    const std::int64_t n = clamp(rows.end - block, 0, kBlock);
    for (std::int64_t sub = 0; sub < n; sub += kSub) {
      const std::int64_t row = block + sub, seen = seen_up_to(row + kSub - 1);
      const int halves = seen > 32 ? 2 : 1;
      products_of_rows(w.scores, reinterpret_cast<const Pair*>(w.q + row * dim), w.k_by_dim, dim / 2, halves);
      products_of_rows(w.dp, reinterpret_cast<const Pair*>(w.d_out + row * dim), w.v_by_dim, dim / 2, halves);
      for (int r = 0; r < kSub; r += 2) gradients_of_scores(w, row, (sub + r) / 2, r, tile_place, to_log2);
      add_product(w.dq + row * dim, w.ds_rows, 32, 1, w.k_by_key, dim, (seen + 1) / 2);
    }
    pair_rows(w.q_pairs, w.q + block * dim, dim, n);
    pair_rows(w.d_out_pairs, w.d_out + block * dim, dim, n);
    const std::int64_t seen = seen_up_to(block + n - 1);
    for (std::int64_t key = 0; key < seen; key += 8) {
      add_product(w.dv + key * dim, w.p_pairs + key, 1, 64, w.d_out_pairs, dim, n / 2);
      add_product(w.dk + key * dim, w.ds_pairs + key, 1, 64, w.q_pairs, dim, n / 2);
    }
  }
}

void add_span(const Work& w, const Backward& b, const BackwardSpan& span, float to_log2) {
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
      _mm512_store_ps(w.dk + i, _mm512_setzero_ps());
      _mm512_store_ps(w.dv + i, _mm512_setzero_ps());
    }
    add_tile(w, b, span, rows, tile, to_log2);
    for (std::int64_t i = 0; i < keys * dim; i += 16) {
      _mm512_storeu_ps(span.part_k + tile * dim + i, _mm512_load_ps(w.dk + i));
      _mm512_storeu_ps(span.part_v + tile * dim + i, _mm512_load_ps(w.dv + i));
    }
  }
}

}  // namespace

std::size_t backward_scratch(std::int64_t head_dim, std::int64_t rows) {
  Pieces pieces;
  lay_out(pieces, head_dim, padded(rows));
  return pieces.used;
}

void backward_bf16(const Backward& b) {
  const std::int64_t dim = b.head_dim, rows = (b.end - b.begin) * b.group, all = padded(rows);
  Pieces pieces{b.scratch};
  const Work w = lay_out(pieces, dim, all);
  const float scale = 1.0F / __builtin_sqrtf(static_cast<float>(dim));
  load_rows(w, b, rows, all);
  for (std::int64_t i = 0; i < b.span_count; ++i) add_span(w, b, b.spans[i], kLog2E * scale);
  for (std::int64_t r = 0; r < rows; ++r) {
    Half* const to = static_cast<Half*>(b.dq) + (b.begin + r / b.group) * b.dq_stride + r % b.group * dim;
    for (std::int64_t d = 0; d < dim; d += 16) {
      store_bf16(to + d, _mm512_mul_ps(_mm512_load_ps(w.dq + r * dim + d), _mm512_set1_ps(scale)));
    }
  }
}

void sum_partials_bf16(const PartialSums& s) {
  const __m512 scale = _mm512_set1_ps(1.0F / __builtin_sqrtf(static_cast<float>(s.head_dim)));
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    Half *const dk = static_cast<Half*>(s.dk) + t * s.dk_stride, *const dv = static_cast<Half*>(s.dv) +
                                                                             t * s.dv_stride;
    for (std::int64_t d = 0; d < s.head_dim; d += 16) {
      __m512 k = _mm512_setzero_ps(), v = _mm512_setzero_ps();
      for (std::int64_t i = 0; i < s.count; ++i) {
        const PartialSum& share = s.shares[i];
        if (t >= share.keys) continue;
        k = _mm512_add_ps(k, _mm512_loadu_ps(share.k + t * s.head_dim + d));
        v = _mm512_add_ps(v, _mm512_loadu_ps(share.v + t * s.head_dim + d));
      }
      store_bf16(dk + d, _mm512_mul_ps(k, scale));
      store_bf16(dv + d, v);
    }
  }
}

}  // namespace hone::ops::attention_kernels

#else

namespace hone::ops::attention_kernels {
std::size_t backward_scratch(std::int64_t, std::int64_t) {
  return 0;
}
void backward_bf16(const Backward&) {}  // never called: this build's machine has no such instructions
void sum_partials_bf16(const PartialSums&) {}
}  // namespace hone::ops::attention_kernels

#endif
