// Whole Online DPO runs against TRL 1.16, step by step: TRL's own completions and rewards, replayed. Every
// metric that TRL logs, the first step's gradients, the final adapter (fp32). Goldens:
// record_trl_online_dpo.py, which fixes TRL's defects by name; its cases as_trl_* show them as they are.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "base/files/file.h"
#include "base/json.h"
#include "config/parse.h"
#include "data/records/order.h"
#include "parity/form_name.h"
#include "parity/golden.h"
#include "train/batches/rollout_batch.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::parity {
namespace trl_online_dpo_test {

namespace fs = base::fs;
using base::Json;

// Of a step from TRL's own weights, and of the steps after it, whose weights have already been moved.
constexpr double kFirstBound = 1e-4;
constexpr double kLaterBound = 5e-4;
// Below this metrics are compared absolutely: rewards and distances are differences of sums of the order of
// 100 that cancel.
constexpr double kSmall = 0.1;
// What TRL sums over padding; as_trl_padded has its numbers.
const std::set<std::string> kPadded = {"objective/kl", "objective/entropy", "objective/non_score_reward",
                                       "objective/rlhf_reward"};

fs::path fixture(const std::string& name, const char* ending) {
  return fs::path(HONE_FIXTURES) / "parity" / "trl_online_dpo" / (name + ending);
}

Json read_golden(const std::string& name) {
  const fs::path path = fixture(name, ".json");
  return base::parse_json(base::read_text(path), path.string());
}

std::vector<std::string> cases() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(fs::path(HONE_FIXTURES) / "parity" / "trl_online_dpo")) {
    if (entry.path().extension() == ".json") out.push_back(entry.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Keeps what a run logged; not the line of its end, which has no loss.
class Recorder final : public train::RunListener {
 public:
  void on_log(const train::LogRecord& record) override {
    std::map<std::string, double> values(record.values.begin(), record.values.end());
    if (!values.contains("loss")) return;
    values["epoch"] = record.epoch;
    values["step"] = static_cast<double>(record.step);
    steps.push_back(std::move(values));
  }
  std::vector<std::map<std::string, double>> steps;
};

config::Plan plan_of(const Json& golden, const std::string& name, const fs::path& out,
                     const std::string& form) {
  const fs::path root = HONE_SOURCE_DIR;
  Json options = golden.at("options");
  options["model_name_or_path"] = (root / golden.at("model").get<std::string>()).string();
  options["dataset_name"] = (root / golden.at("data").get<std::string>()).string();
  if (!golden.at("adapter").is_null()) {
    options["adapter_name_or_path"] = (root / golden.at("adapter").get<std::string>()).string();
  } else {
    options["lora_r"] = 4;
    options["lora_alpha"] = 8;
    options["lora_target_modules"] = "all-linear";
  }
  options["use_peft"] = true;
  options["replay"] = fixture(name, ".jsonl").string();
  options["output_dir"] = out.string();
  options["logging_steps"] = 1;
  options["save_strategy"] = "steps";
  options["save_steps"] = 1;
  const fs::path file = out.string() + ".yaml";
  std::ofstream(file) << base::dump_json(options);
  config::Plan plan = config::parse_run(config::Method::kOnlineDpo, {"--config", file.string()});
  plan.layer_form = form == "plain" ? config::LayerForm::kAutograd : config::LayerForm::kFused;
  plan.share_prompt = form == "shared";
  return plan;
}

// The first step's gradient before clipping: AdamW's first moment after one step is (1 - beta1) times what
// was left of it.
at::Tensor first_gradient(const fs::path& out, double grad_norm, const config::Plan& plan) {
  const at::Tensor moment =
      Golden(train::checkpoint_path(out, 1) / train::kOptimizerFile).tensor("exp_avg").to(at::kDouble);
  const double kept = plan.max_grad_norm > 0 ? std::min(1.0, plan.max_grad_norm / (grad_norm + 1e-6)) : 1.0;
  return moment / ((1 - plan.adam_beta1) * kept);
}

// Forms: the explicit layer with a pair's prompt computed once (what users get) or twice, and the plain
// layer.
struct Case {
  std::string name, form;
};
std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << one.name << ", " << one.form;
}
std::vector<Case> cases_and_forms() {
  std::vector<Case> out;
  for (const std::string& name : cases()) {
    for (const char* form : {"shared", "explicit", "plain"}) out.push_back({name, form});
  }
  return out;
}

class TrlOnlineDpo : public testing::TestWithParam<Case> {
 protected:
  void TearDown() override {
    fs::remove_all(out_);
    fs::remove(out_.string() + ".yaml");
  }
  fs::path out_ = fs::temp_directory_path() /
                  ("hone_online_" + GetParam().name + "_" + GetParam().form + "_" + std::to_string(getpid()));
};

// TRL's gradients are sums over micro-batches where that defect is not fixed.
double scale_of(const Json& golden) {
  const bool mended = golden.at("mended").dump().find("accumulation") != std::string::npos;
  return mended ? 1 : golden.at("options").value("gradient_accumulation_steps", 1.0);
}

void compare_steps(const Json& golden, const Recorder& ours, Margin& first, Margin& later) {
  const bool padded = golden.at("mended").empty();
  bool differs = false;
  ASSERT_EQ(ours.steps.size(), golden.at("steps").size());
  for (std::size_t i = 0; i < ours.steps.size(); ++i) {
    Margin& margin = i == 0 ? first : later;
    for (const auto& [name, recorded] : golden.at("steps").at(i).items()) {
      const std::string at = name + " of step " + std::to_string(i + 1);
      ASSERT_TRUE(ours.steps[i].contains(name)) << at;
      const double value = recorded.get<double>() / (name == "grad_norm" ? scale_of(golden) : 1);
      const double error = std::abs(ours.steps[i].at(name) - value) / std::max(std::abs(value), kSmall);
      if (padded && kPadded.contains(name)) {
        differs = differs || error > 0.01;
        continue;
      }
      margin.note(at, error);
    }
  }
  // Where nothing is padded TRL's numbers are the ones without padding.
  EXPECT_EQ(differs, padded && golden.at("padded").get<bool>()) << "TRL's metrics over padding";
}

void compare_tensors(const std::string& name, const Json& golden, const train::OpenedRun& run,
                     const fs::path& out, double grad_norm, Margin& first, Margin& later) {
  const Golden theirs(fixture(name, ".safetensors"));
  const at::Tensor gradient = first_gradient(out, grad_norm, run.plan) * scale_of(golden);
  const Golden after(out / train::kAdapterWeightsFile);
  std::int64_t begin = 0;
  for (const auto& tensor : run.adapter->tensors()) {
    const std::int64_t size = tensor.value.numel();
    const at::Tensor ours = gradient.narrow(0, begin, size).reshape(tensor.value.sizes());
    begin += size;
    first.compare("gradient of " + tensor.name, ours, theirs.tensor("grad." + tensor.name));
    if (theirs.has("after." + tensor.name)) {
      later.compare("after the last step: " + tensor.name, after.tensor(tensor.name),
                    theirs.tensor("after." + tensor.name));
    }
  }
  EXPECT_EQ(begin, gradient.numel());
}

TEST_P(TrlOnlineDpo, EveryStepEqualsTrl) {
  const auto& [name, form] = GetParam();
  const Json golden = read_golden(name);
  const config::Plan plan = plan_of(golden, name, out_, form);
  Recorder ours;
  const std::atomic<bool> stop = false;
  const std::unique_ptr<train::OpenedRun> run = train::open_run(plan, ours);
  // a new adapter, whose reference is the base, begins with TRL's values
  if (golden.at("adapter").is_null()) {
    const Golden theirs(fixture(name, ".safetensors"));
    const at::NoGradGuard no_grad;
    for (const auto& tensor : run->adapter->tensors()) {
      at::Tensor(tensor.value).copy_(theirs.tensor("before." + tensor.name));
    }
  }
  train::begin_run(*run, ours, stop);
  Margin first(name + ", " + form + ", step 1", kFirstBound);
  Margin later(name + ", " + form + ", later", kLaterBound);
  compare_steps(golden, ours, first, later);
  if (ours.steps.size() == 1) later.note("nothing: one step", 0);
  ASSERT_FALSE(ours.steps.empty());
  compare_tensors(name, golden, *run, out_, ours.steps.front().at("grad_norm"), first, later);
}

INSTANTIATE_TEST_SUITE_P(Cases, TrlOnlineDpo, testing::ValuesIn(cases_and_forms()),
                         [](const auto& one) { return form_name(one.param.name, one.param.form, "shared"); });

// The prompts of each step and of its micro-batches.
TEST(TrlOnlineDpoOrder, PromptsAreDrawnAsTrlDoes) {
  for (const std::string& name : cases()) {
    const Json options = read_golden(name).at("options");
    const data::Order order({.rows = 12,
                             .batch_size = options.at("per_device_train_batch_size").get<std::int64_t>(),
                             .accumulation = options.value("gradient_accumulation_steps", std::int64_t{1})});
    const auto batches = train::read_rollouts(fixture(name, ".jsonl"));
    for (std::size_t step = 0; step < batches.size(); ++step) {
      data::StepRows rows;
      for (const auto& slice : batches[step].slices) {
        rows.emplace_back();
        for (std::size_t i = 0; i < slice.size(); i += 2) {
          rows.back().push_back(batches[step].prompts[batches[step].samples[slice[i]].prompt].row);
        }
      }
      EXPECT_EQ(order.step_rows(static_cast<std::int64_t>(step)), rows) << name << ", step " << step + 1;
    }
  }
}

}  // namespace trl_online_dpo_test
}  // namespace hone::parity
