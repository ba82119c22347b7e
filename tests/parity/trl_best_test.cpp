// Which checkpoint is the best, which are left and what the run ends with, against TRL 1.16's SFTTrainer.
// Goldens: record_trl_best.py, one JSON a case. Losses within 1e-3 (fp32); steps and folders equal.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>

#include "base/files/file.h"
#include "base/json.h"
#include "config/parse.h"
#include "parity/golden.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::parity {
namespace trl_best_test {

namespace fs = base::fs;
using base::Json;

constexpr double kBound = 1e-3;

class Recorder final : public train::RunListener {
 public:
  void on_log(const train::LogRecord& record) override { records.push_back(record); }
  std::vector<train::LogRecord> records;
};

std::string source_path(const Json& path) {
  return (fs::path(HONE_SOURCE_DIR) / path.get<std::string>()).string();
}

config::Plan plan_of(const Json& golden, const fs::path& out) {
  Json options = golden.at("options");
  options["model_name_or_path"] = source_path(golden.at("model"));
  options["adapter_name_or_path"] = source_path(golden.at("adapter"));
  options["dataset_name"] = source_path(golden.at("data"));
  options["use_peft"] = true;
  options["skip_doctor"] = true;
  options["output_dir"] = out.string();
  options["logging_steps"] = 1;
  const Json& evaluated = golden.at("eval_data");
  if (evaluated.is_string()) {
    options["eval_dataset"] = source_path(evaluated);
  } else {
    for (const auto& [name, path] : evaluated.items()) options["eval_datasets"][name] = source_path(path);
  }
  const fs::path file = out.string() + ".yaml";
  std::ofstream(file) << base::dump_json(options);
  return config::parse_run(config::Method::kSft, {"--config", file.string()});
}

Json json_in(const fs::path& file) {
  return base::parse_json(base::read_text(file), file.string());
}

class TrlBest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    golden_ = json_in(fs::path(HONE_FIXTURES) / "parity" / "trl_best" / (std::string(GetParam()) + ".json"));
    out_ =
        fs::temp_directory_path() / ("hone_best_" + std::string(GetParam()) + "_" + std::to_string(getpid()));
    const std::atomic<bool> stop = false;
    train::begin_run(*train::open_run(plan_of(golden_, out_), recorder_), recorder_, stop);
  }
  void TearDown() override {
    fs::remove_all(out_);
    fs::remove(out_.string() + ".yaml");
  }

  void compare_logs() {
    Margin margin(GetParam(), kBound);
    std::size_t eval = 0, step = 0;
    for (const auto& record : recorder_.records) {
      const std::map<std::string, double> ours(record.values.begin(), record.values.end());
      if (ours.contains("loss")) {
        margin.compare("learning rate", ours.at("learning_rate"),
                       golden_.at("rates").at(step++).get<double>());
        continue;
      }
      if (ours.contains("train_loss")) continue;
      const Json& theirs = golden_.at("evals").at(eval++);
      EXPECT_EQ(record.step, theirs.at("step").get<std::int64_t>());
      int compared = 0;
      for (const auto& [name, value] : theirs.items()) {
        if (!name.ends_with("_loss")) continue;
        ASSERT_TRUE(ours.contains(name)) << name;
        margin.compare(name, ours.at(name), value.get<double>());
        compared += 1;
      }
      EXPECT_EQ(compared, 1);
    }
    EXPECT_EQ(eval, golden_.at("evals").size());
    EXPECT_EQ(step, golden_.at("rates").size());
  }

  Json golden_;
  fs::path out_;
  Recorder recorder_;
};

TEST_P(TrlBest, EndsAsTrlDoes) {
  compare_logs();
  const Json state = json_in(out_ / train::kTrainerStateFile);
  const Json& theirs = golden_.at("state");
  EXPECT_EQ(state.at("best_global_step"), theirs.at("best_global_step"));
  if (theirs.at("best_metric").is_null()) {
    EXPECT_TRUE(state.at("best_metric").is_null());
  } else {
    EXPECT_NEAR(state.at("best_metric").get<double>() / theirs.at("best_metric").get<double>(), 1, kBound);
  }
  const Json& folder = state.at("best_model_checkpoint");
  EXPECT_EQ(folder.is_null() ? Json() : Json(fs::path(folder.get<std::string>()).filename().string()),
            theirs.at("best_model_checkpoint"));
  std::vector<std::string> left;
  for (const std::int64_t step : train::checkpoint_steps(out_)) {
    left.push_back(train::checkpoint_path(out_, step).filename().string());
  }
  EXPECT_EQ(left, golden_.at("left").get<std::vector<std::string>>());
  std::vector<std::int64_t> result;
  const std::string ended = base::read_text(out_ / train::kAdapterWeightsFile);
  for (const std::int64_t step : train::checkpoint_steps(out_)) {
    const fs::path file = train::checkpoint_path(out_, step) / train::kAdapterWeightsFile;
    if (base::read_text(file) == ended) result.push_back(step);
  }
  EXPECT_EQ(result, golden_.at("result").get<std::vector<std::int64_t>>());
}

INSTANTIATE_TEST_SUITE_P(Cases, TrlBest,
                         testing::Values("lowest", "highest", "only_the_best", "not_loaded",
                                         "saved_when_best", "saved_less_often", "two_sets", "plateau"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace trl_best_test
}  // namespace hone::parity
