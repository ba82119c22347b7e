// Whole runs of full fine-tuning against TRL 1.16, step by step: every metric that TRL logs, the first step's gradients
// and the final weights (fp32), of every method. Goldens: record_trl_full.py.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "base/files/file.h"
#include "base/json.h"
#include "config/parse.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "parity/form_name.h"
#include "parity/golden.h"
#include "parity/recorded_run.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::parity {
namespace trl_full_test {

namespace fs = base::fs;
using base::Json;

constexpr const char* kFolder = "trl_full";
constexpr double kSmall = 0.1;  // metrics are of the order of 1; below this they are compared absolutely

config::Method method_of(const std::string& name) {
  using config::Method;
  const std::map<std::string, Method> methods = {
      {"sft", Method::kSft},       {"dpo", Method::kDpo},   {"kto", Method::kKto},
      {"reward", Method::kReward}, {"grpo", Method::kGrpo}, {"rloo", Method::kRloo},
      {"cpo", Method::kCpo},       {"orpo", Method::kOrpo}, {"online_dpo", Method::kOnlineDpo}};
  return methods.at(name);
}

class TrlFull : public testing::TestWithParam<RecordedCase> {
 protected:
  void TearDown() override {
    fs::remove_all(out_);
    fs::remove(out_.string() + ".yaml");
    fs::remove(out_.string() + ".spectrum");
  }

  config::Plan make_plan(const Json& golden) const {
    const fs::path root = HONE_SOURCE_DIR;
    const auto& [name, form] = GetParam();
    Json options = golden.at("options");
    options["model_name_or_path"] = GetParam().is_real()
                                        ? smollm2_gguf().string()
                                        : (root / golden.at("model").get<std::string>()).string();
    // as the recorder: Qwen2's class splits text as Qwen2 does, whatever tokenizer.json in its model's folder
    // says
    if (!GetParam().is_real())
      options["tokenizer_name_or_path"] = (root / "tests/fixtures/parity/tiny_llama").string();
    options["dataset_name"] = (root / golden.at("data").get<std::string>()).string();
    options["use_peft"] = false;
    options["output_dir"] = out_.string();
    options["logging_steps"] = 1;
    options["save_strategy"] = GetParam().is_real() ? "no" : "steps";
    options["save_steps"] = 1;
    if (options.contains("eval_strategy"))
      options["eval_dataset"] = (root / "tests/fixtures/parity/sft/eval_text.jsonl").string();
    if (config::samples(method_of(golden.at("method"))))
      options["replay"] = recorded_file(kFolder, name, ".jsonl").string();
    if (golden.contains("unfrozen")) {
      std::ofstream file(out_.string() + ".spectrum");
      file << "unfrozen_parameters:\n# model.norm layers\n";
      for (const Json& pattern : golden.at("unfrozen")) file << "- " << pattern.get<std::string>() << "\n";
      options["spectrum_config_path"] = out_.string() + ".spectrum";
    }
    const fs::path file = out_.string() + ".yaml";
    std::ofstream(file) << base::dump_json(options);
    config::Plan plan = config::parse_run(method_of(golden.at("method")), {"--config", file.string()});
    plan.layer_form = form == "plain" ? config::LayerForm::kAutograd : config::LayerForm::kFused;
    plan.share_prompt = form == "shared";
    return plan;
  }

  fs::path out_ = fs::temp_directory_path() /
                  ("hone_full_" + GetParam().name + "_" + GetParam().form + "_" + std::to_string(getpid()));
};

// The recorder's IDS through the model that the run wrote.
at::Tensor logits_of(const fs::path& folder) {
  const model::CausalLm model(*model::open_weights(folder), {});
  const at::Tensor ids = at::tensor({1, 17, 201, 45, 45, 9, 260, 33}, at::kLong);
  const at::NoGradGuard no_grad;
  return model.logits(model.hidden(single(ids, ids), {}));
}

// The rows of reward models have a pair of equal sides, whose accuracy rounding decides, with the processor.
Json without_accuracy(Json records) {
  for (Json& record : records) {
    record.erase("accuracy");
    record.erase("eval_accuracy");
  }
  return records;
}

TEST_P(TrlFull, EveryStepEqualsTrl) {
  const auto& [name, form] = GetParam();
  Json golden = recorded_json(kFolder, name);
  if (golden.at("method") == "reward") {
    for (const char* records : {"steps", "evals"}) golden[records] = without_accuracy(golden.at(records));
  }
  if (GetParam().is_real() && smollm2_gguf().empty())
    GTEST_SKIP() << "not run: ./quickstart or ./test fetches SmolLM2";
  const config::Plan plan = make_plan(golden);
  LogKeeper ours;
  const std::atomic<bool> stop = false;
  const std::unique_ptr<train::OpenedRun> run = train::open_run(plan, ours);
  train::begin_run(*run, ours, stop);
  Margin first(name + ", " + form + ", step 1", kFirstStepBound);
  Margin later(name + ", " + form + ", later", kRealModelBound);
  compare_logs(golden.at("steps"), ours.steps, kSmall, first, later);
  compare_logs(golden.at("evals"), ours.evals, kSmall, later, later);
  ASSERT_FALSE(ours.steps.empty());
  const fs::path tensors = recorded_file(kFolder, name, ".safetensors");
  if (!fs::exists(tensors)) return;
  const Golden theirs(tensors);
  if (theirs.has("logits")) {
    later.compare("logits of the saved model", logits_of(out_), theirs.tensor("logits"));
  }
  compare_recorded_tensors(theirs, *run, out_, ours.steps.front().at("grad_norm"), first, later,
                           train::kModelWeightsFile);
}

INSTANTIATE_TEST_SUITE_P(Cases, TrlFull,
                         testing::ValuesIn(recorded_cases(kFolder, {"shared", "explicit", "plain"})),
                         [](const auto& one) { return form_name(one.param.name, one.param.form, "shared"); });

}  // namespace trl_full_test
}  // namespace hone::parity
