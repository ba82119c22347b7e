// The fma form for AVX2. Compiled for avx2 and fma as a whole (cmake/Folders.cmake): nothing of std here, whose inline
// copies would carry these instructions into the rest of the program.
#include "ops/backend/cpu/gemm_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>

#include "ops/backend/cpu/quantized_kernels.h"

namespace hone::ops::kernels {
namespace {

using Floats = __m256;
constexpr std::int64_t kLanes = 8;
// 6 x 2 accumulators, 2 of the panel, 1 of the row: 15 of 16 registers
constexpr std::int64_t kSliceDepth = 512;  // rows of it stay in L1
constexpr std::int64_t kTileRows = 6, kTileVectors = 2, kFewVectors = 4;

[[gnu::always_inline]] inline Floats zero() {
  return _mm256_setzero_ps();
}
[[gnu::always_inline]] inline Floats load(const float* p) {
  return _mm256_loadu_ps(p);
}
[[gnu::always_inline]] inline void store(float* p, Floats x) {
  _mm256_storeu_ps(p, x);
}
[[gnu::always_inline]] inline Floats broadcast(const float* p) {
  return _mm256_broadcast_ss(p);
}
[[gnu::always_inline]] inline void multiply_add(Floats a, Floats b, Floats& c) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
}
[[gnu::always_inline]] inline Floats add(Floats a, Floats b) {
  return _mm256_add_ps(a, b);
}
[[gnu::always_inline]] inline Floats times(Floats a, Floats b) {
  return _mm256_mul_ps(a, b);
}
[[gnu::always_inline]] inline __m256i load_words(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
// A shuffle and an and: neither takes the ports that multiply, as a shift would.
[[gnu::always_inline]] inline Floats lower(const Word* p) {
  const __m256i order = _mm256_set_epi8(13, 12, -1, -1, 9, 8, -1, -1, 5, 4, -1, -1, 1, 0, -1, -1,  //
                                        13, 12, -1, -1, 9, 8, -1, -1, 5, 4, -1, -1, 1, 0, -1, -1);
  return _mm256_castsi256_ps(_mm256_shuffle_epi8(load_words(p), order));
}
[[gnu::always_inline]] inline Floats upper(const Word* p) {
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
  return _mm256_castsi256_ps(_mm256_and_si256(load_words(p), mask));
}
[[gnu::always_inline]] inline void prefetch(const Word* p) {
  _mm_prefetch(p, _MM_HINT_T0);
}

[[gnu::always_inline]] inline __m256i widen(__m128i half) {
  return _mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
}

Floats load_tail(const void* p, std::int64_t i, bool is_bf16, std::int64_t n) {
  Word lanes[kLanes] = {};
  if (is_bf16) {
    for (std::int64_t lane = 0; lane < n; ++lane) {
      lanes[lane] = static_cast<Word>(static_cast<const Bf16*>(p)[i + lane]) << 16;
    }
  } else {
    __builtin_memcpy(lanes, static_cast<const float*>(p) + i, static_cast<std::size_t>(n) * sizeof(float));
  }
  return _mm256_castsi256_ps(load_words(lanes));
}

[[gnu::always_inline]] inline Floats load_some(const void* p, std::int64_t i, bool is_bf16, std::int64_t n) {
  if (n < kLanes) return load_tail(p, i, is_bf16, n);
  if (!is_bf16) return load(static_cast<const float*>(p) + i);
  const auto* from = reinterpret_cast<const __m128i*>(static_cast<const Bf16*>(p) + i);
  return _mm256_castsi256_ps(widen(_mm_loadu_si128(from)));
}

// To the nearest even; NaN stays one.
[[gnu::always_inline]] inline __m256i rounded(Floats x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(_mm256_srli_epi32(up, 16), _mm256_set1_epi32(0x7FC0), nan);
}

[[gnu::always_inline]] inline void store_some(void* p, std::int64_t i, bool is_bf16, std::int64_t n,
                                              Floats x) {
  const __m256i words = is_bf16 ? rounded(x) : _mm256_castps_si256(x);
  if (n == kLanes && !is_bf16) {
    store(static_cast<float*>(p) + i, x);
  } else if (n == kLanes) {
    const __m128i half = _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(static_cast<Bf16*>(p) + i), half);
  } else {
    Word lanes[kLanes];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), words);
    if (is_bf16) {
      for (std::int64_t lane = 0; lane < n; ++lane) {
        static_cast<Bf16*>(p)[i + lane] = static_cast<Bf16>(lanes[lane]);
      }
    } else {
      __builtin_memcpy(static_cast<float*>(p) + i, lanes, static_cast<std::size_t>(n) * sizeof(float));
    }
  }
}

[[gnu::always_inline]] inline void multiply_codes(const CodedRun& run) {
  multiply_codes_avx2(run);
}

}  // namespace
}  // namespace hone::ops::kernels

#include "ops/backend/cpu/bodies/gemm_fma_body.h"

namespace hone::ops::kernels {
namespace {

template <int Vectors, bool IsFloat>
constexpr const Tile* kOfRows = kTiles<Vectors, IsFloat, 1, 2, 3, 4, 5, 6>;
template <bool IsFloat>
constexpr const Tile* kOfFewRows = kTiles<4, IsFloat, 1, 2, 3>;

Tile tile_of(int64_t rows, int64_t vectors, bool is_float) {
  if (vectors == kFewVectors) return (is_float ? kOfFewRows<true> : kOfFewRows<false>)[rows];
  if (is_float) return (vectors == 1 ? kOfRows<1, true> : kOfRows<2, true>)[rows];
  return (vectors == 1 ? kOfRows<1, false> : kOfRows<2, false>)[rows];
}

// ---- panels

// An 8 x 8 transpose of words.
[[gnu::always_inline]] inline void transpose(__m256i (&r)[8]) {
  __m256i t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    r[4 * i] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x31);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = t[i];
}

[[gnu::always_inline]] inline void store_words(Word* p, __m256i x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x);
}

// n <= 16 numbers, zero behind them.
__m256i load_numbers(const Bf16* p, int64_t n) {
  if (n >= 16) return load_words(p);
  Bf16 some[16] = {};
  for (int64_t i = 0; i < n; ++i) some[i] = p[i];
  return load_words(some);
}

// 8 rows x k of W to a quarter of a panel; missing rows are zero.
void pack_quarter(const Bf16* w, int64_t stride, int64_t rows, int64_t k, Word* quarter) {
  for (int64_t begin = 0; begin < k; begin += 16) {
    __m256i r[8];
    if (rows >= 8 && begin + 16 <= k) {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) r[i] = load_words(w + i * stride + begin);
    } else {
      for (int i = 0; i < 8; ++i) {
        r[i] = i < rows ? load_numbers(w + i * stride + begin, k - begin) : _mm256_setzero_si256();
      }
    }
    transpose(r);
    Word* const to = quarter + begin / 2 * kPanelWide;
    if (begin + 16 <= k) {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) store_words(to + i * kPanelWide, r[i]);
    } else {
      for (int i = 0; begin + 2 * i < k; ++i) store_words(to + i * kPanelWide, r[i]);
    }
  }
}

void pack_rows(const Bf16* w, int64_t stride, int64_t rows, int64_t k, Word* panel) {
  const int64_t quarters = rows > 16 ? 4 : 2;
  for (int64_t i = 0; i < quarters; ++i) {
    pack_quarter(w + 8 * i * stride, stride, rows - 8 * i, k, panel + 8 * i);
  }
}

// Two rows of 16 numbers to 16 words.
[[gnu::always_inline]] inline void interleave(__m256i row0, __m256i row1, Word* to) {
  const __m256i lower = _mm256_unpacklo_epi16(row0, row1), upper = _mm256_unpackhi_epi16(row0, row1);
  store_words(to, _mm256_permute2x128_si256(lower, upper, 0x20));
  store_words(to + 8, _mm256_permute2x128_si256(lower, upper, 0x31));
}

void pack_columns(const Bf16* w, int64_t stride, int64_t columns, int64_t k, bool next, Word* panel) {
  for (int64_t row = 0; row < k; row += 2) {
    const Bf16* const row0 = w + row * stride;
    const Bf16* const row1 = row0 + stride;
    const bool both = row + 1 < k;
    if (next) {
      _mm_prefetch(row0 + 32, _MM_HINT_T0);
      if (both) _mm_prefetch(row1 + 32, _MM_HINT_T0);
    }
    for (int64_t c = 0; c < 32; c += 16) {
      const __m256i first = load_numbers(row0 + c, columns - c);
      const __m256i second = both ? load_numbers(row1 + c, columns - c) : _mm256_setzero_si256();
      interleave(first, second, panel + row / 2 * kPanelWide + c);
    }
  }
}

void repack(const Word* panels, int64_t panel_stride, int64_t pair, int64_t columns, int64_t k, Word* panel) {
  const int64_t pairs = smaller((columns + 1) / 2, 16);
  for (int64_t row = 0; row < k; row += 8) {  // a quarter of a panel of W: 8 rows x 8 pairs of in
    const Word* const from = panels + row / 32 * panel_stride + pair * kPanelWide + row % 32;
    for (int64_t part = 0; part < 16; part += 8) {
      __m256i r[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        r[i] = part + i < pairs ? load_words(from + (part + i) * kPanelWide) : _mm256_setzero_si256();
      }
      transpose(r);  // 8 rows of W, 16 numbers each
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        if (row + 2 * i < k) {
          interleave(r[2 * i], r[2 * i + 1], panel + (row / 2 + i) * kPanelWide + 2 * part);
        }
      }
    }
  }
}

}  // namespace

const GemmKernels* gemm_kernels_avx2() {
  static constexpr GemmKernels kKernels = {.name = "avx2",
                                           .form = GemmForm::kFma,
                                           .tile_rows = kTileRows,
                                           .depth = kSliceDepth,
                                           .step_depth = kSliceDepth,
                                           .flops = 50e9,
                                           .multiply_block = multiply_block,
                                           .multiply_in_registers = multiply_in_registers,
                                           .spin_flop = 2 * kLanes,
                                           .pack_rows = pack_rows,
                                           .pack_columns = pack_columns,
                                           .repack = repack};
  return &kKernels;
}

}  // namespace hone::ops::kernels

#else

namespace hone::ops::kernels {

const GemmKernels* gemm_kernels_avx2() {
  return nullptr;
}

}  // namespace hone::ops::kernels

#endif
