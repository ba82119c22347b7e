// Checkpoints that are moved aside when a run is resumed from an earlier one: also when a kill cuts that
// short.
#include "train/saves/branch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace branch_test {

namespace fs = base::fs;

class BranchTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const fs::path& file, const std::string& text) {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  void make_checkpoint(const fs::path& name) { put(name / kHoneStateFile, "{}"); }
  // A run with checkpoints 10, 15 and 20, metrics and completions.
  void make_run(const std::string& line) {
    for (const int step : {10, 15, 20}) make_checkpoint(checkpoint_path({}, step));
    put(kMetricsFile, line);
    for (const int step : {9, 12, 18}) put(fs::path(kCompletionsFolder) / completions_name(step), line);
  }
  void branch(const std::string& from, std::int64_t step) {
    const auto planned = plan_branch(folder_, folder_ / from, step);
    ASSERT_TRUE(planned);
    make_branch(folder_, *planned);
  }
  std::vector<std::int64_t> live() { return checkpoint_steps(folder_); }
  std::string text(const fs::path& file) { return base::read_text(folder_ / file); }
  bool has(const fs::path& file) { return fs::exists(folder_ / file); }
  std::string refused() {
    try {
      recover_run_folder(folder_);
    } catch (const base::UserError& error) {
      return error.what();
    }
    return "";
  }

  using Steps = std::vector<std::int64_t>;
  fs::path folder_ = fs::temp_directory_path() / ("hone_branch_" + std::to_string(getpid()));
};

TEST_F(BranchTest, NothingMovesWhenTheNewestGoesOn) {
  make_run("a");
  EXPECT_FALSE(plan_branch(folder_, folder_ / "checkpoint-20", 20));
}

TEST_F(BranchTest, WhatIsNewerMovesWithItsRecords) {
  make_run("a");
  put("checkpoint-30/of_another_program", "");
  put("mine/checkpoint-40/hone_state.json", "");
  const auto planned = plan_branch(folder_, folder_ / "checkpoint-10", 10);
  ASSERT_TRUE(planned);
  EXPECT_EQ(describe(*planned),
            "this run leaves the earlier one at step 10: checkpoint-15, checkpoint-20, checkpoint-30 go to "
            "abandoned-1-after-10, where save_total_limit counts them");
  make_branch(folder_, *planned);
  EXPECT_EQ(live(), (Steps{10}));
  EXPECT_EQ(checkpoint_steps(folder_ / "abandoned-1-after-10"), (Steps{15, 20}));
  EXPECT_TRUE(has("abandoned-1-after-10/checkpoint-30/of_another_program"));
  EXPECT_TRUE(has("mine/checkpoint-40"));
  EXPECT_EQ(text("abandoned-1-after-10/metrics.jsonl"), "a");
  EXPECT_TRUE(has("completions/completions_00009.jsonl"));
  EXPECT_FALSE(has("completions/completions_00012.jsonl"));
  EXPECT_TRUE(has("abandoned-1-after-10/completions/completions_00018.jsonl"));
  EXPECT_FALSE(has(kBranchFile));
}

// 10 15 20, left at 10; 10 12, left by taking 20 up again.
TEST_F(BranchTest, AnAbandonedCheckpointComesBackWithItsRecords) {
  make_run("a");
  branch("checkpoint-10", 10);
  make_checkpoint("checkpoint-12");
  put(kMetricsFile, "b");
  put("completions/completions_00012.jsonl", "b");
  branch("abandoned-1-after-10/checkpoint-20", 20);
  EXPECT_EQ(live(), (Steps{10, 20}));
  EXPECT_EQ(checkpoint_steps(folder_ / "abandoned-1-after-10"), (Steps{15}));
  EXPECT_EQ(checkpoint_steps(folder_ / "abandoned-2-after-10"), (Steps{12}));
  EXPECT_EQ(text(kMetricsFile), "a");
  EXPECT_EQ(text("abandoned-2-after-10/metrics.jsonl"), "b");
  EXPECT_EQ(text("completions/completions_00012.jsonl"), "a");
  EXPECT_EQ(text("completions/completions_00018.jsonl"), "a");
  EXPECT_EQ(text("abandoned-2-after-10/completions/completions_00012.jsonl"), "b");
}

// The record of the move is written first: whatever else a kill left undone is done at the next start.
TEST_F(BranchTest, AMoveThatWasCutShortIsEnded) {
  const std::string to = "abandoned-1-after-10";
  for (int done = 0; done < 4; ++done) {
    fs::remove_all(folder_);
    make_run("a");
    put(kBranchFile, R"({"format": "hone-branch-1", "to": "abandoned-1-after-10", "back": ""})");
    if (done > 0) put(to + "/metrics.jsonl", "a");
    if (done > 1) {
      fs::create_directories(folder_ / to / "completions");
      fs::rename(folder_ / "completions/completions_00018.jsonl",
                 folder_ / to / "completions/completions_00018.jsonl");
    }
    if (done > 2) fs::rename(folder_ / "checkpoint-15", folder_ / to / "checkpoint-15");
    recover_run_folder(folder_);
    EXPECT_EQ(live(), (Steps{10})) << done;
    EXPECT_EQ(checkpoint_steps(folder_ / to), (Steps{15, 20})) << done;
    EXPECT_EQ(text(to + "/metrics.jsonl"), "a");
    EXPECT_TRUE(has(to + "/completions/completions_00012.jsonl"));
    EXPECT_TRUE(has(to + "/completions/completions_00018.jsonl"));
    EXPECT_FALSE(has(kBranchFile));
  }
}

TEST_F(BranchTest, AReturnThatWasCutShortIsEnded) {
  for (int done = 0; done < 4; ++done) {
    fs::remove_all(folder_);
    make_run("a");
    branch("checkpoint-10", 10);
    make_checkpoint("checkpoint-12");
    put(kMetricsFile, "b");
    put(kBranchFile, R"({"format": "hone-branch-1", "to": "abandoned-2-after-10",
                         "back": "abandoned-1-after-10/checkpoint-20"})");
    if (done > 0) {
      put("abandoned-2-after-10/metrics.jsonl", "b");
      fs::rename(folder_ / "checkpoint-12", folder_ / "abandoned-2-after-10/checkpoint-12");
    }
    if (done > 1) fs::rename(folder_ / "abandoned-1-after-10/checkpoint-20", folder_ / "checkpoint-20");
    if (done > 2) {
      put(kMetricsFile, "a");
      fs::rename(folder_ / "abandoned-1-after-10/completions/completions_00012.jsonl",
                 folder_ / "completions/completions_00012.jsonl");
    }
    recover_run_folder(folder_);
    EXPECT_EQ(live(), (Steps{10, 20})) << done;
    EXPECT_EQ(checkpoint_steps(folder_ / "abandoned-2-after-10"), (Steps{12})) << done;
    EXPECT_EQ(text(kMetricsFile), "a") << done;
    EXPECT_TRUE(has("completions/completions_00012.jsonl")) << done;
    EXPECT_TRUE(has("completions/completions_00018.jsonl")) << done;
    EXPECT_FALSE(has(kBranchFile));
  }
}

TEST_F(BranchTest, ARecordThatIsNotHonesIsRefused) {
  make_run("a");
  for (
      const char* bad :
      {"", "{", "[]", "{}", R"({"format": "hone-branch-2", "to": "abandoned-1-after-10", "back": ""})",
       R"({"format": "hone-branch-1", "to": "../abandoned-1-after-10", "back": ""})",
       R"({"format": "hone-branch-1", "to": "", "back": ""})",
       R"({"format": "hone-branch-1", "to": 7, "back": ""})",
       R"({"format": "hone-branch-1", "to": "abandoned-1-after-99999999999999999999", "back": ""})",
       R"({"format": "hone-branch-1", "to": "abandoned-1-after-10", "back": "../x/checkpoint-20"})",
       R"({"format": "hone-branch-1", "to": "abandoned-1-after-10", "back": "/abandoned-1-after-10/checkpoint-20"})",
       R"({"format": "hone-branch-1", "to": "abandoned-1-after-10", "back": "checkpoint-20"})"}) {
    put(kBranchFile, bad);
    EXPECT_NE(refused().find(kBranchFile), std::string::npos) << bad;
    EXPECT_EQ(live(), (Steps{10, 15, 20})) << bad;
  }
}

TEST_F(BranchTest, TheLimitCountsWhatWasMovedAsideAndTakesItFirst) {
  make_run("a");
  branch("checkpoint-10", 10);
  make_checkpoint("checkpoint-12");
  rotate_checkpoints(folder_, {.keep = 3, .written = 12});
  EXPECT_EQ(live(), (Steps{10, 12}));
  EXPECT_EQ(checkpoint_steps(folder_ / "abandoned-1-after-10"), (Steps{20}));
  rotate_checkpoints(folder_, {.keep = 1, .written = 12});
  EXPECT_EQ(live(), (Steps{12}));
  EXPECT_TRUE(abandoned_checkpoints(folder_).empty());
  EXPECT_TRUE(has("abandoned-1-after-10/metrics.jsonl")) << "its records stay";
}

// However it came that a later one lies beside it.
TEST_F(BranchTest, TheCheckpointJustWrittenIsNeverTaken) {
  make_checkpoint("checkpoint-20");
  make_checkpoint("checkpoint-14");
  rotate_checkpoints(folder_, {.keep = 1, .written = 14});
  EXPECT_EQ(live(), (Steps{14}));
}

TEST_F(BranchTest, NamesAreReadAsTheyAreWritten) {
  EXPECT_EQ(abandoned_name({.number = 2, .after = 10}), "abandoned-2-after-10");
  EXPECT_EQ(abandoned_name_of("x/abandoned-2-after-10")->after, 10);
  for (const char* not_ours : {"abandoned-", "abandoned-1", "abandoned-1-after-", "abandoned-01-after-1",
                               "abandoned-1-after--1", "abandoned-1-after-1x", "abandoned--1-after-1"})
    EXPECT_FALSE(abandoned_name_of(not_ours)) << not_ours;
  for (const char* not_ours :
       {"checkpoint-", "checkpoint-05", "checkpoint--5", "checkpoint-+5", "checkpoint-5x"})
    EXPECT_FALSE(checkpoint_step(not_ours)) << not_ours;
  EXPECT_EQ(checkpoint_step("x/checkpoint-0"), 0);
  EXPECT_EQ(completions_step("completions_00012.jsonl"), 12);
  EXPECT_EQ(completions_step("completions_1234567.jsonl"), 1234567);
  EXPECT_FALSE(completions_step("completions_.jsonl"));
}

}  // namespace branch_test
}  // namespace hone::train
