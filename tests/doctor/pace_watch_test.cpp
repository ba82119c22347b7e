#include "doctor/watch/pace_watch.h"

#include <gtest/gtest.h>

namespace hone::doctor {
namespace pace_watch_test {

using base::Level;

const train::ProductFacts kProducts{.kernels = "avx2", .precision = "bf16", .gflops = 200, .limit = 240};

class PaceWatchTest : public testing::Test {
 protected:
  // Steps of 1000 tokens; what was found in them.
  Findings steps(int count, double seconds) {
    Findings out;
    for (int i = 0; i < count; ++i) {
      train::StepFacts facts;
      facts.step = ++step_;
      facts.tokens_this_step = 1000;
      facts.seconds = seconds;
      const Findings found = watch_.see(facts);
      out.insert(out.end(), found.begin(), found.end());
    }
    return out;
  }

  double now_ = 200;
  int measured_ = 0;
  std::int64_t step_ = 0;
  PaceWatch watch_{kProducts, [this] {
                     measured_ += 1;
                     return now_;
                   }};
};

TEST_F(PaceWatchTest, SaysNothingOfASteadyRunOrASlowStep) {
  EXPECT_TRUE(steps(20, 1).empty());
  EXPECT_TRUE(steps(2, 30).empty());
  EXPECT_TRUE(steps(20, 1.8).empty());
  EXPECT_EQ(measured_, 0);
}

TEST_F(PaceWatchTest, NamesTheProcessorsWhereProductsAreSlowToo) {
  steps(10, 1);
  now_ = 80;
  const Findings found = steps(10, 3);
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].verdict.code, "ENV-03");
  EXPECT_EQ(found[0].verdict.level, Level::kWarn);
  EXPECT_EQ(found[0].verdict.what, "steps take 3 times as long as earlier ones");
  EXPECT_NE(found[0].verdict.evidence.find("80 GFLOP/s, 200 before step 1"), std::string::npos);
  EXPECT_NE(found[0].verdict.cause.find("other programs"), std::string::npos);
  EXPECT_EQ(measured_, 1);
}

TEST_F(PaceWatchTest, ExcludesTheProcessorsWhereProductsAreAsFastAsBefore) {
  steps(10, 1);
  const Findings found = steps(10, 3);
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].verdict.level, Level::kNote);
  EXPECT_NE(found[0].verdict.not_this.find("the processors"), std::string::npos);
}

TEST_F(PaceWatchTest, DoesNotCompareStepsOfMilliseconds) {
  EXPECT_TRUE(steps(10, 0.001).empty());
  EXPECT_TRUE(steps(10, 0.02).empty());
}

}  // namespace pace_watch_test
}  // namespace hone::doctor
