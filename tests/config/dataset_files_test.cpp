// Data sets of a run's options; their rows and order are tested in tests/data/datasets_test.cpp.
#include <gtest/gtest.h>

#include "config/helpers.h"
#include "config/parse.h"
#include "config/write_plan.h"

namespace hone::config {
namespace dataset_files_test {

class DatasetFilesTest : public ConfigTest {};

TEST_F(DatasetFilesTest, AMixtureReachesThePlanAndComesBack) {
  write("more/train-1.jsonl", "{}");
  const std::string datasets = "[{\"path\": \"" + path("train.jsonl") + "\"}, {\"path\": \"" + path("more") +
                               "\", \"split\": \"train[:50%]\", \"columns\": [\"text\"]}]";
  const Plan plan = run({"--datasets", datasets, "--test_split_size", "0.25", "--eval_strategy", "epoch"});
  ASSERT_EQ(plan.train_rows.sets.size(), 2U);
  EXPECT_EQ(plan.train_rows.sets[1].columns, std::vector<std::string>{"text"});
  EXPECT_TRUE(plan.train_rows.sets[1].parts.at(0).slice.percent);
  EXPECT_FALSE(plan.train_rows.test_split.value().test);
  EXPECT_TRUE(plan.eval_rows.test_split.value().test);
  EXPECT_EQ(plan.dataset_name, path("train.jsonl") + " + " + path("more"));
  EXPECT_EQ(parse_run_text(Method::kSft, write_plan(plan), "plan.yaml"), plan);
}

TEST_F(DatasetFilesTest, MistakesOfMixtures) {
  const auto fault = [&](const std::string& datasets) { return run_error({"--datasets", datasets}); };
  const std::string train = "{\"path\": \"" + path("train.jsonl") + "\"";
  EXPECT_NE(fault("[{\"pth\": 1}]").find("Did you mean 'path'?"), std::string::npos);
  EXPECT_NE(fault("[{}]").find("`path`, the data set"), std::string::npos);
  EXPECT_NE(fault("[" + train + ", \"columns\": \"text\"}]").find("`columns` as a list"), std::string::npos);
  EXPECT_NE(fault("[" + train + ", \"fraction\": 1}, " + train + "}]").find("in every entry"),
            std::string::npos);
  EXPECT_NE(fault("[" + train + ", \"split\": \"train[\"}]").find("a split, or a part of one"),
            std::string::npos);
}

TEST_F(DatasetFilesTest, PartsOfSplitsAndConfigurations) {
  write("data/en/train.csv", "text\na\n");
  write("data/de/train.csv", "text\nb\n");
  const Plan plan =
      run({"--dataset_name", path("data"), "--dataset_config", "de", "--dataset_train_split", "train[:1]"});
  EXPECT_EQ(plan.dataset_name, path("data/de/train.csv"));
  EXPECT_EQ(plan.train_rows.sets.at(0).parts.at(0).slice.to, 1);
  EXPECT_NE(
      run_error({"--dataset_name", path("data"), "--dataset_config", "fr"}).find("the configurations de, en"),
      std::string::npos);
  // datasets calls the rows of a folder without configurations so.
  EXPECT_EQ(run({"--dataset_name", path("rows"), "--dataset_config", "default"}).dataset_name,
            path("rows/train.jsonl"));
  EXPECT_NE(run_error({"--dataset_name", path("rows"), "--dataset_config", "fr"})
                .find("a folder without configurations"),
            std::string::npos);
}

}  // namespace dataset_files_test
}  // namespace hone::config
