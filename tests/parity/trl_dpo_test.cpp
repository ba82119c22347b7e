// Whole DPO runs against TRL 1.16, step by step: every metric that TRL logs, the first step's gradients, the
// final adapter (fp32). Goldens: record_trl_dpo.py; those of real pairs need HONE_DATA and SmolLM2's GGUF.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "base/files/file.h"
#include "base/json.h"
#include "config/parse.h"
#include "parity/form_name.h"
#include "parity/golden.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::parity {
namespace trl_dpo_test {

namespace fs = base::fs;
using base::Json;

// Of a step from TRL's own weights, and of the steps after it, whose weights have already been moved.
constexpr double kFirstBound = 1e-4;
constexpr double kLaterBound = 5e-4;
// SmolLM2: TRL against itself with other kernels differs by 3e-4 in rewards.
constexpr double kRealBound = 1e-3;
// Metrics are of the order of 1; below this they are compared absolutely: policy and reference are alike at
// first, so that rewards are differences of sums of the order of 100 that cancel.
constexpr double kSmall = 0.1, kRealSmall = 1;

fs::path fixture(const std::string& name, const char* ending) {
  return fs::path(HONE_FIXTURES) / "parity" / "trl_dpo" / (name + ending);
}

Json read_golden(const std::string& name) {
  const fs::path path = fixture(name, ".json");
  return base::parse_json(base::read_text(path), path.string());
}

bool is_real(const std::string& name) {
  return name.starts_with("smollm2");
}

// Keeps what a run logged: steps and evaluations; not the line of its end.
class Recorder final : public train::RunListener {
 public:
  void on_log(const train::LogRecord& record) override {
    std::map<std::string, double> values(record.values.begin(), record.values.end());
    values["epoch"] = record.epoch;
    values["step"] = static_cast<double>(record.step);
    if (values.contains("loss")) steps.push_back(values);
    if (values.contains("eval_loss")) evals.push_back(values);
  }
  std::vector<std::map<std::string, double>> steps, evals;
};

// The first lines of the real pairs.
std::string first_pairs(std::int64_t count) {
  std::ifstream file(fs::path(std::getenv("HONE_DATA")) / "gsm8k-preference" / "train.jsonl");
  std::string out, line;
  for (; count > 0 && std::getline(file, line); --count) out += line + "\n";
  return out;
}

// Where the run starts: model, adapter (none: a new one) and data.
void set_start(Json& options, const Json& golden, const std::string& name, const fs::path& out) {
  const fs::path root = HONE_SOURCE_DIR;
  if (is_real(name)) {
    model::CausalLm model(*model::open_weights(smollm2_gguf()), {});
    attach_rule_adapter(model).save(out.string() + ".start");
    std::ofstream(out.string() + ".jsonl") << first_pairs(golden.at("data").get<std::int64_t>());
    options["model_name_or_path"] = smollm2_gguf().string();
    options["adapter_name_or_path"] = out.string() + ".start";
    options["dataset_name"] = out.string() + ".jsonl";
    return;
  }
  options["model_name_or_path"] = (root / golden.at("model").get<std::string>()).string();
  options["dataset_name"] = (root / golden.at("data").get<std::string>()).string();
  if (golden.contains("ref_model"))
    options["ref_model"] = (root / golden.at("ref_model").get<std::string>()).string();
  if (!golden.at("adapter").is_null()) {
    options["adapter_name_or_path"] = (root / golden.at("adapter").get<std::string>()).string();
    return;
  }
  if (golden.contains("tokens")) options["trainable_token_indices"] = golden.at("tokens");
  options["lora_r"] = 4;
  options["lora_alpha"] = 8;
  options["lora_target_modules"] = "all-linear";
}

config::Plan plan_of(const Json& golden, const std::string& name, const fs::path& out,
                     const std::string& form) {
  Json options = golden.at("options");
  set_start(options, golden, name, out);
  options["use_peft"] = true;
  options["output_dir"] = out.string();
  options["logging_steps"] = 1;
  options["save_strategy"] = "steps";
  options["save_steps"] = 1;
  if (options.contains("eval_strategy")) options["eval_dataset"] = fixture("eval", ".jsonl").string();
  const fs::path file = out.string() + ".yaml";
  std::ofstream(file) << base::dump_json(options);
  config::Plan plan = config::parse_run(config::Method::kDpo, {"--config", file.string()});
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
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(HONE_FIXTURES) / "parity" / "trl_dpo")) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  std::vector<Case> out;
  for (const std::string& name : names) {
    out.push_back({name, "shared"});
    if (is_real(name)) continue;
    for (const char* form : {"explicit", "plain"}) out.push_back({name, form});
  }
  return out;
}

class TrlDpo : public testing::TestWithParam<Case> {
 protected:
  void TearDown() override {
    fs::remove_all(out_);
    fs::remove_all(out_.string() + ".start");
    for (const char* ending : {".yaml", ".jsonl"}) fs::remove(out_.string() + ending);
  }
  fs::path out_ = fs::temp_directory_path() /
                  ("hone_dpo_" + GetParam().name + "_" + GetParam().form + "_" + std::to_string(getpid()));
};

void compare_records(const Json& theirs, const std::vector<std::map<std::string, double>>& ours, double small,
                     Margin& first, Margin& later) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    Margin& margin = i == 0 ? first : later;
    for (const auto& [name, recorded] : theirs.at(i).items()) {
      const std::string at = name + " of record " + std::to_string(i + 1);
      ASSERT_TRUE(ours[i].contains(name)) << at;
      const auto value = recorded.get<double>();
      margin.note(at, std::abs(ours[i].at(name) - value) / std::max(std::abs(value), small));
    }
  }
}

void compare_tensors(const std::string& name, const train::OpenedRun& run, const fs::path& out,
                     double grad_norm, Margin& first, Margin& later) {
  const Golden theirs(fixture(name, ".safetensors"));
  const at::Tensor gradient = first_gradient(out, grad_norm, run.plan);
  const Golden after(out / train::kAdapterWeightsFile);
  std::int64_t begin = 0, compared = 0;
  for (const auto& tensor : run.adapter->tensors()) {
    const std::int64_t size = tensor.value.numel();
    const at::Tensor ours = gradient.narrow(0, begin, size).reshape(tensor.value.sizes());
    begin += size;
    if (!is_real(name) || theirs.has("grad." + tensor.name)) {
      first.compare("gradient of " + tensor.name, ours, theirs.tensor("grad." + tensor.name));
      compared += 1;
    }
    if (theirs.has("after." + tensor.name)) {
      later.compare("after the last step: " + tensor.name, after.tensor(tensor.name),
                    theirs.tensor("after." + tensor.name));
    }
  }
  EXPECT_EQ(begin, gradient.numel());
  EXPECT_GT(compared, 0);
}

TEST_P(TrlDpo, EveryStepEqualsTrl) {
  const auto& [name, form] = GetParam();
  const Json golden = read_golden(name);
  if (is_real(name) && (std::getenv("HONE_DATA") == nullptr || smollm2_gguf().empty()))
    GTEST_SKIP() << "needs HONE_DATA and SmolLM2";
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
  const bool real = is_real(name);
  Margin first(name + ", " + form + ", step 1", real ? kRealBound : kFirstBound);
  Margin later(name + ", " + form + ", later", real ? kRealBound : kLaterBound);
  const double small = real ? kRealSmall : kSmall;
  compare_records(golden.at("steps"), ours.steps, small, first, later);
  compare_records(golden.at("evals"), ours.evals, small, later, later);
  ASSERT_FALSE(ours.steps.empty());
  if (golden.contains("ref_model")) return;  // its tensors are not recorded
  compare_tensors(name, *run, out_, ours.steps.front().at("grad_norm"), first, later);
}

INSTANTIATE_TEST_SUITE_P(Cases, TrlDpo, testing::ValuesIn(cases_and_forms()),
                         [](const auto& one) { return form_name(one.param.name, one.param.form, "shared"); });

}  // namespace trl_dpo_test
}  // namespace hone::parity
