// The fma form for AVX-512 without bf16. Compiled for avx512 f, bw, dq and vl as a whole (cmake/Folders.cmake): nothing of
// std here, whose inline copies would carry these instructions into the rest of the program.
#include "ops/backend/cpu/gemm_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "ops/backend/cpu/bodies/avx512_masks.h"
#include "ops/backend/cpu/quantized_kernels.h"

namespace hone::ops::kernels {
namespace {

using Floats = __m512;
constexpr std::int64_t kLanes = 16;
// 14 x 2 accumulators, 2 of the panel, 1 of the row: 31 of 32 registers
constexpr std::int64_t kSliceDepth = 512;  // rows of it stay in L1
constexpr std::int64_t kTileRows = 14, kTileVectors = 2, kFewVectors = 2;

[[gnu::always_inline]] inline Floats zero() {
  return _mm512_setzero_ps();
}
[[gnu::always_inline]] inline Floats load(const float* p) {
  return _mm512_loadu_ps(p);
}
[[gnu::always_inline]] inline void store(float* p, Floats x) {
  _mm512_storeu_ps(p, x);
}
[[gnu::always_inline]] inline Floats broadcast(const float* p) {
  return _mm512_set1_ps(*p);
}
[[gnu::always_inline]] inline void multiply_add(Floats a, Floats b, Floats& c) {
  asm("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
}
[[gnu::always_inline]] inline Floats add(Floats a, Floats b) {
  return _mm512_add_ps(a, b);
}
[[gnu::always_inline]] inline Floats times(Floats a, Floats b) {
  return _mm512_mul_ps(a, b);
}
[[gnu::always_inline]] inline Floats lower(const Word* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
[[gnu::always_inline]] inline Floats upper(const Word* p) {
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), mask));
}
[[gnu::always_inline]] inline void prefetch(const Word* p) {
  _mm_prefetch(p, _MM_HINT_T0);
}

[[gnu::always_inline]] inline Floats load_some(const void* p, std::int64_t i, bool is_bf16, std::int64_t n) {
  const __mmask16 mask = first_floats(n);
  if (!is_bf16) return _mm512_maskz_loadu_ps(mask, static_cast<const float*>(p) + i);
  const __m256i half = _mm256_maskz_loadu_epi16(mask, static_cast<const Bf16*>(p) + i);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

// To the nearest even; NaN stays one.
[[gnu::always_inline]] inline void store_some(void* p, std::int64_t i, bool is_bf16, std::int64_t n,
                                              Floats x) {
  const __mmask16 mask = first_floats(n);
  if (!is_bf16) {
    _mm512_mask_storeu_ps(static_cast<float*>(p) + i, mask, x);
    return;
  }
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i rounded = _mm512_mask_set1_epi32(_mm512_srli_epi32(up, 16), nan, 0x7FC0);
  _mm512_mask_cvtepi32_storeu_epi16(static_cast<Bf16*>(p) + i, mask, rounded);
}

[[gnu::always_inline]] inline void multiply_codes(const CodedRun& run) {
  multiply_codes_avx512(run);
}

}  // namespace
}  // namespace hone::ops::kernels

#include "ops/backend/cpu/bodies/gemm_fma_body.h"

namespace hone::ops::kernels {
namespace {

template <int Vectors, bool IsFloat>
constexpr const Tile* kOfRows = kTiles<Vectors, IsFloat, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;

Tile tile_of(int64_t rows, int64_t vectors, bool is_float) {
  if (is_float) return (vectors == 1 ? kOfRows<1, true> : kOfRows<2, true>)[rows];
  return (vectors == 1 ? kOfRows<1, false> : kOfRows<2, false>)[rows];
}

}  // namespace

const GemmKernels* gemm_kernels_avx512() {
  static constexpr GemmKernels kKernels = {.name = "avx512",
                                           .form = GemmForm::kFma,
                                           .tile_rows = kTileRows,
                                           .depth = kSliceDepth,
                                           .step_depth = kSliceDepth,
                                           .flops = 100e9,
                                           .multiply_block = multiply_block,
                                           .multiply_in_registers = multiply_in_registers,
                                           .spin_flop = 2 * kLanes,
                                           .pack_rows = pack_rows_avx512,
                                           .pack_columns = pack_columns_avx512,
                                           .repack = repack_avx512,
                                           .transpose = transpose_avx512};
  return &kKernels;
}

}  // namespace hone::ops::kernels

#else

namespace hone::ops::kernels {

const GemmKernels* gemm_kernels_avx512() {
  return nullptr;
}

}  // namespace hone::ops::kernels

#endif
