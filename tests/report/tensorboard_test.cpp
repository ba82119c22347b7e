#include "report/tensorboard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/files/crc32c.h"
#include "base/files/file.h"
#include "report/run_report.h"

namespace hone::report {
namespace tensorboard_test {

namespace fs = base::fs;

std::uint32_t unmask(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8U;
  return (rotated >> 17U) | (rotated << 15U);
}

template <typename T>
T read_at(const std::string& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// The framed records of a file, each checksum checked.
std::vector<std::string> records(const std::string& bytes) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto length = read_at<std::uint64_t>(bytes, at);
    EXPECT_EQ(unmask(read_at<std::uint32_t>(bytes, at + 8)),
              base::crc32c(std::string_view(bytes).substr(at, 8)));
    out.push_back(bytes.substr(at + 12, length));
    EXPECT_EQ(unmask(read_at<std::uint32_t>(bytes, at + 12 + length)),
              base::crc32c(std::string_view(out.back())));
    at += 16 + length;
  }
  return out;
}

TEST(Tensorboard, AFileThatCannotBeWrittenIsSaid) {
  try {
    TensorboardWriter writer("/proc/self");  // a folder in which nobody can make a file
    FAIL() << "numbers went nowhere";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("events.out.tfevents"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("report_to: none"), std::string::npos);
  }
}

TEST(Tensorboard, WritesFramedEventsThatHoldTagValueAndStep) {
  const fs::path folder = fs::temp_directory_path() / ("hone_tensorboard_" + std::to_string(getpid()));
  {
    TensorboardWriter writer(folder);
    writer.scalar("train/loss", 1.5F, 300);
    writer.text("sample", "hello", 1);
  }
  std::string bytes;
  for (const auto& entry : fs::directory_iterator(folder)) bytes = base::read_text(entry.path());
  fs::remove_all(folder);
  const auto events = records(bytes);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_NE(events[0].find("brain.Event:2"), std::string::npos);
  // Event{wall_time(1, fixed64), step(2) = 300 = ac 02, summary(5){value(1){tag(1), simple_value(2) = 1.5}}}
  const std::string value = std::string("\x0a\x0atrain/loss\x15") + std::string("\x00\x00\xc0\x3f", 4);
  const std::string tail = std::string("\x10\xac\x02\x2a") + static_cast<char>(value.size() + 2) + "\x0a" +
                           static_cast<char>(value.size()) + value;
  EXPECT_EQ(events[1].substr(9), tail);
  EXPECT_NE(events[2].find("sample/text_summary"), std::string::npos);
  EXPECT_NE(events[2].find("hello"), std::string::npos);
}

// TensorBoard drops what earlier files say of steps from 300 on (torch's purge_step).
TEST(Tensorboard, AResumedRunPurgesTheStepsThatComeAgain) {
  const fs::path folder = fs::temp_directory_path() / ("hone_purge_" + std::to_string(getpid()));
  {
    TensorboardWriter writer(folder, 299);
  }
  std::string bytes;
  for (const auto& entry : fs::directory_iterator(folder)) bytes = base::read_text(entry.path());
  fs::remove_all(folder);
  const auto events = records(bytes);
  ASSERT_EQ(events.size(), 2U);
  // Event{wall_time(1), step(2) = 300 = ac 02, session_log(7){status(1) = START(1)}}
  EXPECT_EQ(events[1].substr(9), "\x10\xac\x02\x3a\x02\x08\x01");
}

// transformers logs the epoch beside every other number.
TEST(Tensorboard, HoldsEveryNumberOfARunAndItsEpoch) {
  const fs::path folder = fs::temp_directory_path() / ("hone_run_events_" + std::to_string(getpid()));
  fs::create_directories(folder);
  {
    std::ostringstream out;
    RunReport report(out, {}, /*tensorboard=*/true);
    train::StartFacts start;
    start.output_dir = folder.string();
    report.on_start(start);
    report.on_log({.step = 3, .epoch = 0.5, .values = {{"loss", 1.0}, {"eval_loss", 2.0}}});
  }
  std::string events;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("events.out")) events = base::read_text(entry.path());
  }
  fs::remove_all(folder);
  const std::string half("train/epoch\x15\x00\x00\x00\x3f", 16);
  EXPECT_NE(events.find(half), std::string::npos);
  EXPECT_NE(events.find("train/loss"), std::string::npos);
  EXPECT_NE(events.find("eval/loss"), std::string::npos);
}

TEST(Tensorboard, UsesTransformersTags) {
  EXPECT_EQ(tensorboard_tag("loss"), "train/loss");
  EXPECT_EQ(tensorboard_tag("eval_loss"), "eval/loss");
  EXPECT_EQ(tensorboard_tag("reward"), "train/reward");
  EXPECT_EQ(tensorboard_tag("rewards/accuracy_reward/mean"), "train/rewards/accuracy_reward/mean");
  EXPECT_EQ(tensorboard_tag("eval_completions/mean_length"), "eval/completions/mean_length");
  EXPECT_EQ(tensorboard_tag("train_loss"), "train/train_loss");
  EXPECT_EQ(tensorboard_tag("test_reward"), "test/reward");
}

}  // namespace tensorboard_test
}  // namespace hone::report
