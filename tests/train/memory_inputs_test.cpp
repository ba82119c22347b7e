#include "train/opening/memory_inputs.h"

#include <gtest/gtest.h>

namespace hone::train {
namespace memory_inputs_test {

data::Record example_of(std::size_t length, std::size_t supervised) {
  data::Record out;
  out.ids.resize(length);
  out.supervised.resize(length);
  for (std::size_t i = 0; i < supervised; ++i) out.supervised[length - 1 - i] = 1;
  return out;
}

TEST(LongestBatch, TakesTheLargestRowsAndTheLongestSequence) {
  const data::Records examples = {example_of(5, 5), example_of(9, 1), example_of(7, 3), example_of(4, 2)};
  const LongestBatch alone = longest_batch({.records = examples, .rows = data::no_packing(examples)}, 2);
  EXPECT_EQ(alone.tokens, 9 + 7);
  EXPECT_EQ(alone.scored, 4 + 3) << "the first token of a sequence is never a target";
  EXPECT_EQ(alone.segment, 9);
  const data::PackedRows packed({{0, 3}, {2}});
  const LongestBatch together = longest_batch({.records = examples, .rows = packed}, 1);
  EXPECT_EQ(together.tokens, 9);
  EXPECT_EQ(together.scored, 6);
  EXPECT_EQ(together.segment, 7) << "a packed row is several sequences";
  EXPECT_EQ(longest_batch({}, 4).segment, 0);
}

}  // namespace memory_inputs_test
}  // namespace hone::train
