// Whole distillation runs against TRL 1.16, step by step: TRL's own completions, replayed. Every metric that TRL logs,
// and gradients of the first step (fp32). Goldens: record_trl_distill.py.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>

#include "config/parse.h"
#include "parity/form_name.h"
#include "parity/recorded_run.h"
#include "train/batches/rollout_batch.h"
#include "train/methods/distill/distill.h"
#include "train/opening/memory_inputs.h"
#include "train/references/open_reference.h"
#include "train/steps/policy_order.h"

namespace hone::parity {
namespace trl_distill_test {

namespace fs = base::fs;
using base::Json;

constexpr const char* kFolder = "trl_distill";

config::Plan plan_of(const Json& golden, const RecordedCase& one, const fs::path& out) {
  const fs::path root = HONE_SOURCE_DIR;
  const fs::path model = root / golden.at("model").get<std::string>();
  Json options = golden.at("options");
  options["model_name_or_path"] = model.string();
  options["adapter_name_or_path"] = (model / "adapter").string();
  options["teacher_model_name_or_path"] = (root / golden.at("teacher").get<std::string>()).string();
  options["dataset_name"] = (root / golden.at("data").get<std::string>()).string();
  options["use_peft"] = true;
  options["replay"] = recorded_file(kFolder, one.name, ".jsonl").string();
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

class TrlDistill : public testing::TestWithParam<RecordedCase> {
 protected:
  void TearDown() override {
    fs::remove_all(out_);
    fs::remove(out_.string() + ".yaml");
  }
  fs::path out_ = fs::temp_directory_path() / ("hone_distill_" + GetParam().name + "_" + GetParam().form +
                                               "_" + std::to_string(getpid()));
};

TEST_P(TrlDistill, EveryStepEqualsTrl) {
  const Json golden = recorded_json(kFolder, GetParam().name);
  const config::Plan plan = plan_of(golden, GetParam(), out_);
  LogKeeper ours;
  const std::atomic<bool> stop = false;
  const std::unique_ptr<train::OpenedRun> run = train::open_run(plan, ours);
  train::begin_run(*run, ours, stop);
  const std::string name = GetParam().name + ", " + GetParam().form;
  Margin first(name + ", step 1", kFirstStepBound), later(name + ", later", kLaterStepBound);
  compare_logs(golden.at("steps"), ours.steps, 0.01, first, later);
  ASSERT_FALSE(ours.steps.empty());
  const Golden theirs(recorded_file(kFolder, GetParam().name, ".safetensors"));
  compare_recorded_tensors(theirs, *run, out_, ours.steps.front().at("grad_norm"), first, later);
}

INSTANTIATE_TEST_SUITE_P(Cases, TrlDistill, testing::ValuesIn(recorded_cases(kFolder, {"explicit", "plain"})),
                         [](const auto& one) {
                           return form_name(one.param.name, one.param.form, "explicit");
                         });

// TRL's completions of an evaluation, in its batches: 5, 5 and 2 prompts.
TEST(TrlDistillEvaluation, EveryMetricEqualsTrls) {
  const Json golden = recorded_json(kFolder, "evaluated");
  const Json& evaluation = golden.at("evaluation");
  const fs::path out = fs::temp_directory_path() / ("hone_distill_evaluation_" + std::to_string(getpid()));
  LogKeeper ours;
  const auto run = train::open_run(plan_of(golden, {.name = "evaluated", .form = "explicit"}, out), ours);
  const train::RolloutBatch batch = train::rollout_batch_from_json(evaluation.at("batch"), "evaluation");
  train::ReplayedRollouts completions({batch}, run->text->tokenizer);
  train::distill::Distill method({.plan = run->plan,
                                  .model = *run->model,
                                  .source = *run->data.sampled().train_source,
                                  .evaluation = &completions,
                                  .prompts = 12,
                                  .evaluation_prompts = 12,
                                  .form = train::pass_form(run->start.memory),
                                  .listener = ours,
                                  .reference = train::open_reference(*run, false)});
  const train::EvalFacts found = method.evaluate();
  Margin margin("an evaluation", kFirstStepBound);
  for (const auto& [name, value] : found.metrics) {
    const auto theirs = evaluation.at("metrics").at("eval_" + name).get<double>();
    margin.note(name, std::abs(value - theirs) / std::max(std::abs(theirs), 0.01));
  }
  EXPECT_EQ(found.metrics.size() + 1, evaluation.at("metrics").size()) << "all but num_tokens";
  EXPECT_EQ(found.batches, 3);
  fs::remove_all(out);
  fs::remove(out.string() + ".yaml");
}

// The prompts of each step: TRL then shuffles them among its micro-batches.
TEST(TrlDistillOrder, PromptsAreDrawnAsTrlDoes) {
  for (const RecordedCase& one : recorded_cases(kFolder, {"explicit"})) {
    const Json options = recorded_json(kFolder, one.name).at("options");
    const auto batch = options.at("per_device_train_batch_size").get<std::int64_t>();
    const auto accumulation = options.value("gradient_accumulation_steps", std::int64_t{1});
    const train::PolicyOrder order({.prompts = 12,
                                    .prompts_per_generation = batch * accumulation,
                                    .steps_per_generation = accumulation,
                                    .num_iterations = 1,
                                    .accumulation = accumulation});
    const auto batches = train::read_rollouts(recorded_file(kFolder, one.name, ".jsonl"));
    for (std::size_t step = 0; step < batches.size(); ++step) {
      std::vector<std::int64_t> rows, drawn = order.prompts(static_cast<std::int64_t>(step));
      for (const auto& prompt : batches[step].prompts) rows.push_back(prompt.row);
      std::sort(rows.begin(), rows.end());
      std::sort(drawn.begin(), drawn.end());
      EXPECT_EQ(drawn, rows) << one.name << ", step " << step + 1;
    }
  }
}

}  // namespace trl_distill_test
}  // namespace hone::parity
