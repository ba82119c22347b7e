// The body of every instruction set's form of delta_rule_kernels.h, included once by each delta_rule_*.cpp, after it has set
// HONE_NATIVE_LANES and HONE_FMA(a, b, c), a * b + c of vectors. No template of the standard library is used (row_vectors.h).
#pragma once

#include "ops/backend/cpu/bodies/row_vectors.h"
#include "ops/backend/cpu/delta_rule_kernels.h"

namespace hone::ops::delta {
namespace {

constexpr float kUnitEps = 1e-6F;

Float all_of(float x) {
  return x - Float{};  // which is folded, unlike x + 0
}

std::int64_t least(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

// Rows lie far apart, so that the processor does not foresee them: the one that is read so many tokens later.
constexpr std::int64_t kAhead = 6, kLine = 64;

// Inlined always: g++ takes a function that only fetches for one without an effect, and drops the call.
template <class T>
[[gnu::always_inline]] inline void prefetch(const T* row, std::int64_t width) {
  const char* const first = reinterpret_cast<const char*>(row);
  const std::int64_t bytes = width * static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(first + i);
  __builtin_prefetch(first + bytes - 1);
}

// Before token t of `count`; row_at(t) gives a row.
template <class RowAt>
[[gnu::always_inline]] inline void prefetch_ahead(std::int64_t t, std::int64_t count, std::int64_t width,
                                                  RowAt row_at) {
  if (t == 0) {
    for (std::int64_t next = 1; next < least(kAhead, count); ++next) prefetch(row_at(next), width);
  }
  if (t + kAhead < count) prefetch(row_at(t + kAhead), width);
}

// ---- the convolution

// The sum over taps of a token, before it is rounded: `reads` of them, rows[-back] each.
template <class T, class Mode>
Float tap_sum(const ConvArgs& c, const void* const* rows, std::int64_t reads, std::int64_t i, Mode mode) {
  Float sum = {};
  for (std::int64_t back = 0; back < reads; ++back) {
    const T* row = static_cast<const T*>(rows[-back]);
    sum = sum + load(c.taps + back * c.taps_stride + i, mode) * load(row + c.first + i, mode);
  }
  return sum;
}

// How many taps of token t are not before the first token.
std::int64_t reads_of(const ConvArgs& c, std::int64_t t) {
  std::int64_t reads = 0;
  while (reads < c.taps_count && c.rows[c.taps_count - 1 + t - reads] != nullptr) ++reads;
  return reads;
}

template <class T>
void conv_of(const ConvArgs& c) {
  for (std::int64_t t = 0; t < c.count; ++t) {
    const std::int64_t reads = reads_of(c, t);
    const void* const* rows = c.rows + c.taps_count - 1 + t;
    prefetch_ahead(t, c.count, c.width, [&](std::int64_t next) {
      return static_cast<const T*>(c.rows[c.taps_count - 1 + next]) + c.first;
    });
    over(c.width, [&](std::int64_t i, auto mode) {
      const Float sum =
          as<T>(reads == 4 ? tap_sum<T>(c, rows, 4, i, mode) : tap_sum<T>(c, rows, reads, i, mode));
      store(c.out + t * c.stride + i, as<T>(gated(sum, sum)), mode);
    });
  }
}

void conv(const ConvArgs& c) {
  (c.bf16 ? &conv_of<Bf16> : &conv_of<float>)(c);
}

// silu's derivative
Float silu_slope(Float x) {
  const Float e = exp_of_negative(-magnitude(x));
  const Float larger = 1.0F / (1.0F + e), smaller = e * larger;
  const Float sigmoid = x >= 0.0F ? larger : smaller, rest = x >= 0.0F ? smaller : larger;
  return sigmoid * (1.0F + x * rest);
}

template <class T>
void conv_backward_of(const ConvBackwardArgs& b) {
  const ConvArgs& c = b.conv;
  const std::int64_t taps = c.taps_count;
  for (std::int64_t t = 0; t < c.count; ++t) {
    const std::int64_t reads = reads_of(c, t);
    const void* const* rows = c.rows + taps - 1 + t;
    prefetch_ahead(t, c.count, c.width, [&](std::int64_t next) {
      return static_cast<const T*>(c.rows[taps - 1 + next]) + c.first;
    });
    over(c.width, [&](std::int64_t i, auto mode) {
      float* d = c.out + t * c.stride + i;
      const Float slope = silu_slope(as<T>(tap_sum<T>(c, rows, reads, i, mode)));
      const Float by_sum = load(static_cast<const float*>(d), mode) * slope;
      store(d, by_sum, mode);
      for (std::int64_t back = 0; back < reads && b.d_taps != nullptr; ++back) {
        float* to = b.d_taps + back * c.taps_stride + i;
        const Float x = load(static_cast<const T*>(rows[-back]) + c.first + i, mode);
        store(to, load(static_cast<const float*>(to), mode) + by_sum * x, mode);
      }
    });
  }
  for (std::int64_t t = 0; t < c.count; ++t) {
    over(c.width, [&](std::int64_t i, auto mode) {
      Float dx = {};
      for (std::int64_t back = 0; back < taps; ++back) {
        const float* d = c.out + (t + back) * c.stride + i;
        dx = dx + load(c.taps + back * c.taps_stride + i, mode) * load(d, mode);
      }
      store(row_of<T>(b.to, t) + c.first + i, dx, mode);
    });
  }
}

void conv_backward(const ConvBackwardArgs& b) {
  (b.conv.bf16 ? &conv_backward_of<Bf16> : &conv_backward_of<float>)(b);
}

// ---- rows

float dot_of(const float* a, const float* b, std::int64_t width) {
  return sums_over(width, [&](std::int64_t i, auto mode, Float& sum,
                              Float& /*other*/) { sum = load(a + i, mode) * load(b + i, mode); })
      .a;
}

void unit(float* rows, std::int64_t stride, std::int64_t count, std::int64_t width, float* inverse) {
  for (std::int64_t t = 0; t < count; ++t) {
    float* row = rows + t * stride;
    inverse[t] = 1.0F / __builtin_sqrtf(dot_of(row, row, width) + kUnitEps);
    over(width, [&](std::int64_t i, auto mode) {
      store(row + i, load(static_cast<const float*>(row) + i, mode) * inverse[t], mode);
    });
  }
}

void unit_backward(float* d, const float* unit_rows, std::int64_t stride, std::int64_t count,
                   std::int64_t width, const float* inverse) {
  for (std::int64_t t = 0; t < count; ++t) {
    float* row = d + t * stride;
    const float* one = unit_rows + t * stride;
    const float along = dot_of(row, one, width);
    over(width, [&](std::int64_t i, auto mode) {
      const Float across = load(static_cast<const float*>(row) + i, mode) - load(one + i, mode) * along;
      store(row + i, across * inverse[t], mode);
    });
  }
}

void scale_rows(const float* from, float* to, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                const float* scale) {
  for (std::int64_t t = 0; t < rows; ++t) {
    over(columns, [&](std::int64_t i, auto mode) {
      store(to + t * stride + i, load(from + t * stride + i, mode) * scale[t], mode);
    });
  }
}

void dot_rows(const float* a, const float* b, std::int64_t stride, std::int64_t rows, std::int64_t columns,
              float* out) {
  for (std::int64_t t = 0; t < rows; ++t) out[t] = dot_of(a + t * stride, b + t * stride, columns);
}

void dot_columns(const float* a, const float* b, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                 float* out) {
  over(columns, [&](std::int64_t i, auto mode) {
    Float sum = {};
    for (std::int64_t t = 0; t < rows; ++t)
      sum = HONE_FMA(load(a + t * stride + i, mode), load(b + t * stride + i, mode), sum);
    store(out + i, sum, mode);
  });
}

void multiply(const float* a, const float* b, float* c, std::int64_t stride, std::int64_t rows,
              std::int64_t columns, bool add) {
  for (std::int64_t t = 0; t < rows; ++t) {
    over(columns, [&](std::int64_t i, auto mode) {
      const std::int64_t at = t * stride + i;
      const Float product = load(a + at, mode) * load(b + at, mode);
      store(c + at, add ? load(static_cast<const float*>(c) + at, mode) + product : product, mode);
    });
  }
}

void add(const float* from, float* to, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t t = 0; t < rows; ++t) {
    float* row = to + t * stride;
    over(columns, [&](std::int64_t i, auto mode) {
      store(row + i, load(static_cast<const float*>(row) + i, mode) + load(from + t * stride + i, mode),
            mode);
    });
  }
}

void scale_columns(float* to, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                   const float* scale) {
  for (std::int64_t t = 0; t < rows; ++t) {
    float* row = to + t * stride;
    over(columns, [&](std::int64_t i, auto mode) {
      store(row + i, load(static_cast<const float*>(row) + i, mode) * load(scale + i, mode), mode);
    });
  }
}

using Doubles = double __attribute__((vector_size(kNative * 8)));

void decays(const double* sums, std::int64_t count, float* out, std::int64_t stride) {
  for (std::int64_t t = 0; t < count; ++t) {
    float* row = out + t * stride;
    over(count, [&](std::int64_t j, auto mode) {
      if (j > t) return store(row + j, Float{}, mode);
      Doubles other = {};
      const std::int64_t n = least(kNative, count - j);
      __builtin_memcpy(&other, sums + j, static_cast<std::size_t>(n) * sizeof(double));
      const Float z = __builtin_convertvector(sums[t] - other, Float);
      store(row + j, exp_of_negative(z > 0.0F ? Float{} : z), mode);
    });
    for (std::int64_t j = t + 1; j < least(count, t + kNative); ++j) row[j] = 0;
  }
}

using Four = float __attribute__((vector_size(16)));

void transpose_four(const float* from, std::int64_t from_row, float* to, std::int64_t to_row) {
  Four r[4];
  for (std::int64_t i = 0; i < 4; ++i) __builtin_memcpy(&r[i], from + i * from_row, sizeof r[i]);
  const Four a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
             b = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7),
             c = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5),
             d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  r[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  r[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  r[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  r[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
  for (std::int64_t i = 0; i < 4; ++i) __builtin_memcpy(to + i * to_row, &r[i], sizeof r[i]);
}

void transpose(const float* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns, float* to,
               std::int64_t to_row) {
  for (std::int64_t i = 0; i < rows; i += 4) {
    for (std::int64_t j = 0; j < columns; j += 4) {
      if (i + 4 <= rows && j + 4 <= columns) {
        transpose_four(from + i * from_row + j, from_row, to + j * to_row + i, to_row);
        continue;
      }
      for (std::int64_t a = i; a < least(i + 4, rows); ++a)
        for (std::int64_t b = j; b < least(j + 4, columns); ++b) to[b * to_row + a] = from[a * from_row + b];
    }
  }
}

// ---- the recurrence

// One vector of each row of S.
constexpr std::int64_t kInBlock = kColumns / kNative;
template <int kVectors>
struct Group {
  float* at[kVectors];
  Group(float* state, std::int64_t dim) {
    for (std::int64_t v = 0; v < kVectors; ++v)
      at[v] = state + v / kInBlock * dim * kColumns + v % kInBlock * kNative;
  }
};

template <int kVectors>
void read_state(const Group<kVectors>& s, std::int64_t dim, const float* k, Float (&m)[kVectors]) {
  Float sums[kVectors] = {};
  for (std::int64_t d = 0; d < dim; ++d) {
    const Float key = all_of(k[d]);
#pragma GCC unroll 8
    for (std::int64_t v = 0; v < kVectors; ++v)
      sums[v] = HONE_FMA(key, load(static_cast<const float*>(s.at[v]) + d * kColumns, Whole{}), sums[v]);
  }
  for (std::int64_t v = 0; v < kVectors; ++v) m[v] = sums[v];
}

// S = scale S + k delta^T; o = S^T q; m = S^T next.
template <int kVectors, bool kScale, bool kNext>
void update_state(const Group<kVectors>& s, std::int64_t dim, float scale, const float* k, const float* q,
                  const float* next, const Float (&delta)[kVectors], Float (&o)[kVectors],
                  Float (&m)[kVectors]) {
  Float read[kVectors] = {}, ahead[kVectors] = {}, added[kVectors];
  float* first[kVectors];
  for (std::int64_t v = 0; v < kVectors; ++v) {
    added[v] = delta[v];
    first[v] = s.at[v];
  }
  for (std::int64_t d = 0; d < dim; ++d) {
    const Float key = all_of(k[d]), query = all_of(q[d]);
    Float following = {};
    if constexpr (kNext) following = all_of(next[d]);
#pragma GCC unroll 8
    for (std::int64_t v = 0; v < kVectors; ++v) {
      float* at = first[v] + d * kColumns;
      Float x = load(static_cast<const float*>(at), Whole{});
      if constexpr (kScale) x = x * scale;
      x = HONE_FMA(key, added[v], x);
      store(at, x, Whole{});
      read[v] = HONE_FMA(query, x, read[v]);
      if constexpr (kNext) ahead[v] = HONE_FMA(following, x, ahead[v]);
    }
  }
  for (std::int64_t v = 0; v < kVectors; ++v) o[v] = read[v];
  if constexpr (kNext) {
    for (std::int64_t v = 0; v < kVectors; ++v) m[v] = ahead[v];
  }
}

template <int kVectors>
void recur_group(const RecurArgs& r, const Group<kVectors>& s, float* columns) {
  using Update = void (*)(const Group<kVectors>&, std::int64_t, float, const float*, const float*,
                          const float*, const Float(&)[kVectors], Float(&)[kVectors], Float(&)[kVectors]);
  constexpr Update kUpdates[2][2] = {
      {&update_state<kVectors, false, false>, &update_state<kVectors, false, true>},
      {&update_state<kVectors, true, false>, &update_state<kVectors, true, true>}};
  Float m[kVectors], delta[kVectors], o[kVectors];
  read_state(s, r.dim, r.k, m);
  for (std::int64_t t = 0; t < r.count; ++t) {
    const DeltaToken& token = r.tokens[t];
    float* row = columns + t * r.v_stride;
    for (std::int64_t v = 0; v < kVectors; ++v) {
      const Float missed = load(static_cast<const float*>(row) + v * kNative, Whole{}) - m[v] * token.total;
      delta[v] = missed * token.beta * token.inverse;
    }
    const bool more = t + 1 < r.count, scales = token.after != token.total;
    const float *k = r.k + t * r.qk_stride, *q = r.q + t * r.qk_stride;
    kUpdates[scales][more](s, r.dim, token.total, k, q, more ? k + r.qk_stride : nullptr, delta, o, m);
    for (std::int64_t v = 0; v < kVectors; ++v)
      store(row + v * kNative, o[v] * (token.after * r.query_scale), Whole{});
  }
}

void recur(const RecurArgs& r) {
  constexpr int kBlocks = kInBlock == 2 ? 2 : 1;  // four vectors are what hides fma's latency
  std::int64_t j = 0;
  for (; j + kBlocks <= r.blocks; j += kBlocks) {
    constexpr int kVectors = kBlocks * static_cast<int>(kInBlock);
    recur_group<kVectors>(r, {r.state + j * r.dim * kColumns, r.dim}, r.v + j * kColumns);
  }
  for (; j < r.blocks; ++j) {
    constexpr int kVectors = static_cast<int>(kInBlock);
    recur_group<kVectors>(r, {r.state + j * r.dim * kColumns, r.dim}, r.v + j * kColumns);
  }
}

// ---- the norm and its gate

template <class T, bool kRoundsProduct>
void gate_of(const GatedNormArgs& g) {
  for (std::int64_t t = 0; t < g.count; ++t) {
    const float* o = g.o + t * g.stride;
    const T* z = row_of<T>(g.z, t);
    T* out = row_of<T>(g.out, t);
    prefetch_ahead(t, g.count, g.width, [&](std::int64_t next) { return row_of<T>(g.z, next); });
    prefetch_ahead(t, g.count, g.width, [&](std::int64_t next) { return row_of<T>(g.out, next); });
    const Sums sums = sums_over(g.width, [&](std::int64_t i, auto mode, Float& a, Float& /*b*/) {
      const Float x = as<T>(load(o + i, mode));
      a = x * x;
    });
    const float inverse = inverse_rms(sums.a, g.width, g.eps);
    over(g.width, [&](std::int64_t i, auto mode) {
      const Float normed = as<T>(as<T>(load(o + i, mode)) * inverse), gates = load(z + i, mode);
      Float product = load(g.weight + i, mode) * normed;
      if constexpr (kRoundsProduct) product = as<T>(product);
      store(out + i, product * gated(gates, gates), mode);
    });
  }
}

void gate(const GatedNormArgs& g) {
  if (!g.out.bf16) return gate_of<float, false>(g);
  (g.rounds_product ? &gate_of<Bf16, true> : &gate_of<Bf16, false>)(g);
}

template <class T, bool kRoundsProduct>
void gate_backward_of(const GatedNormBackwardArgs& g) {
  for (std::int64_t t = 0; t < g.count; ++t) {
    float* o = g.o + t * g.stride;
    T* z = row_of<T>(g.z, t);
    const T* d = row_of<T>(g.d, t);
    prefetch_ahead(t, g.count, g.width, [&](std::int64_t next) { return row_of<T>(g.z, next); });
    prefetch_ahead(t, g.count, g.width, [&](std::int64_t next) { return row_of<T>(g.d, next); });
    // of d(norm's output): weight d silu(z)
    const auto by_normed = [&](std::int64_t i, auto mode) {
      const Float gates = load(static_cast<const T*>(z) + i, mode);
      return load(d + i, mode) * gated(gates, gates) * load(g.weight + i, mode);
    };
    const Sums sums = sums_over(g.width, [&](std::int64_t i, auto mode, Float& a, Float& b) {
      const Float x = as<T>(load(static_cast<const float*>(o) + i, mode));
      a = x * x;
      b = x * by_normed(i, mode);
    });
    const float inverse = inverse_rms(sums.a, g.width, g.eps);
    const float mean = sums.b * inverse / static_cast<float>(g.width);
    over(g.width, [&](std::int64_t i, auto mode) {
      const Float x = as<T>(load(static_cast<const float*>(o) + i, mode)), by_out = load(d + i, mode);
      const Float gates = load(static_cast<const T*>(z) + i, mode), normed = as<T>(x * inverse);
      Float product = load(g.weight + i, mode) * normed;
      if constexpr (kRoundsProduct) product = as<T>(product);
      const Float by = by_normed(i, mode);
      if (g.d_weight != nullptr) {
        const Float share = by_out * gated(gates, gates) * normed;
        store(g.d_weight + i, load(static_cast<const float*>(g.d_weight) + i, mode) + share, mode);
      }
      store(o + i, (by - x * inverse * mean) * inverse, mode);
      store(z + i, by_out * product * silu_slope(gates), mode);
    });
  }
}

void gate_backward(const GatedNormBackwardArgs& g) {
  if (!g.z.bf16) return gate_backward_of<float, false>(g);
  (g.rounds_product ? &gate_backward_of<Bf16, true> : &gate_backward_of<Bf16, false>)(g);
}

// ---- products

constexpr std::int64_t kTileRows = kNative == 16 ? 12 : 6, kTileColumns = 2 * kNative;

template <int kRows>
void tile(const ProductArgs& p, std::int64_t i, std::int64_t j, std::int64_t begin, std::int64_t end) {
  Float sums[kRows][2] = {};
  float* const c = p.c + i * p.c_row + j;
  if (p.add) {
#pragma GCC unroll 12
    for (std::int64_t r = 0; r < kRows; ++r) {
      sums[r][0] = load(static_cast<const float*>(c) + r * p.c_row, Whole{});
      sums[r][1] = load(static_cast<const float*>(c) + r * p.c_row + kNative, Whole{});
    }
  }
  const float* a = p.a + i * p.a_row + begin * p.a_depth;
  const float* b = p.b + begin * p.b_row + j;
  for (std::int64_t k = begin; k < end; ++k, a += p.a_depth, b += p.b_row) {
    const Float left = load(b, Whole{}), right = load(b + kNative, Whole{});
#pragma GCC unroll 12
    for (std::int64_t r = 0; r < kRows; ++r) {
      const Float x = all_of(a[r * p.a_row]);
      sums[r][0] = HONE_FMA(x, left, sums[r][0]);
      sums[r][1] = HONE_FMA(x, right, sums[r][1]);
    }
  }
#pragma GCC unroll 12
  for (std::int64_t r = 0; r < kRows; ++r) {
    store(c + r * p.c_row, sums[r][0], Whole{});
    store(c + r * p.c_row + kNative, sums[r][1], Whole{});
  }
}

void product(const ProductArgs& p) {
  using Tile = void (*)(const ProductArgs&, std::int64_t, std::int64_t, std::int64_t, std::int64_t);
  constexpr Tile kTiles[] = {&tile<1>, &tile<2>, &tile<3>, &tile<4>,  &tile<5>,  &tile<6>,
                             &tile<7>, &tile<8>, &tile<9>, &tile<10>, &tile<11>, &tile<12>};
  for (std::int64_t j = 0; j < p.columns; j += kTileColumns) {
    for (std::int64_t i = 0; i < p.rows; i += kTileRows) {
      const std::int64_t rows = least(kTileRows, p.rows - i);
      std::int64_t begin = 0, end = p.depth;
      if (p.zeros == Zeros::kLowerA) end = least(end, i + rows);
      if (p.zeros == Zeros::kUpperA) begin = i;
      if (p.zeros == Zeros::kLowerB) begin = j;
      if (p.zeros == Zeros::kUpperB) end = least(end, j + kTileColumns);
      if (p.zeros == Zeros::kLowerC && j >= i + rows) continue;
      kTiles[rows - 1](p, i, j, begin, end);
    }
  }
}

constexpr Kernels kKernels = {&conv,          &conv_backward, &unit,      &unit_backward, &recur,  &gate,
                              &gate_backward, &product,       &transpose, &scale_rows,    &decays, &dot_rows,
                              &dot_columns,   &multiply,      &add,       &scale_columns};

}  // namespace
}  // namespace hone::ops::delta
