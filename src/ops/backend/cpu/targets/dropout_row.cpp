// Philox on many counters side by side. The plain form is four arrays of words and ten rounds over them, for
// the compiler to make vectors of. The wide forms keep each 32-bit word in the low half of a 64-bit lane,
// where vpmuludq reads it: a round is two multiplications, two shifts and two xors, and what collects in the
// high halves is never read. Same recurrence as base::philox, and the tests compare them.
#include "ops/backend/cpu/dropout_row.h"

#include <algorithm>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hone::ops {
namespace {

constexpr std::uint64_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr std::size_t kLanes = 16;  // blocks at once: 64 features

struct Blocks {
  alignas(64) std::array<std::uint32_t, kLanes> word[4];
};

void philox_blocks(Blocks& blocks, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t product0 = kMultiply0 * blocks.word[0][lane];
      const std::uint64_t product1 = kMultiply1 * blocks.word[2][lane];
      blocks.word[0][lane] = static_cast<std::uint32_t>(product1 >> 32) ^ blocks.word[1][lane] ^ key[0];
      blocks.word[1][lane] = static_cast<std::uint32_t>(product1);
      blocks.word[2][lane] = static_cast<std::uint32_t>(product0 >> 32) ^ blocks.word[3][lane] ^ key[1];
      blocks.word[3][lane] = static_cast<std::uint32_t>(product0);
    }
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
}

}  // namespace

void fill_mask_portable(const MaskRow& row, float* out, std::size_t features) {
  constexpr std::size_t kFeatures = 4 * kLanes;
  std::array<float, kFeatures> values;
  for (std::size_t begin = 0; begin < features; begin += kFeatures) {
    Blocks blocks;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      blocks.word[0][lane] = row.first_block + static_cast<std::uint32_t>(begin / 4 + lane);
      blocks.word[1][lane] = row.position;
      blocks.word[2][lane] = static_cast<std::uint32_t>(row.row);
      blocks.word[3][lane] = static_cast<std::uint32_t>(row.row >> 32);
    }
    philox_blocks(blocks, row.key);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      for (std::size_t word = 0; word < 4; ++word) {
        values[4 * lane + word] = blocks.word[word][lane] < row.dropped_below ? 0.0F : row.kept;
      }
    }
    std::copy_n(values.begin(), std::min(kFeatures, features - begin), out + begin);
  }
}

#if defined(__x86_64__)
// 4 blocks a vector, 16 features a turn. Lane order 0 2 1 3 makes vpunpck put blocks in order.
[[gnu::target("avx2")]] void fill_mask_avx2(const MaskRow& row, float* out, std::size_t features) {
  constexpr std::size_t kFeatures = 16;
  const __m256i m0 = _mm256_set1_epi64x(kMultiply0), m1 = _mm256_set1_epi64x(kMultiply1);
  const __m256i sign = _mm256_set1_epi32(INT32_MIN);
  const __m256i below = _mm256_set1_epi32(static_cast<int>(row.dropped_below ^ 0x80000000U));
  const __m256 kept = _mm256_set1_ps(row.kept);
  const __m256i start = _mm256_set_epi64x(3, 1, 2, 0);
  for (std::size_t begin = 0; begin < features; begin += kFeatures) {
    __m256i w0 = _mm256_add_epi32(_mm256_set1_epi64x(static_cast<std::int64_t>(
                                      row.first_block + static_cast<std::uint32_t>(begin / 4))),
                                  start);
    __m256i w1 = _mm256_set1_epi64x(row.position);
    __m256i w2 = _mm256_set1_epi64x(static_cast<std::uint32_t>(row.row));
    __m256i w3 = _mm256_set1_epi64x(static_cast<std::int64_t>(row.row >> 32));
    std::uint32_t key0 = row.key[0], key1 = row.key[1];
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const __m256i product0 = _mm256_mul_epu32(w0, m0), product1 = _mm256_mul_epu32(w2, m1);
      const __m256i k0 = _mm256_set1_epi32(static_cast<int>(key0)),
                    k1 = _mm256_set1_epi32(static_cast<int>(key1));
      w0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), w1), k0);
      w1 = product1;
      w2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), w3), k1);
      w3 = product0;
      key0 += kWeyl0;
      key1 += kWeyl1;
    }
    const __m256i w01 = _mm256_blend_epi32(w0, _mm256_slli_epi64(w1, 32), 0xAA);
    const __m256i w23 = _mm256_blend_epi32(w2, _mm256_slli_epi64(w3, 32), 0xAA);
    const __m256i first = _mm256_xor_si256(_mm256_unpacklo_epi64(w01, w23), sign);
    const __m256i second = _mm256_xor_si256(_mm256_unpackhi_epi64(w01, w23), sign);
    const __m256 low = _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(below, first)), kept);
    const __m256 high = _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(below, second)), kept);
    if (begin + kFeatures <= features) {
      _mm256_storeu_ps(out + begin, low);
      _mm256_storeu_ps(out + begin + 8, high);
    } else {
      alignas(32) float rest[kFeatures];
      _mm256_store_ps(rest, low);
      _mm256_store_ps(rest + 8, high);
      std::memcpy(out + begin, rest, (features - begin) * sizeof(float));
    }
  }
}

// As above with 8 blocks a vector, 32 features a turn.
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void fill_mask_avx512(const MaskRow& row, float* out,
                                                                            std::size_t features) {
  constexpr std::size_t kFeatures = 32;
  const __m512i m0 = _mm512_set1_epi64(kMultiply0), m1 = _mm512_set1_epi64(kMultiply1);
  const __m512i below = _mm512_set1_epi32(static_cast<int>(row.dropped_below));
  const __m512 kept = _mm512_set1_ps(row.kept);
  const __m512i start = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
  for (std::size_t begin = 0; begin < features; begin += kFeatures) {
    __m512i w0 = _mm512_add_epi32(
        _mm512_set1_epi64(static_cast<std::int64_t>(row.first_block + static_cast<std::uint32_t>(begin / 4))),
        start);
    __m512i w1 = _mm512_set1_epi64(row.position);
    __m512i w2 = _mm512_set1_epi64(static_cast<std::uint32_t>(row.row));
    __m512i w3 = _mm512_set1_epi64(static_cast<std::int64_t>(row.row >> 32));
    std::uint32_t key0 = row.key[0], key1 = row.key[1];
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      constexpr int kXor3 = 0x96;
      const __m512i product0 = _mm512_mul_epu32(w0, m0), product1 = _mm512_mul_epu32(w2, m1);
      w0 = _mm512_ternarylogic_epi32(_mm512_srli_epi64(product1, 32), w1,
                                     _mm512_set1_epi32(static_cast<int>(key0)), kXor3);
      w1 = product1;
      w2 = _mm512_ternarylogic_epi32(_mm512_srli_epi64(product0, 32), w3,
                                     _mm512_set1_epi32(static_cast<int>(key1)), kXor3);
      w3 = product0;
      key0 += kWeyl0;
      key1 += kWeyl1;
    }
    const __m512i w01 = _mm512_mask_blend_epi32(0xAAAA, w0, _mm512_slli_epi64(w1, 32));
    const __m512i w23 = _mm512_mask_blend_epi32(0xAAAA, w2, _mm512_slli_epi64(w3, 32));
    const __m512 low =
        _mm512_maskz_mov_ps(_mm512_cmpge_epu32_mask(_mm512_unpacklo_epi64(w01, w23), below), kept);
    const __m512 high =
        _mm512_maskz_mov_ps(_mm512_cmpge_epu32_mask(_mm512_unpackhi_epi64(w01, w23), below), kept);
    if (begin + kFeatures <= features) {
      _mm512_storeu_ps(out + begin, low);
      _mm512_storeu_ps(out + begin + 16, high);
    } else {
      alignas(64) float rest[kFeatures];
      _mm512_store_ps(rest, low);
      _mm512_store_ps(rest + 16, high);
      std::memcpy(out + begin, rest, (features - begin) * sizeof(float));
    }
  }
}
#endif

}  // namespace hone::ops
