// Compiled for avx512 f, bw, dq, vl and bf16 as a whole (CMakeLists.txt): nothing of std here, whose inline
// copies would carry these instructions into the rest of the program.
#include "ops/cpu/gemm_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>

#include "ops/cpu/transpose.h"

namespace hone::ops::kernels {
namespace {

using std::int64_t;

int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

__mmask32 first_words(int64_t n) {
  return n >= 32 ? ~__mmask32{0} : (__mmask32{1} << (n < 0 ? 0 : n)) - 1;
}

__mmask16 first_floats(int64_t n) {
  return static_cast<__mmask16>(n >= 16 ? 0xFFFF : (1U << (n < 0 ? 0 : n)) - 1);
}

[[gnu::always_inline]] inline __m512bh load_pairs(const Bf16* p) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
}

[[gnu::always_inline]] inline __m512bh broadcast_pair(const Bf16* p) {
  int pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

// Rows x (16 * Vectors) sums over all slices, in registers.
template <int Rows, int Vectors>
void multiply_tile(const Slice* slices, int count, int64_t row, int64_t panel, const float* from,
                   int64_t from_stride, float* to, int64_t to_stride) {
  __m512 sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      sum[r][v] = from == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(from + r * from_stride + 16 * v);
    }
  }
  for (int s = 0; s < count; ++s) {
    const int64_t stride = slices[s].a_stride;
    const Bf16* a = slices[s].a + row * stride;
    const Bf16* b = slices[s].panels + panel * slices[s].panel_stride;
    const int64_t pairs = slices[s].k / 2;
    const char* const fetched = reinterpret_cast<const char*>(b) + slices[s].ahead;
    for (int64_t pair = 0; pair < pairs; ++pair) {
      __m512bh right[Vectors];
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) {
        _mm_prefetch(fetched + 2 * (pair * kPairStep + 32 * v), _MM_HINT_T1);
        right[v] = load_pairs(b + pair * kPairStep + 32 * v);
      }
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const __m512bh left = broadcast_pair(a + r * stride + 2 * pair);
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], left, right[v]);
      }
    }
    if (slices[s].k % 2 != 0) {  // the last number is paired with zero, on both sides
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const int last = a[r * stride + 2 * pairs];
        const __m512bh left = reinterpret_cast<__m512bh>(_mm512_set1_epi32(last));
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) {
          sum[r][v] = _mm512_dpbf16_ps(sum[r][v], left, load_pairs(b + pairs * kPairStep + 32 * v));
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) _mm512_storeu_ps(to + r * to_stride + 16 * v, sum[r][v]);
  }
}

using Tile = void (*)(const Slice*, int, int64_t, int64_t, const float*, int64_t, float*, int64_t);

template <int Vectors>
constexpr Tile kTiles[kTileRows + 1] = {
    nullptr,
    multiply_tile<1, Vectors>,
    multiply_tile<2, Vectors>,
    multiply_tile<3, Vectors>,
    multiply_tile<4, Vectors>,
    multiply_tile<5, Vectors>,
    multiply_tile<6, Vectors>,
    multiply_tile<7, Vectors>,
    multiply_tile<8, Vectors>,
    multiply_tile<9, Vectors>,
    multiply_tile<10, Vectors>,
    multiply_tile<11, Vectors>,
    multiply_tile<12, Vectors>,
    multiply_tile<13, Vectors>,
    multiply_tile<14, Vectors>,
};

// 16 floats at element `i` of fp32 or bf16 numbers.
[[gnu::always_inline]] inline __m512 load_floats(const void* p, int64_t i, bool is_bf16, __mmask16 mask) {
  if (!is_bf16) return _mm512_maskz_loadu_ps(mask, static_cast<const float*>(p) + i);
  const __m256i half = _mm256_maskz_loadu_epi16(mask, static_cast<const Bf16*>(p) + i);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

void finish_tile(const float* sums, int64_t stride, int64_t row, int64_t rows, int64_t column,
                 int64_t columns, const Finish& finish) {
  const __m512 scale = _mm512_set1_ps(finish.scale);
  for (int64_t c = 0; c < columns; c += 16) {
    const __mmask16 mask = first_floats(columns - c);
    const __m512 bias = finish.bias == nullptr
                            ? _mm512_setzero_ps()
                            : load_floats(finish.bias, column + c, finish.bias_is_bf16, mask);
    for (int64_t r = 0; r < rows; ++r) {
      __m512 x = _mm512_mul_ps(_mm512_loadu_ps(sums + r * stride + c), scale);
      if (finish.bias != nullptr) x = _mm512_add_ps(x, bias);
      if (finish.residual != nullptr) {
        const int64_t at = (row + r) * finish.residual_stride + column + c;
        x = _mm512_add_ps(x, load_floats(finish.residual, at, finish.residual_is_bf16, mask));
      }
      const int64_t at = (row + r) * finish.out_stride + column + c;
      if (finish.out_is_bf16) {
        const __m256i half = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x));
        _mm256_mask_storeu_epi16(static_cast<Bf16*>(finish.out) + at, mask, half);
      } else {
        _mm512_mask_storeu_ps(static_cast<float*>(finish.out) + at, mask, x);
      }
    }
  }
}

// Two rows of 32 numbers to pairs: columns 0..15 in `lower`, 16..31 in `upper`.
struct Interleave {
  const __m512i lower = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7,
                                         38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i upper = _mm512_set_epi16(63, 31, 62, 30, 61, 29, 60, 28, 59, 27, 58, 26, 57, 25, 56, 24, 55,
                                         23, 54, 22, 53, 21, 52, 20, 51, 19, 50, 18, 49, 17, 48, 16);
  [[gnu::always_inline]] inline void operator()(__m512i row0, __m512i row1, Bf16* pairs) const {
    _mm512_storeu_si512(pairs, _mm512_permutex2var_epi16(row0, lower, row1));
    _mm512_storeu_si512(pairs + 32, _mm512_permutex2var_epi16(row0, upper, row1));
  }
};

// 16 rows x 32 k of W to half a panel; the masked form has fewer rows, or fewer k.
template <bool Masked>
[[gnu::always_inline]] inline void pack_square(const Bf16* w, int64_t stride, int64_t rows, int64_t k,
                                               Bf16* half) {
  const __mmask32 mask = first_words(k);
  __m512i r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if constexpr (Masked) {
      r[i] = i < rows ? _mm512_maskz_loadu_epi16(mask, w + i * stride) : _mm512_setzero_si512();
    } else {
      r[i] = _mm512_loadu_si512(w + i * stride);
    }
  }
  transpose(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if (!Masked || 2 * i < k) _mm512_storeu_si512(half + i * kPairStep, r[i]);
  }
}

void pack_half(const Bf16* w, int64_t stride, int64_t rows, int64_t k, Bf16* half) {
  int64_t begin = 0;
  if (rows >= 16) {
    for (; begin + 32 <= k; begin += 32) pack_square<false>(w + begin, stride, 16, 32, half + begin * 32);
  }
  for (; begin < k; begin += 32) pack_square<true>(w + begin, stride, rows, k - begin, half + begin * 32);
}

void copy_row(const Bf16* from, int64_t n, Bf16* to) {
  for (int64_t i = 0; i < n; i += 32) {
    const __mmask32 mask = first_words(n - i);
    _mm512_mask_storeu_epi16(to + i, mask, _mm512_maskz_loadu_epi16(mask, from + i));
  }
}

// The rows of one tile, close together.
void gather_rows(const Slice* slices, int count, int64_t row, int64_t rows, Bf16* scratch, Slice* moved) {
  for (int s = 0; s < count; ++s) {
    const Slice& slice = slices[s];
    const int64_t stride = (slice.k + 31) / 32 * 32 + 32;
    for (int64_t r = 0; r < rows; ++r)
      copy_row(slice.a + (row + r) * slice.a_stride, slice.k, scratch + r * stride);
    moved[s] = slice;
    moved[s].a = scratch;
    moved[s].a_stride = stride;
    scratch += rows * stride;
  }
}

}  // namespace

void multiply_block(const Slice* slices, int count, int64_t rows, int64_t columns, float* sums,
                    int64_t sums_stride, bool first, const Finish* finish, Bf16* row_scratch) {
  alignas(64) float tile[kTileRows * 32];
  const int64_t row_blocks = (rows + kTileRows - 1) / kTileRows;  // of nearly equal size
  const int64_t panels = (columns + 31) / 32;
  // A few rows: the panel comes from memory once. Many: the rows stay in L1, the panels come from L2.
  const bool panel_outside = rows <= 2 * kTileRows;
  Slice moved[kMaxSlices];
  for (int64_t i = 0; i < row_blocks * panels; ++i) {
    const int64_t panel = panel_outside ? i / row_blocks : i % panels;
    const int64_t block = panel_outside ? i % row_blocks : i / panels;
    const int64_t row = rows * block / row_blocks;
    const int64_t n = rows * (block + 1) / row_blocks - row;
    const int64_t column = panel * 32;
    const int64_t width = smaller(columns - column, 32);
    float* at = sums + row * sums_stride + column;
    const Tile multiply = width <= 16 ? kTiles<1>[n] : kTiles<2>[n];
    const bool to_tile = finish != nullptr;
    if (row_scratch != nullptr && panel == 0) gather_rows(slices, count, row, n, row_scratch, moved);
    multiply(row_scratch != nullptr ? moved : slices, count, row_scratch != nullptr ? 0 : row, panel,
             first ? nullptr : at, sums_stride, to_tile ? tile : at, to_tile ? 32 : sums_stride);
    if (to_tile) finish_tile(tile, 32, row, n, column, width, *finish);
  }
}

void pack_rows(const Bf16* w, int64_t stride, int64_t rows, int64_t k, Bf16* panel) {
  pack_half(w, stride, rows, k, panel);
  if (rows > 16) pack_half(w + 16 * stride, stride, rows - 16, k, panel + 32);
}

void pack_columns(const Bf16* w, int64_t stride, int64_t columns, int64_t k, bool next, Bf16* panel) {
  const __mmask32 mask = first_words(columns);
  const Interleave interleave;
  int64_t row = 0;
  for (; row + 2 <= k; row += 2) {
    const Bf16* row0 = w + row * stride;
    const Bf16* row1 = row0 + stride;
    if (next) {
      _mm_prefetch(row0 + 32, _MM_HINT_T0);
      _mm_prefetch(row1 + 32, _MM_HINT_T0);
    }
    interleave(_mm512_maskz_loadu_epi16(mask, row0), _mm512_maskz_loadu_epi16(mask, row1), panel + row * 32);
  }
  if (row < k) {
    interleave(_mm512_maskz_loadu_epi16(mask, w + row * stride), _mm512_setzero_si512(), panel + row * 32);
  }
}

void repack(const Bf16* panels, int64_t panel_stride, int64_t pair, int64_t columns, int64_t k, Bf16* panel) {
  const int64_t pairs = smaller((columns + 1) / 2, 16);
  const Interleave interleave;
  for (int64_t row = 0; row < k; row += 16) {  // half a panel of W: 16 pairs of in x 16 rows
    const Bf16* from = panels + row / 32 * panel_stride + pair * kPairStep + row % 32 * 2;
    __m512i r[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      r[i] = i < pairs ? _mm512_loadu_si512(from + i * kPairStep) : _mm512_setzero_si512();
    }
    transpose(r);  // 16 rows of W, 32 numbers each
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      if (row + 2 * i < k) interleave(r[2 * i], r[2 * i + 1], panel + (row + 2 * i) * 32);
    }
  }
}

}  // namespace hone::ops::kernels

#else

namespace hone::ops::kernels {

void multiply_block(const Slice*, int, std::int64_t, std::int64_t, float*, std::int64_t, bool, const Finish*,
                    Bf16*) {}
void pack_rows(const Bf16*, std::int64_t, std::int64_t, std::int64_t, Bf16*) {}
void pack_columns(const Bf16*, std::int64_t, std::int64_t, std::int64_t, bool, Bf16*) {}
void repack(const Bf16*, std::int64_t, std::int64_t, std::int64_t, std::int64_t, Bf16*) {}

}  // namespace hone::ops::kernels

#endif
