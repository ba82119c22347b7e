// Every row of the table of RL-01 (docs/design.md), and the edges between them.
#include "doctor/watch/loss_table.h"

#include <gtest/gtest.h>

#include <limits>

namespace hone::doctor {
namespace loss_table_test {

using base::Level;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Row {
  const char* name;
  LossFacts facts;
  LossCase row;
  const char* code;
  Level level;
  const char* says;
};

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {"healthy zero",
       {.loss = -2.98e-8, .grad_norm = 0.2149, .reward = 0.3, .dead_groups = 0.25},
       LossCase::kHealthyZero,
       "RL-01",
       Level::kNote,
       "loss 0.0000 is expected here: the advantages of a group sum to 0"},
      {"healthy zero with cut ones",
       {.loss = 0, .grad_norm = 0.1, .reward = 0.3, .dead_groups = 0.5, .cut = 0.9},
       LossCase::kHealthyZero,
       "RL-01",
       Level::kNote,
       "expected here"},
      {"healthy with KL",
       {.loss = 4e-4, .grad_norm = 0.2, .reward = 0.3, .dead_groups = 0, .beta = 0.04},
       LossCase::kHealthyKl,
       "RL-01",
       Level::kNote,
       "beta times KL"},
      {"token mean",
       {.loss = 0.149, .grad_norm = 0.2, .reward = 0.3},
       LossCase::kHealthyNonzero,
       "RL-01",
       Level::kNote,
       "loss 0.1490 does not measure progress"},
      {"truncation",
       {.reward = 0, .place = RewardPlace::kLowest, .dead_groups = 1, .cut = 0.98},
       LossCase::kTruncated,
       "RL-03",
       Level::kFail,
       "98 % of the completions are cut at max_completion_length"},
      {"truncation begins at 0.8",
       {.reward = 0, .place = RewardPlace::kLowest, .dead_groups = 1, .cut = 0.8},
       LossCase::kTruncated,
       "RL-03",
       Level::kFail,
       "80 %"},
      {"parser or too hard",
       {.reward = 0, .place = RewardPlace::kLowest, .dead_groups = 1, .cut = 0.79},
       LossCase::kLowest,
       "RL-04",
       Level::kFail,
       "lowest reward, 0"},
      {"too easy",
       {.reward = 1, .place = RewardPlace::kHighest, .dead_groups = 1, .cut = 0.1},
       LossCase::kHighest,
       "RL-02",
       Level::kFail,
       "highest reward, 1"},
      {"too easy though cut",
       {.reward = 1, .place = RewardPlace::kHighest, .dead_groups = 1, .cut = 1},
       LossCase::kHighest,
       "RL-02",
       Level::kFail,
       "no training signal is left"},
      {"dead in between",
       {.reward = 0.5, .place = RewardPlace::kBetween, .dead_groups = 1},
       LossCase::kDead,
       "RL-02",
       Level::kFail,
       "in every group all rewards are equal (mean 0.5)"},
      {"masked",
       {.reward = 0.5, .dead_groups = 0.5, .cut = 0.5, .all_skipped = true, .masks_truncated = true},
       LossCase::kMasked,
       "RL-03",
       Level::kFail,
       "was left out of the loss"},
      {"gradient cut",
       {.reward = 0.5, .dead_groups = 0.5},
       LossCase::kGradientCut,
       "GRAD-02",
       Level::kFail,
       "no trainable tensor receives a gradient"},
      {"NaN gradient",
       {.loss = 0, .grad_norm = kNan, .reward = 0.5, .dead_groups = 1},
       LossCase::kNotFinite,
       "NUM-02",
       Level::kFail,
       "not finite"},
      {"NaN loss",
       {.loss = kNan, .grad_norm = 0.5, .reward = 0.5},
       LossCase::kNotFinite,
       "NUM-02",
       Level::kFail,
       "not finite"},
  };
  return rows;
}

TEST(LossTable, EveryRowHasItsVerdict) {
  for (const Row& row : table()) {
    EXPECT_EQ(loss_case(row.facts), row.row) << row.name;
    const base::Verdict found = loss_verdict(row.facts);
    EXPECT_EQ(found.code, row.code) << row.name;
    EXPECT_EQ(found.level, row.level) << row.name;
    EXPECT_NE(found.what.find(row.says), std::string::npos) << row.name << ": " << found.what;
    EXPECT_FALSE(found.evidence.empty()) << row.name;
    if (row.level == Level::kFail) {
      EXPECT_FALSE(found.cause.empty() || found.fix.empty()) << row.name;
    }
  }
}

TEST(LossTable, TheEvidenceHoldsTheNumbers) {
  const base::Verdict found =
      loss_verdict({.reward = 0.25, .place = RewardPlace::kBetween, .dead_groups = 1, .cut = 0.031});
  EXPECT_EQ(found.evidence, "loss 0.0000, gradient 0, reward 0.25, dead groups 100 %, cut 3 %");
}

// A slice of a generation batch whose own groups are dead, beside others that live.
TEST(LossTable, AStepWithoutAdvantagesOfItsOwnIsNoFault) {
  const LossFacts facts = {.reward = 0.5, .dead_groups = 0.5, .all_skipped = true};
  EXPECT_EQ(loss_case(facts), LossCase::kUnknown);
  EXPECT_EQ(loss_verdict(facts).what, "");
}

TEST(LossTable, FactsOfAStep) {
  const train::StepFacts step = {.metrics = {{"reward", 1.0},
                                             {"frac_reward_zero_std", 1.0},
                                             {"completions/clipped_ratio", 0.5},
                                             {"skipped_rows", 8}}};
  const auto facts = loss_facts(step, 0.04, 8);
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->dead_groups, 1) << "TRL's name";
  EXPECT_EQ(facts->cut, 0.5);
  EXPECT_EQ(facts->beta, 0.04);
  EXPECT_TRUE(facts->all_skipped);
  EXPECT_EQ(facts->place, RewardPlace::kHighest);
}

TEST(LossTable, SaysNothingOfSftOrOfRewardsThatScoredNothing) {
  EXPECT_FALSE(loss_facts({.grad_norm = 0.1}, 0, 8).has_value());
  EXPECT_FALSE(loss_facts({.grad_norm = 0.1, .metrics = {{"reward", kNan}}}, 0, 8).has_value());
}

TEST(LossTable, PlacesRewardsAmongThoseSeen) {
  EXPECT_EQ(place_of(0, 0, 0), RewardPlace::kLowest);
  EXPECT_EQ(place_of(-1, -1, -1), RewardPlace::kLowest);
  EXPECT_EQ(place_of(0.5, 0.5, 0.5), RewardPlace::kHighest);
  EXPECT_EQ(place_of(0.5, 0, 1), RewardPlace::kBetween);
  EXPECT_EQ(place_of(0, 0, 1), RewardPlace::kLowest);
  EXPECT_EQ(place_of(1, 0, 1), RewardPlace::kHighest);
}

}  // namespace loss_table_test
}  // namespace hone::doctor
