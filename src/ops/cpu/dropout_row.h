// One row of a dropout mask, with the widest instructions of the machine; every instruction set gives the
// same bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ops/cpu/instructions.h"

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

// out[f] = 0 or kept, decided by word f % 4 of philox block first_block + f / 4. Uses the instruction set of
// instructions().
void fill_mask_row(const MaskRow& row, std::span<float> out);

// For tests: uses the given instruction set. False when this machine does not have it.
bool fill_mask_row_with(Instructions level, const MaskRow& row, std::span<float> out);

}  // namespace hone::ops
