// Philox on 16 counters side by side: four arrays of words and ten rounds over them, which the compiler turns
// into vector code for each instruction set. Same recurrence as base::philox, and the tests compare the two.
#include "ops/dropout_row.h"

#include <algorithm>

namespace hone::ops {
namespace {

constexpr std::size_t kLanes = 16;  // blocks at once: 64 features

struct Blocks {
  alignas(64) std::array<std::uint32_t, kLanes> word[4];
};

[[gnu::always_inline]] inline void philox_blocks(Blocks& blocks, std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiply0 = 0xD2511F53;
  constexpr std::uint64_t kMultiply1 = 0xCD9E8D57;
  for (int round = 0; round < 10; ++round) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t product0 = kMultiply0 * blocks.word[0][lane];
      const std::uint64_t product1 = kMultiply1 * blocks.word[2][lane];
      blocks.word[0][lane] = static_cast<std::uint32_t>(product1 >> 32) ^ blocks.word[1][lane] ^ key[0];
      blocks.word[1][lane] = static_cast<std::uint32_t>(product1);
      blocks.word[2][lane] = static_cast<std::uint32_t>(product0 >> 32) ^ blocks.word[3][lane] ^ key[1];
      blocks.word[3][lane] = static_cast<std::uint32_t>(product0);
    }
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
}

[[gnu::always_inline]] inline void fill(const MaskRow& row, float* out, std::size_t features) {
  constexpr std::size_t kFeatures = 4 * kLanes;
  std::array<float, kFeatures> values;
  for (std::size_t begin = 0; begin < features; begin += kFeatures) {
    Blocks blocks;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      blocks.word[0][lane] = static_cast<std::uint32_t>(begin / 4 + lane);
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

void fill_plain(const MaskRow& row, float* out, std::size_t features) {
  fill(row, out, features);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void fill_avx2(const MaskRow& row, float* out, std::size_t features) {
  fill(row, out, features);
}
[[gnu::target("avx512f,avx512dq,avx512vl,prefer-vector-width=512")]] void fill_avx512(const MaskRow& row,
                                                                                      float* out,
                                                                                      std::size_t features) {
  fill(row, out, features);
}
bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0;
}
bool has_avx512() {
  return __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}
#else
void fill_avx2(const MaskRow& row, float* out, std::size_t features) {
  fill(row, out, features);
}
void fill_avx512(const MaskRow& row, float* out, std::size_t features) {
  fill(row, out, features);
}
bool has_avx2() {
  return false;
}
bool has_avx512() {
  return false;
}
#endif

using Fill = void (*)(const MaskRow&, float*, std::size_t);

Fill best() {
  if (has_avx512()) return &fill_avx512;
  if (has_avx2()) return &fill_avx2;
  return &fill_plain;
}

}  // namespace

void fill_mask_row(const MaskRow& row, std::span<float> out) {
  static const Fill fill_best = best();
  fill_best(row, out.data(), out.size());
}

bool fill_mask_row_with(Instructions instructions, const MaskRow& row, std::span<float> out) {
  switch (instructions) {
    case Instructions::kPlain:
      fill_plain(row, out.data(), out.size());
      return true;
    case Instructions::kAvx2:
      if (has_avx2()) fill_avx2(row, out.data(), out.size());
      return has_avx2();
    case Instructions::kAvx512:
    case Instructions::kAvx512Bf16:
      if (has_avx512()) fill_avx512(row, out.data(), out.size());
      return has_avx512();
  }
  return false;
}

}  // namespace hone::ops
