#include "ops/backend/cpu/dropout_row.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/process/instruction_level.h"
#include "base/rng.h"
#include "ops/backend/cpu/level.h"

namespace hone::ops {
namespace dropout_row_test {

// The definition: one philox call a block.
std::vector<float> reference(const MaskRow& row, std::size_t features) {
  std::vector<float> out(features);
  for (std::size_t f = 0; f < features; ++f) {
    const auto words =
        base::philox({static_cast<std::uint32_t>(f / 4), row.position, static_cast<std::uint32_t>(row.row),
                      static_cast<std::uint32_t>(row.row >> 32)},
                     row.key);
    out[f] = words[f % 4] < row.dropped_below ? 0.0F : row.kept;
  }
  return out;
}

TEST(DropoutRow, EveryInstructionSetGivesPhiloxsBits) {
  const MaskRow row = {.position = 7,
                       .row = 0x123456789ULL,
                       .key = {0xdeadbeef, 42},
                       .dropped_below = 1U << 30,
                       .kept = 4.0F / 3};
  for (const std::size_t features : {1U, 3U, 63U, 64U, 65U, 576U, 1537U}) {
    const auto expected = reference(row, features);
    for (const auto form : base::kInstructionLevels) {
      std::vector<float> out(features, -1);
      if (!base::machine_has(form)) continue;
      const base::ForceInstructionLevel force(form);
      level_kernels().fill_mask(row, out.data(), out.size());
      EXPECT_EQ(out, expected) << "features " << features << " form " << static_cast<int>(form);
    }
  }
}

TEST(DropoutRow, AStretchContinuesTheRow) {
  MaskRow row = {.position = 3, .row = 9, .key = {1, 2}, .dropped_below = 1U << 31, .kept = 2};
  const std::vector<float> whole = reference(row, 200);
  row.first_block = 12;
  for (const auto form : base::kInstructionLevels) {
    std::vector<float> out(150);
    if (!base::machine_has(form)) continue;
    const base::ForceInstructionLevel force(form);
    level_kernels().fill_mask(row, out.data(), out.size());
    EXPECT_EQ(out, std::vector<float>(whole.begin() + 48, whole.begin() + 198));
  }
}

}  // namespace dropout_row_test
}  // namespace hone::ops
