// Whole GRPO and RLOO runs against TRL 1.16, step by step: TRL's own completions, rewards and micro-batches,
// replayed. Goldens: record_trl_grpo.py. Every metric that TRL logs, the first step's gradients, the final
// adapter (fp32).
#include <ATen/ATen.h>
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
#include "parity/form_name.h"
#include "parity/golden.h"
#include "train/batches/rollout_batch.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"
#include "train/steps/policy_order.h"

namespace hone::parity {
namespace trl_grpo_test {

namespace fs = base::fs;
using base::Json;

// Of a step from recorded inputs, and of the steps after it, whose weights have already been moved.
constexpr double kFirstBound = 1e-4;
constexpr double kLaterBound = 5e-4;
// Metrics are of the order of 1; below this they are compared absolutely. (A loss of GRPO on its policy is a
// sum of numbers of the order of 1 that cancel.)
constexpr double kSmall = 0.02;

fs::path fixture(const std::string& name, const char* ending) {
  return fs::path(HONE_FIXTURES) / "parity" / "trl_grpo" / (name + ending);
}

Json read_golden(const std::string& name) {
  const fs::path path = fixture(name, ".json");
  return base::parse_json(base::read_text(path), path.string());
}

std::vector<std::string> cases() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(fs::path(HONE_FIXTURES) / "parity" / "trl_grpo")) {
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

config::Plan plan_of(const Json& golden, const fs::path& rollouts, const fs::path& out,
                     const std::string& form) {
  const fs::path root = HONE_SOURCE_DIR;
  Json options = golden.at("options");
  options["model_name_or_path"] = (root / golden.at("model").get<std::string>()).string();
  options["adapter_name_or_path"] = (root / golden.at("adapter").get<std::string>()).string();
  options["dataset_name"] = (root / golden.at("data").get<std::string>()).string();
  options["use_peft"] = true;
  options["replay"] = rollouts.string();
  options["output_dir"] = out.string();
  options["logging_steps"] = 1;
  options["save_strategy"] = "steps";
  options["save_steps"] = 1;
  const fs::path file = out.string() + ".yaml";
  std::ofstream(file) << base::dump_json(options);
  const auto method = golden.at("method") == "rloo" ? config::Method::kRloo : config::Method::kGrpo;
  config::Plan plan = config::parse_run(method, {"--config", file.string()});
  plan.layer_form = form == "plain" ? config::LayerForm::kAutograd : config::LayerForm::kFused;
  plan.share_prompt = form == "shared";
  return plan;
}

// The first step's gradient before clipping: AdamW's first moment after one step is (1 - beta1) times what
// was left of it. In the order of the adapter's tensors.
at::Tensor first_gradient(const fs::path& out, double grad_norm, const config::Plan& plan) {
  const at::Tensor moment =
      Golden(train::checkpoint_path(out, 1) / train::kOptimizerFile).tensor("exp_avg").to(at::kDouble);
  const double kept = plan.max_grad_norm > 0 ? std::min(1.0, plan.max_grad_norm / (grad_norm + 1e-6)) : 1.0;
  return moment / ((1 - plan.adam_beta1) * kept);
}

std::vector<adapters::TrainableTensor> trained_tensors(const config::Plan& plan) {
  static std::map<std::string, std::vector<adapters::TrainableTensor>> known;
  auto& found = known[plan.adapter_name_or_path];
  if (found.empty()) {
    model::CausalLm model(*model::open_weights(plan.model_name_or_path), {});
    found = adapters::Adapter::load(model, plan.adapter_name_or_path).tensors();
  }
  return found;
}

// Forms: the explicit layer with a group's prompt computed once (what users get) or once a completion, and
// the plain layer.
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
std::vector<Case> cases_with_reference() {
  std::vector<Case> out;
  for (const Case& one : cases_and_forms()) {
    const auto batches = train::read_rollouts(fixture(one.name, ".jsonl"));
    if (!batches.front().samples.front().ref_logprobs.empty()) out.push_back(one);
  }
  return out;
}

class TrlGrpo : public testing::TestWithParam<Case> {
 protected:
  void TearDown() override {
    fs::remove_all(out_);
    for (const char* ending : {".yaml", ".jsonl"}) fs::remove(out_.string() + ending);
  }

  Recorder run(const config::Plan& plan) const {
    Recorder recorder;
    const std::atomic<bool> stop = false;
    train::begin_run(*train::open_run(plan, recorder), recorder, stop);
    return recorder;
  }

  fs::path out_ = fs::temp_directory_path() /
                  ("hone_grpo_" + GetParam().name + "_" + GetParam().form + "_" + std::to_string(getpid()));
};

void compare_steps(const Json& golden, const Recorder& ours, Margin& first, Margin& later) {
  std::set<std::string> names;  // what TRL logs anywhere in this run
  for (const Json& step : golden.at("steps")) {
    for (const auto& [name, value] : step.items()) names.insert(name);
  }
  ASSERT_EQ(ours.steps.size(), golden.at("steps").size());
  for (std::size_t i = 0; i < ours.steps.size(); ++i) {
    const Json& theirs = golden.at("steps").at(i);
    Margin& margin = i == 0 ? first : later;
    for (const std::string& name : names) {
      const std::string at = name + " of step " + std::to_string(i + 1);
      const auto found = ours.steps[i].find(name);
      const bool is_ours = found != ours.steps[i].end() && !std::isnan(found->second);
      // num_tokens stands in every one of our steps
      if (name == "num_tokens" && !theirs.contains(name)) continue;
      const bool is_theirs = theirs.contains(name) && !theirs.at(name).is_null();
      EXPECT_EQ(is_ours, is_theirs) << at;
      if (!is_ours || !is_theirs) continue;
      const auto value = theirs.at(name).get<double>();
      margin.note(at, std::abs(found->second - value) / std::max(std::abs(value), kSmall));
    }
  }
}

void compare_tensors(const std::string& name, const config::Plan& plan, const fs::path& out, double grad_norm,
                     Margin& first, Margin& later) {
  const Golden theirs(fixture(name, ".safetensors"));
  const at::Tensor gradient = first_gradient(out, grad_norm, plan);
  const Golden after(out / train::kAdapterWeightsFile);
  const bool all = !name.starts_with("masked_") && name != "tools";  // those have the gradients of one layer
  std::int64_t begin = 0, compared = 0;
  for (const auto& tensor : trained_tensors(plan)) {
    const std::int64_t size = tensor.value.numel();
    if (all || theirs.has("grad." + tensor.name)) {
      first.compare("gradient of " + tensor.name,
                    gradient.narrow(0, begin, size).reshape(tensor.value.sizes()),
                    theirs.tensor("grad." + tensor.name));
      compared += 1;
    }
    begin += size;
    if (theirs.has("after." + tensor.name)) {
      later.compare("after the last step: " + tensor.name, after.tensor(tensor.name),
                    theirs.tensor("after." + tensor.name));
    }
  }
  EXPECT_EQ(begin, gradient.numel());
  EXPECT_GT(compared, 0);
  EXPECT_TRUE(!all || theirs.file().tensors().size() % trained_tensors(plan).size() == 0);
}

TEST_P(TrlGrpo, EveryStepEqualsTrl) {
  const auto& [name, form] = GetParam();
  const Json golden = read_golden(name);
  const config::Plan plan = plan_of(golden, fixture(name, ".jsonl"), out_, form);
  const Recorder ours = run(plan);
  Margin first(name + ", " + form + ", step 1", kFirstBound);
  Margin later(name + ", " + form + ", later", kLaterBound);
  compare_steps(golden, ours, first, later);
  ASSERT_FALSE(ours.steps.empty());
  compare_tensors(name, plan, out_, ours.steps.front().at("grad_norm"), first, later);
}

std::string name_of(const testing::TestParamInfo<Case>& one) {
  return form_name(one.param.name, one.param.form, "shared");
}
INSTANTIATE_TEST_SUITE_P(Cases, TrlGrpo, testing::ValuesIn(cases_and_forms()), name_of);

// Without ref_logprobs in the file: hone computes what TRL recorded. Of a continued adapter the reference is
// the adapter that the run began with.
class TrlGrpoReference : public TrlGrpo {};

TEST_P(TrlGrpoReference, OwnReferenceEqualsTrl) {
  const auto& [name, form] = GetParam();
  const Json golden = read_golden(name);
  const fs::path rollouts = out_.string() + ".jsonl";
  std::ofstream file(rollouts);
  for (train::RolloutBatch& batch : train::read_rollouts(fixture(name, ".jsonl"))) {
    for (train::RolloutSample& sample : batch.samples) sample.ref_logprobs.clear();
    file << base::dump_json(train::to_json(batch)) << "\n";
  }
  file.close();
  const Recorder ours = run(plan_of(golden, rollouts, out_, form));
  Margin first(name + ", " + form + ", own reference, step 1", kFirstBound);
  Margin later(name + ", " + form + ", own reference, later", kLaterBound);
  compare_steps(golden, ours, first, later);
}
INSTANTIATE_TEST_SUITE_P(Cases, TrlGrpoReference, testing::ValuesIn(cases_with_reference()), name_of);

// The prompts of each generation batch, and the batch that each step trains on.
TEST(TrlGrpoOrder, PromptsAreDrawnAsTrlDoes) {
  for (const std::string& name : cases()) {
    const Json golden = read_golden(name);
    const Json& options = golden.at("options");
    const auto option = [&](const char* key, std::int64_t otherwise) {
      return options.value(key, otherwise);
    };
    const std::int64_t accumulation = option("gradient_accumulation_steps", 1);
    const std::int64_t slices = option("steps_per_generation", accumulation);
    const std::int64_t generations = option("num_generations", 8);
    const train::PolicyOrder order(
        {.prompts = 12,
         .prompts_per_generation = option("per_device_train_batch_size", 8) * slices / generations,
         .steps_per_generation = slices,
         .num_iterations = option("num_iterations", 1),
         .accumulation = accumulation,
         .seed = static_cast<std::uint64_t>(option("seed", 42))});
    const auto batches = train::read_rollouts(fixture(name, ".jsonl"));
    for (std::size_t at = 0; at < batches.size(); ++at) {
      std::vector<std::int64_t> rows;
      for (const train::RolloutPrompt& prompt : batches[at].prompts) rows.push_back(prompt.row);
      EXPECT_EQ(order.prompts(static_cast<std::int64_t>(at)), rows) << name << ", generation " << at;
    }
    std::int64_t generated = -1;
    for (const Json& step : golden.at("steps")) {
      const auto at = step.at("step").get<std::int64_t>();
      const std::int64_t used = order.step_slices(at - 1).back().generation;
      EXPECT_EQ(used > generated, step.contains("reward")) << name << ", step " << at;
      generated = used;
      EXPECT_NEAR(order.epoch_after(at), step.at("epoch").get<double>(), 1e-9) << name << ", step " << at;
    }
  }
}

}  // namespace trl_grpo_test
}  // namespace hone::parity
