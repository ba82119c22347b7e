#include "train/saves/best_checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "base/error.h"
#include "train/opening/read_eval.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace best_checkpoint_test {

config::SavingPlan plan_of(const std::string& metric, bool greater) {
  config::SavingPlan plan;
  plan.metric_for_best_model = metric;
  plan.greater_is_better = greater;
  return plan;
}

// transformers' comparison is strict: of equal metrics the first stays.
TEST(BestCheckpoint, IsTheFirstOfTheBest) {
  const config::SavingPlan lower = plan_of("eval_loss", false), higher = plan_of("eval_acc", true);
  BestCheckpoint best;
  EXPECT_TRUE(see_metric(best, lower, 2.0, 5));
  EXPECT_FALSE(see_metric(best, lower, 2.0, 10));
  EXPECT_TRUE(see_metric(best, lower, 1.5, 15));
  EXPECT_FALSE(see_metric(best, lower, std::nan(""), 20));
  EXPECT_EQ(best.step, 15);
  best = {};
  EXPECT_FALSE(see_metric(best, higher, std::nan(""), 5));
  EXPECT_FALSE(best.metric.has_value());
  EXPECT_TRUE(see_metric(best, higher, -1, 5));
  EXPECT_TRUE(see_metric(best, higher, 0.5, 10));
  EXPECT_EQ(best.metric, 0.5);
}

// A best step that was never saved leaves the saved one.
TEST(BestCheckpoint, IsOneThatWasSaved) {
  const base::fs::path folder = base::fs::temp_directory_path() / ("hone_best_" + std::to_string(getpid()));
  base::fs::create_directories(checkpoint_path(folder, 5));
  BestCheckpoint best{.metric = 1, .step = 3, .saved = 0};
  note_saved(best, folder, 5);
  EXPECT_EQ(best.saved, 0);
  best.step = 5;
  note_saved(best, folder, 10);
  EXPECT_EQ(best.saved, 5);
  best.step = 12;
  note_saved(best, folder, 15);
  EXPECT_EQ(best.saved, 5);
  best.step = 20;
  note_saved(best, folder, 20);  // the one that is about to be written
  EXPECT_EQ(best.saved, 20);
  base::fs::remove_all(folder);
}

TEST(BestCheckpoint, AnotherNameIsAMistakeThatNamesThoseThere) {
  const std::vector<NamedValue> metrics = {{"eval_loss", 2}, {"eval_entropy", 3}};
  EXPECT_EQ(best_metric_of(plan_of("eval_entropy", true), metrics), 3);
  try {
    best_metric_of(plan_of("eval_entrpy", true), metrics);
    FAIL() << "a metric of that name";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("Did you mean 'eval_entropy'"), std::string::npos)
        << error.what();
  }
}

data::Record example(std::int64_t row) {
  return {.row = row, .ids = {1, 2}, .supervised = {1, 1}};
}

TEST(ReadEval, SetsLieOneAfterAnother) {
  RecordData first = {.records = {example(0), example(1)},
                      .rows = data::PackedRows({{0, 1}}),
                      .sets = {{.name = "a", .rows = 1}}};
  append(first, {.records = {example(0)},
                 .rows = data::PackedRows(std::vector<std::vector<std::int64_t>>{{0}}),
                 .sets = {{.name = "b", .rows = 1}}});
  ASSERT_EQ(first.rows.size(), 2U);
  ASSERT_EQ(first.rows.members(1).size(), 1U);
  EXPECT_EQ(first.rows.members(1)[0], 2U);
  EXPECT_EQ(first.records.size(), 3U);
  EXPECT_EQ(first.sets[1].name, "b");
}

}  // namespace best_checkpoint_test
}  // namespace hone::train
