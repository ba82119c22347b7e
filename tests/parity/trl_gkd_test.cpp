// Whole runs of TRL 1.16's GKDTrainer, step by step: what its losses see, replayed by hone distill with lmbda, seq_kd and
// loss_temperature (fp32). Goldens: record_trl_gkd.py.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "config/parse.h"
#include "parity/form_name.h"
#include "parity/recorded_run.h"
#include "train/batches/rollout_batch.h"

namespace hone::parity {
namespace trl_gkd_test {

namespace fs = base::fs;
using base::Json;

constexpr const char* kFolder = "trl_gkd";

config::Plan plan_of(const Json& golden, const RecordedCase& one, const fs::path& out, bool replays) {
  const fs::path root = HONE_SOURCE_DIR;
  const fs::path model = root / golden.at("model").get<std::string>();
  // GKDConfig's defaults, under the names of hone distill
  Json options = {{"lmbda", 0.5},
                  {"beta", 0.5},
                  {"temperature", 0.9},
                  {"loss_temperature", 1},
                  {"disable_dropout", true}};
  options.update(golden.at("options"));
  options["max_completion_length"] = options.at("max_new_tokens");
  options.erase("max_new_tokens");
  options.erase("max_length");
  options["model_name_or_path"] = model.string();
  options["adapter_name_or_path"] = (model / "adapter").string();
  options["teacher_model_name_or_path"] = (root / golden.at("teacher").get<std::string>()).string();
  options["dataset_name"] = (root / golden.at("data").get<std::string>()).string();
  options["use_peft"] = true;
  if (replays) options["replay"] = recorded_file(kFolder, one.name, ".jsonl").string();
  options["output_dir"] = out.string();
  options["logging_steps"] = 1;
  options["save_strategy"] = "steps";
  options["save_steps"] = 1;
  const fs::path file = out.string() + ".yaml";
  std::ofstream(file) << base::dump_json(options);
  config::Plan plan = config::parse_run(config::Method::kDistill, {"--config", file.string()});
  plan.layer_form = one.form == "plain" ? config::LayerForm::kAutograd : config::LayerForm::kFused;
  return plan;
}

class TrlGkd : public testing::TestWithParam<RecordedCase> {
 protected:
  void TearDown() override {
    fs::remove_all(out_);
    fs::remove(out_.string() + ".yaml");
  }
  fs::path out_ = fs::temp_directory_path() /
                  ("hone_gkd_" + GetParam().name + "_" + GetParam().form + "_" + std::to_string(getpid()));
};

// TRL's epochs are those of twelve rows.
TEST_P(TrlGkd, EveryStepEqualsTrl) {
  Json golden = recorded_json(kFolder, GetParam().name);
  const config::Plan plan = plan_of(golden, GetParam(), out_, true);
  LogKeeper ours;
  const std::atomic<bool> stop = false;
  const std::unique_ptr<train::OpenedRun> run = train::open_run(plan, ours);
  train::begin_run(*run, ours, stop);
  const std::string name = GetParam().name + ", " + GetParam().form;
  Margin first(name + ", step 1", kFirstStepBound), later(name + ", later", kLaterStepBound);
  for (Json& step : golden.at("steps")) step.erase("epoch");
  compare_logs(golden.at("steps"), ours.steps, 0.01, first, later);
  ASSERT_FALSE(ours.steps.empty());
  const Golden theirs(recorded_file(kFolder, GetParam().name, ".safetensors"));
  compare_recorded_tensors(theirs, *run, out_, ours.steps.front().at("grad_norm"), first, later);
}

// A row's prompt and completion, without a replay: TRL's collator of conversations.
TEST_P(TrlGkd, GivenCompletionsHaveTrlsTokens) {
  const Json golden = recorded_json(kFolder, GetParam().name);
  if (!GetParam().name.starts_with("given")) GTEST_SKIP() << "sampled";
  LogKeeper ours;
  const auto run = train::open_run(plan_of(golden, GetParam(), out_, false), ours);
  std::size_t compared = 0;
  for (const train::RolloutBatch& batch :
       train::read_rollouts(recorded_file(kFolder, GetParam().name, ".jsonl"))) {
    for (const train::RolloutSample& sample : batch.samples) {
      const train::RolloutPrompt& prompt = batch.prompts.at(sample.prompt);
      const data::GivenCompletion& row =
          run->data.sampled().train_given.at(static_cast<std::size_t>(prompt.row));
      EXPECT_EQ(row.prompt, prompt.ids);
      EXPECT_EQ(row.ids, sample.ids);
      compared += 1;
    }
  }
  EXPECT_GE(compared, 6U);
}

INSTANTIATE_TEST_SUITE_P(Cases, TrlGkd, testing::ValuesIn(recorded_cases(kFolder, {"explicit", "plain"})),
                         [](const auto& one) {
                           return form_name(one.param.name, one.param.form, "explicit");
                         });

}  // namespace trl_gkd_test
}  // namespace hone::parity
