// One row of a dropout mask; every instruction set gives the same bits (level.h has the one to use).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hone::ops {

// Philox's constant words for one row: counter {feature / 4, position, row low, row high} and key.
struct MaskRow {
  std::uint32_t position = 0;
  std::uint64_t row = 0;
  std::array<std::uint32_t, 2> key{};
  std::uint32_t dropped_below = 0;  // of 2^32: a word below it is dropped
  float kept = 1;                   // the value of a kept feature
  std::uint32_t first_block = 0;    // out begins at feature 4 * first_block
};

// out[f] = 0 or kept, decided by word f % 4 of philox block first_block + f / 4.
void fill_mask_portable(const MaskRow& row, float* out, std::size_t features);
void fill_mask_avx2(const MaskRow& row, float* out, std::size_t features);
void fill_mask_avx512(const MaskRow& row, float* out, std::size_t features);

}  // namespace hone::ops
