#include "train/saves/run_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/files/staging.h"

namespace hone::train {
namespace run_folder_test {

namespace fs = base::fs;

class RunFolderTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  void make_checkpoint(const std::string& name, bool whole) {
    fs::create_directories(folder_ / name);
    if (whole) std::ofstream(folder_ / name / kHoneStateFile) << "{}";
  }
  fs::path folder_ = fs::temp_directory_path() / ("hone_run_folder_" + std::to_string(getpid()));
};

TEST_F(RunFolderTest, OnlyWholeCheckpointsCount) {
  make_checkpoint("checkpoint-20", true);
  make_checkpoint("checkpoint-100", true);
  make_checkpoint("checkpoint-30", false);
  make_checkpoint("checkpoint-40.partial", true);
  make_checkpoint("checkpoint-x", true);
  EXPECT_EQ(checkpoint_steps(folder_), (std::vector<std::int64_t>{20, 100}));
  EXPECT_TRUE(checkpoint_steps(folder_ / "absent").empty());
}

TEST_F(RunFolderTest, RotationKeepsTheNewest) {
  for (const int step : {5, 10, 15}) make_checkpoint("checkpoint-" + std::to_string(step), true);
  rotate_checkpoints(folder_, {.keep = 0, .written = 15});
  EXPECT_EQ(checkpoint_steps(folder_).size(), 3U);
  rotate_checkpoints(folder_, {.keep = 2, .written = 15});
  EXPECT_EQ(checkpoint_steps(folder_), (std::vector<std::int64_t>{10, 15}));
  EXPECT_FALSE(fs::exists(folder_ / "checkpoint-5"));
}

// transformers' rotate_checkpoints: the newest and the best stay, also where the limit is one.
TEST_F(RunFolderTest, RotationKeepsTheBestToo) {
  for (const int step : {5, 10, 15, 20}) make_checkpoint("checkpoint-" + std::to_string(step), true);
  rotate_checkpoints(folder_, {.keep = 3, .written = 20, .best = 5});
  EXPECT_EQ(checkpoint_steps(folder_), (std::vector<std::int64_t>{5, 15, 20}));
  rotate_checkpoints(folder_, {.keep = 1, .written = 20, .best = 5});
  EXPECT_EQ(checkpoint_steps(folder_), (std::vector<std::int64_t>{5, 20}));
  rotate_checkpoints(folder_, {.keep = 1, .written = 5});
  EXPECT_EQ(checkpoint_steps(folder_), (std::vector<std::int64_t>{5}));
}

TEST_F(RunFolderTest, WhatAKillLeftIsCleanedUp) {
  make_checkpoint("checkpoint-5", true);
  const fs::path staging = base::staging_path(folder_ / "checkpoint-10");
  fs::create_directories(staging / "new");  // killed while saving
  std::ofstream(staging / "made-by-hone") << "";
  make_checkpoint("abandoned-1-after-5/checkpoint-20", true);
  const fs::path leaving = base::staging_path(folder_ / "abandoned-1-after-5" / "checkpoint-10");
  fs::create_directories(leaving / "leaving");  // killed while deleting
  std::ofstream(leaving / "made-by-hone") << "";
  make_checkpoint("mine.partial", true);
  recover_run_folder(folder_);
  EXPECT_EQ(checkpoint_steps(folder_), (std::vector<std::int64_t>{5}));
  EXPECT_FALSE(fs::exists(staging));
  EXPECT_FALSE(fs::exists(leaving));
  EXPECT_TRUE(fs::exists(folder_ / "abandoned-1-after-5" / "checkpoint-20"));
  EXPECT_TRUE(fs::exists(folder_ / "mine.partial")) << "not ours";
}

TEST_F(RunFolderTest, WhatAKilledEarlierVersionLeftIsCleanedUp) {
  make_checkpoint("checkpoint-5", true);
  make_checkpoint("checkpoint-10.partial", true);   // killed while saving, or while deleting an old one
  make_checkpoint("checkpoint-15.hone-old", true);  // killed while replacing
  make_checkpoint("mine.partial", true);
  recover_run_folder(folder_);
  EXPECT_EQ(checkpoint_steps(folder_), (std::vector<std::int64_t>{5, 15}));
  EXPECT_FALSE(fs::exists(folder_ / "checkpoint-10.partial"));
  EXPECT_FALSE(fs::exists(folder_ / "checkpoint-15.hone-old"));
  EXPECT_TRUE(fs::exists(folder_ / "mine.partial")) << "not ours";
}

TEST_F(RunFolderTest, AFreshStartOverAnOldRunIsRefusedWithAWayOut) {
  EXPECT_NO_THROW(require_fresh(folder_));
  EXPECT_NO_THROW(require_fresh(folder_ / "absent"));
  make_checkpoint("checkpoint-20", true);
  try {
    require_fresh(folder_);
    FAIL() << "a run was about to be overwritten";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("a checkpoint of step 20"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("--resume_from_checkpoint true"), std::string::npos);
  }
}

// A run would replace it when it gets to that step.
TEST_F(RunFolderTest, AFreshStartOverAnotherProgramsCheckpointIsRefused) {
  make_checkpoint("checkpoint-20", false);
  EXPECT_NO_THROW(require_fresh(folder_)) << "an empty folder is nothing to lose";
  std::ofstream(folder_ / "checkpoint-20" / "optimizer.pt") << "x";
  EXPECT_THROW(require_fresh(folder_), base::UserError);
}

TEST_F(RunFolderTest, AFreshStartOverAbandonedCheckpointsIsRefused) {
  make_checkpoint("abandoned-1-after-10/checkpoint-20", true);
  try {
    require_fresh(folder_);
    FAIL() << "their folder would be this run's";
  } catch (const base::UserError& error) {
    EXPECT_NE(
        std::string(error.what())
            .find("--resume_from_checkpoint " + (folder_ / "abandoned-1-after-10/checkpoint-20").string()),
        std::string::npos)
        << error.what();
  }
}

}  // namespace run_folder_test
}  // namespace hone::train
