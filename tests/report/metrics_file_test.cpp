#include "report/metrics_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "base/files/file.h"

namespace hone::report {
namespace metrics_file_test {

namespace fs = base::fs;

class MetricsFileTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_ = fs::temp_directory_path() / ("hone_metrics_" + std::to_string(getpid()));
  fs::path path_ = folder_ / "metrics.jsonl";
};

train::LogRecord record(std::int64_t step, double loss) {
  return {.step = step, .epoch = 0.5, .values = {{"loss", loss}}};
}

TEST_F(MetricsFileTest, WritesOneObjectALineAndTurnsNanIntoNull) {
  MetricsFile file(path_, 0);
  file.write(record(1, 2.5));
  file.write(record(2, std::nan("")));
  EXPECT_EQ(base::read_text(path_),
            "{\"step\":1,\"epoch\":0.5,\"loss\":2.5}\n{\"step\":2,\"epoch\":0.5,\"loss\":null}\n");
}

TEST_F(MetricsFileTest, ResumingDropsTheStepsThatWillRunAgainAndATornLine) {
  {
    MetricsFile file(path_, 0);
    for (int step = 1; step <= 4; ++step) file.write(record(step, step));
  }
  std::ofstream(path_, std::ios::app) << "{\"step\":5,\"epo";
  MetricsFile file(path_, 2);
  file.write(record(3, 30));
  EXPECT_EQ(base::read_text(path_),
            "{\"step\":1,\"epoch\":0.5,\"loss\":1.0}\n{\"step\":2,\"epoch\":0.5,\"loss\":2.0}\n"
            "{\"step\":3,\"epoch\":0.5,\"loss\":30.0}\n");
}

TEST_F(MetricsFileTest, ResumingDropsALineWhoseStepIsNoNumber) {
  std::ofstream(path_) << "{\"step\":\"1\"}\n{\"step\":null}\n{\"epoch\":1}\n[1]\n{\"step\":1}\n";
  MetricsFile file(path_, 2);
  EXPECT_EQ(base::read_text(path_), "{\"step\":1}\n");
}

// The evaluation of the step that it goes on from is made again.
TEST_F(MetricsFileTest, AnEvaluationThatIsMadeAgainStandsOnce) {
  const auto evaluation = [](std::int64_t step) {
    return train::LogRecord{.step = step, .epoch = 0.5, .values = {{"eval_loss", 1}}};
  };
  {
    MetricsFile file(path_, 0);
    file.write(evaluation(1));
    file.write(record(2, 2));
    file.write(evaluation(2));
  }
  const std::string text = base::read_text(path_);
  {
    const MetricsFile file(path_, 2);
  }
  EXPECT_EQ(base::read_text(path_), text);
  {
    const MetricsFile file(path_, 2, /*evaluates_again=*/true);
  }
  EXPECT_EQ(base::read_text(path_),
            "{\"step\":1,\"epoch\":0.5,\"eval_loss\":1.0}\n{\"step\":2,\"epoch\":0.5,\"loss\":2.0}\n");
}

// Killed between the line of its end and its last files, a run ends again when it is resumed.
TEST_F(MetricsFileTest, ARunEndsOnce) {
  const train::LogRecord end = {.step = 1, .epoch = 0.5, .values = {{"train_runtime", 3}}};
  {
    MetricsFile file(path_, 0);
    file.write(record(1, 2.5));
    file.write(end);
  }
  const std::string whole = base::read_text(path_);
  MetricsFile file(path_, 1);
  EXPECT_EQ(base::read_text(path_), whole);  // a finished run that is resumed has nothing to add
  file.write(end);
  EXPECT_EQ(base::read_text(path_), whole);
}

TEST_F(MetricsFileTest, ANewRunStartsANewFile) {
  std::ofstream(path_) << "old\n";
  MetricsFile file(path_, 0);
  EXPECT_EQ(base::read_text(path_), "");
}

}  // namespace metrics_file_test
}  // namespace hone::report
