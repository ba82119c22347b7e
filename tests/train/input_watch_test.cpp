#include "train/opening/input_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "base/error.h"

namespace hone::train {

namespace fs = base::fs;

class InputWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / "hone_input_watch";
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "model");
    write(rows(), "one\ntwo\n");
    write(weights(), "weights");
    plan_.model_name_or_path = (folder_ / "model").string();
    plan_.train_rows = base::RowFiles(rows());
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path rows() const { return folder_ / "rows.jsonl"; }
  fs::path weights() const { return folder_ / "model" / "model.safetensors"; }
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static void touch(const fs::path& path) {
    fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(5));
  }

  fs::path folder_;
  config::Plan plan_;
};

TEST_F(InputWatchTest, ChangesAreSaidOnce) {
  InputWatch watch(plan_);
  EXPECT_TRUE(watch.look().empty());
  write(rows(), "one\n");
  touch(weights());
  const auto notes = watch.look();
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_EQ(notes[0].find(rows().string() + " has 4 bytes, and had 8 when the run began"), 0U) << notes[0];
  EXPECT_EQ(notes[1].find(weights().string() + " was written again"), 0U) << notes[1];
  EXPECT_TRUE(watch.look().empty());
  fs::remove(rows());
  EXPECT_TRUE(watch.look().empty()) << "said already";
}

TEST_F(InputWatchTest, AFileThatIsGoneIsSaid) {
  InputWatch watch(plan_);
  fs::remove(rows());
  ASSERT_EQ(watch.look().size(), 1U);
}

TEST_F(InputWatchTest, RowsThatAreStillReadAreRefused) {
  plan_.dataset_streaming = true;
  InputWatch watch(plan_);
  touch(rows());
  EXPECT_TRUE(watch.look().empty()) << "the same bytes";
  write(rows(), "one\nTWO\n");
  touch(rows());
  EXPECT_THROW(watch.look(), base::UserError);
  write(rows(), "one\n");
  EXPECT_THROW(watch.look(), base::UserError);
}

}  // namespace hone::train
