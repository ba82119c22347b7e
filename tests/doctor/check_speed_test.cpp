#include <gtest/gtest.h>

#include "doctor/checks/check_parts.h"

namespace hone::doctor {
namespace check_speed_test {

using base::Level;
using base::Verdict;

train::ProductFacts facts(double gflops, double limit, double other) {
  return {.kernels = "avx2",
          .precision = "bf16",
          .gflops = gflops,
          .limit = limit,
          .other_precision = "float32",
          .other_gflops = other,
          .seconds = 0.1};
}

TEST(CheckSpeed, IsContentNearTheLimit) {
  EXPECT_EQ(judge_speed(facts(150, 190, 145)).level, Level::kOk);
  EXPECT_EQ(judge_speed({}).level, Level::kOk);
}

TEST(CheckSpeed, NamesTheFasterPrecision) {
  train::ProductFacts slow = facts(6, 0, 90);
  slow.kernels = "libtorch";
  const Verdict found = judge_speed(slow);
  EXPECT_EQ(found.code, "ENV-03");
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_EQ(found.what, "products in float32 are 15 times as fast here as in bf16");
  EXPECT_NE(found.fix.find("dtype: float32"), std::string::npos);
  EXPECT_NE(found.cause.find("no fast instructions for bf16"), std::string::npos);
  slow.held_to = "plain";
  EXPECT_NE(judge_speed(slow).cause.find("--instructions holds this run to plain"), std::string::npos);
}

TEST(CheckSpeed, SuspectsOtherProgramsBelowHalfOfTheLimit) {
  const Verdict found = judge_speed(facts(70, 190, 72));
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_EQ(found.what, "products reach 36.8 % of what these instructions can do here");
  EXPECT_NE(found.cause.find("other programs"), std::string::npos);
  train::ProductFacts tiles = facts(3300, 6500, 360);  // AMX waits for its operands more than others
  tiles.kernels = "amx";
  EXPECT_EQ(judge_speed(tiles).level, Level::kOk);
  tiles.gflops = 1200;
  EXPECT_EQ(judge_speed(tiles).level, Level::kWarn);
  train::ProductFacts quickly = facts(70, 190, 150);
  quickly.seconds = 0.003;  // of a small model: no verdict
  EXPECT_EQ(judge_speed(quickly).level, Level::kOk);
}

}  // namespace check_speed_test
}  // namespace hone::doctor
