#include "report/terminal/warnings.h"

#include <gtest/gtest.h>

namespace hone::report {
namespace warnings_test {

TEST(Warnings, AreNewOnceAndCountedAfterwards) {
  Warnings warnings;
  EXPECT_TRUE(warnings.add("score, sample 3: TypeError (reward.py:12)"));
  EXPECT_FALSE(warnings.add("score, sample 17: TypeError (reward.py:12)"))
      << "another sample, the same warning";
  EXPECT_TRUE(warnings.add("score, sample 3: KeyError (reward.py:12)"));
  EXPECT_TRUE(warnings.repeated() ==
              std::vector<std::string>{"2 times: score, sample 3: TypeError (reward.py:12)"});
  for (int i = 0; i < 1998; ++i) warnings.add("score, sample 3: TypeError (reward.py:12)");
  EXPECT_EQ(warnings.repeated().front().find("2,000 times: "), 0U);
}

}  // namespace warnings_test
}  // namespace hone::report
