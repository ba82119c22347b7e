#include "doctor/tools/bisect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace hone::doctor {
namespace bisect_test {

bool has_all(const OptionSet& options, const OptionSet& planted) {
  return std::includes(options.begin(), options.end(), planted.begin(), planted.end());
}

Minimized search_planted(std::size_t count, const OptionSet& planted) {
  return minimize(count, [&planted](const OptionSet& options) {
    return has_all(options, planted) ? Outcome::kFails : Outcome::kPasses;
  });
}

TEST(Bisect, FindsEverySingleOptionOfTwenty) {
  for (std::size_t i = 0; i < 20; ++i) {
    const Minimized found = search_planted(20, {i});
    EXPECT_EQ(found.end, SearchEnd::kFound);
    EXPECT_EQ(found.options, OptionSet{i});
    EXPECT_LT(found.tries, 12) << i;
  }
}

TEST(Bisect, FindsEveryPairOfTwentyInUnderTwentyTries) {
  for (std::size_t i = 0; i < 20; ++i) {
    for (std::size_t j = i + 1; j < 20; ++j) {
      const Minimized found = search_planted(20, {i, j});
      EXPECT_EQ(found.options, (OptionSet{i, j}));
      EXPECT_LT(found.tries, 20) << i << " " << j;
    }
  }
}

TEST(Bisect, FindsThree) {
  const Minimized found = search_planted(20, {2, 11, 12});
  EXPECT_EQ(found.options, (OptionSet{2, 11, 12}));
  EXPECT_LT(found.tries, 32);
}

TEST(Bisect, OneOptionThatDiffersIsTheOne) {
  EXPECT_EQ(search_planted(1, {0}).options, OptionSet{0});
}

TEST(Bisect, EitherOfTwoCausesIsEnough) {
  const Minimized found = minimize(10, [](const OptionSet& options) {
    return has_all(options, {3}) || has_all(options, {7}) ? Outcome::kFails : Outcome::kPasses;
  });
  EXPECT_EQ(found.end, SearchEnd::kFound);
  ASSERT_EQ(found.options.size(), 1U);
}

// 4 is refused without 5 and 6, and those without 4: they leave the set together, though no single one can.
TEST(Bisect, OptionsThatOnlyGoTogetherAreLeftOutTogether) {
  const OptionSet bound = {4, 5, 6};
  const Minimized found = minimize(12, [&](const OptionSet& options) {
    OptionSet held;
    std::set_intersection(options.begin(), options.end(), bound.begin(), bound.end(),
                          std::back_inserter(held));
    if (!held.empty() && held.size() < bound.size()) return Outcome::kUnresolved;
    return has_all(options, {1, 9}) ? Outcome::kFails : Outcome::kPasses;
  });
  EXPECT_EQ(found.end, SearchEnd::kFound);
  EXPECT_EQ(found.options, (OptionSet{1, 9}));
}

TEST(Bisect, ACauseThatIsRefusedByItselfBringsItsCompanions) {
  const Minimized found = minimize(12, [](const OptionSet& options) {
    const bool four = has_all(options, {4}), five = has_all(options, {5});
    if (four != five) return Outcome::kUnresolved;
    return four ? Outcome::kFails : Outcome::kPasses;
  });
  EXPECT_EQ(found.options, (OptionSet{4, 5}));
}

TEST(Bisect, NoSetIsTriedTwiceButTheResult) {
  std::multiset<OptionSet> tried;
  const Minimized found = minimize(20, [&](const OptionSet& options) {
    tried.insert(options);
    return has_all(options, {5, 17}) ? Outcome::kFails : Outcome::kPasses;
  });
  EXPECT_EQ(static_cast<int>(tried.size()), found.tries);
  for (const OptionSet& one : tried) {
    EXPECT_LE(tried.count(one), one.empty() || one == found.options ? 2U : 1U);
  }
}

TEST(Bisect, SaysWhenThereIsNothingToFind) {
  EXPECT_EQ(minimize(8, [](const OptionSet&) { return Outcome::kPasses; }).end, SearchEnd::kAllPass);
  EXPECT_EQ(minimize(8, [](const OptionSet&) { return Outcome::kFails; }).end, SearchEnd::kNoneFails);
  EXPECT_EQ(minimize(8, [](const OptionSet&) { return Outcome::kUnresolved; }).end, SearchEnd::kAllPass);
}

// The options have nothing to do with it: it fails, then it does not.
TEST(Bisect, AFailureThatDoesNotRepeatIsCalledFlaky) {
  int calls = 0;
  const Minimized found = minimize(8, [&calls](const OptionSet& options) {
    ++calls;
    if (options.empty()) return Outcome::kPasses;
    return calls <= 4 ? Outcome::kFails : Outcome::kPasses;
  });
  EXPECT_EQ(found.end, SearchEnd::kFlaky);
}

TEST(Bisect, AGoodRunThatFailsTheSecondTimeIsFlakyToo) {
  int empty = 0;
  const Minimized found = minimize(8, [&empty](const OptionSet& options) {
    if (options.empty()) return ++empty > 1 ? Outcome::kFails : Outcome::kPasses;
    return has_all(options, {2}) ? Outcome::kFails : Outcome::kPasses;
  });
  EXPECT_EQ(found.end, SearchEnd::kFlaky);
}

}  // namespace bisect_test
}  // namespace hone::doctor
