// Whole CPO and ORPO runs against TRL 1.16, step by step: every metric that TRL logs, the first step's
// gradients, the final adapter (fp32). Goldens: record_trl_cpo.py and record_trl_orpo.py; their logits/* are
// hone's own (learn/reference_free_loss.h), computed from TRL's logits.
#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <atomic>

#include "config/parse.h"
#include "parity/form_name.h"
#include "parity/recorded_run.h"
#include "train/opening/open_run.h"

namespace hone::parity {
namespace trl_cpo_test {

namespace fs = base::fs;
using base::Json;

// Losses are of the order of 10 here, margins differences of sums of the order of 100.
constexpr double kSmall = 0.1;

struct MethodCase {
  config::Method method;
  std::string folder;
  RecordedCase recorded;
};
std::ostream& operator<<(std::ostream& out, const MethodCase& one) {
  return out << one.folder << "/" << one.recorded;
}

std::vector<MethodCase> all_cases() {
  std::vector<MethodCase> out;
  for (const auto& [method, folder] :
       {std::pair{config::Method::kCpo, "trl_cpo"}, std::pair{config::Method::kOrpo, "trl_orpo"}}) {
    for (const RecordedCase& one : recorded_cases(folder, {"shared", "explicit", "plain"}))
      out.push_back({method, folder, one});
  }
  return out;
}

std::string name_of(const MethodCase& one) {
  return one.folder + "_" + form_name(one.recorded.name, one.recorded.form, "shared");
}

class TrlCpo : public testing::TestWithParam<MethodCase> {
 protected:
  void TearDown() override {
    fs::remove_all(out_);
    fs::remove(out_.string() + ".yaml");
  }

  config::Plan make_plan(const Json& golden) const {
    const fs::path root = HONE_SOURCE_DIR;
    Json options = golden.at("options");
    options["model_name_or_path"] = (root / golden.at("model").get<std::string>()).string();
    options["dataset_name"] = (root / golden.at("data").get<std::string>()).string();
    if (!golden.at("adapter").is_null()) {
      options["adapter_name_or_path"] = (root / golden.at("adapter").get<std::string>()).string();
    } else {
      options["trainable_token_indices"] = golden.at("tokens");
      options["lora_r"] = 4;
      options["lora_alpha"] = 8;
      options["lora_target_modules"] = "all-linear";
    }
    options["use_peft"] = true;
    options["output_dir"] = out_.string();
    options["logging_steps"] = 1;
    options["save_strategy"] = "steps";
    options["save_steps"] = 1;
    if (options.contains("eval_strategy"))
      options["eval_dataset"] = recorded_file(GetParam().folder, "eval", ".jsonl").string();
    const fs::path file = out_.string() + ".yaml";
    std::ofstream(file) << base::dump_json(options);
    config::Plan plan = config::parse_run(GetParam().method, {"--config", file.string()});
    const std::string& form = GetParam().recorded.form;
    plan.layer_form = form == "plain" ? config::LayerForm::kAutograd : config::LayerForm::kFused;
    plan.share_prompt = form == "shared";
    return plan;
  }

  fs::path out_ =
      fs::temp_directory_path() / ("hone_" + name_of(GetParam()) + "_" + std::to_string(getpid()));
};

TEST_P(TrlCpo, EveryStepEqualsTrl) {
  const auto& [method, folder, recorded] = GetParam();
  const Json golden = recorded_json(folder, recorded.name);
  const Golden theirs(recorded_file(folder, recorded.name, ".safetensors"));
  LogKeeper ours;
  const std::atomic<bool> stop = false;
  const std::unique_ptr<train::OpenedRun> run = train::open_run(make_plan(golden), ours);
  if (golden.at("adapter").is_null()) {  // TRL's values before its first step
    const at::NoGradGuard no_grad;
    for (const auto& tensor : run->adapter->tensors())
      at::Tensor(tensor.value).copy_(theirs.tensor("before." + tensor.name));
  }
  train::begin_run(*run, ours, stop);
  Margin first(name_of(GetParam()) + ", step 1", kFirstStepBound);
  Margin later(name_of(GetParam()) + ", later", kLaterStepBound);
  compare_logs(golden.at("steps"), ours.steps, kSmall, first, later);
  compare_logs(golden.at("evals"), ours.evals, kSmall, later, later);
  ASSERT_FALSE(ours.steps.empty());
  compare_recorded_tensors(theirs, *run, out_, ours.steps.front().at("grad_norm"), first, later);
}

INSTANTIATE_TEST_SUITE_P(Cases, TrlCpo, testing::ValuesIn(all_cases()),
                         [](const auto& one) { return name_of(one.param); });

}  // namespace trl_cpo_test
}  // namespace hone::parity
