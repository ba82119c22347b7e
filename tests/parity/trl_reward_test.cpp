// Whole runs of reward-model training against TRL 1.16, step by step: every metric that TRL logs, the first
// step's gradients, the final adapter with its head (fp32). Goldens: record_trl_reward.py; those of real
// pairs need HONE_DATA and SmolLM2's GGUF.
#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <atomic>

#include "config/parse.h"
#include "parity/form_name.h"
#include "parity/recorded_run.h"
#include "train/opening/model_reward.h"
#include "train/opening/open_run.h"
#include "train/opening/score_source.h"

namespace hone::parity {
namespace trl_reward_test {

namespace fs = base::fs;
using base::Json;

constexpr const char* kFolder = "trl_reward";
constexpr double kSmall = 0.1, kRealSmall = 1;

class TrlReward : public testing::TestWithParam<RecordedCase> {
 protected:
  void TearDown() override {
    fs::remove_all(out_);
    for (const char* ending : {".yaml", ".jsonl"}) fs::remove(out_.string() + ending);
  }

  config::Plan make_plan(const Json& golden) const {
    const fs::path root = HONE_SOURCE_DIR;
    const bool real = GetParam().is_real();
    Json options = golden.at("options");
    if (real) {
      std::ofstream file(out_.string() + ".jsonl");
      for (const std::string& line : first_real_pairs(golden.at("data").get<std::int64_t>()))
        file << line << "\n";
    }
    options["model_name_or_path"] =
        real ? smollm2_gguf().string() : (root / golden.at("model").get<std::string>()).string();
    options["dataset_name"] =
        real ? out_.string() + ".jsonl" : (root / golden.at("data").get<std::string>()).string();
    options["use_peft"] = true;
    options["lora_r"] = real ? 8 : 4;
    options["lora_alpha"] = real ? 16 : 8;
    options["lora_target_modules"] = "all-linear";
    options["output_dir"] = out_.string();
    options["logging_steps"] = 1;
    options["save_strategy"] = "steps";
    options["save_steps"] = 1;
    if (options.contains("eval_strategy")) {
      options["eval_dataset"] = recorded_file(kFolder, "eval", ".jsonl").string();
    }
    const fs::path file = out_.string() + ".yaml";
    std::ofstream(file) << base::dump_json(options);
    config::Plan plan = config::parse_run(config::Method::kReward, {"--config", file.string()});
    const bool plain = GetParam().form == "plain";
    plan.layer_form = plain ? config::LayerForm::kAutograd : config::LayerForm::kFused;
    plan.share_prompt = GetParam().form == "shared";
    return plan;
  }

  fs::path out_ = fs::temp_directory_path() /
                  ("hone_reward_" + GetParam().name + "_" + GetParam().form + "_" + std::to_string(getpid()));
};

// common.py's rule_tensor of the adapter's linear `module`.
at::Tensor rule(std::int64_t module, bool is_a, at::IntArrayRef shape) {
  const at::Tensor i = at::arange(shape[0], at::kDouble).unsqueeze(1), j = at::arange(shape[1], at::kDouble);
  const at::Tensor angle = 0.37 * static_cast<double>(module) + 0.11 * i + 0.013 * j;
  return 0.02 * (is_a ? angle.sin() : angle.cos());
}

// TRL's values before its first step.
void set_start(const adapters::Adapter& adapter, const Golden& theirs) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < adapter.tensors().size(); ++i) {
    const auto& [name, value] = adapter.tensors()[i];
    at::Tensor to = value;
    if (theirs.has("before." + name)) {
      to.copy_(theirs.tensor("before." + name));
    } else {
      to.copy_(rule(static_cast<std::int64_t>(i / 2), i % 2 == 0, value.sizes()));
    }
  }
}

TEST_P(TrlReward, EveryStepEqualsTrl) {
  const auto& [name, form] = GetParam();
  const bool real = GetParam().is_real();
  const Json golden = recorded_json(kFolder, name);
  if (real && real_inputs_absent()) GTEST_SKIP() << "needs HONE_DATA and SmolLM2";
  LogKeeper ours;
  const std::atomic<bool> stop = false;
  const std::unique_ptr<train::OpenedRun> run = train::open_run(make_plan(golden), ours);
  const Golden theirs(recorded_file(kFolder, name, ".safetensors"));
  ASSERT_TRUE(run->adapter->score().defined());
  if (name.starts_with("folder")) {  // the head is the folder's, before anybody sets it
    EXPECT_TRUE(
        at::equal(run->adapter->score().detach(), theirs.tensor("before.base_model.model.score.weight")));
  }
  set_start(*run->adapter, theirs);
  train::begin_run(*run, ours, stop);
  Margin first(name + ", " + form + ", step 1", real ? kRealModelBound : kFirstStepBound);
  Margin later(name + ", " + form + ", later", real ? kRealModelBound : kLaterStepBound);
  const double small = real ? kRealSmall : kSmall;
  compare_logs(golden.at("steps"), ours.steps, small, first, later);
  compare_logs(golden.at("evals"), ours.evals, small, later, later);
  ASSERT_FALSE(ours.steps.empty());
  compare_recorded_tensors(theirs, *run, out_, ours.steps.front().at("grad_norm"), first, later);
}

INSTANTIATE_TEST_SUITE_P(Cases, TrlReward,
                         testing::ValuesIn(recorded_cases(kFolder, {"shared", "explicit", "plain"})),
                         [](const auto& one) { return form_name(one.param.name, one.param.form, "shared"); });

// Read and written again, TRL's files are the same files.
TEST(TrlRewardAdapter, HasPeftsFiles) {
  const fs::path recorded = recorded_file(kFolder, "adapter", "");
  const fs::path folder = fs::temp_directory_path() / ("hone_reward_files_" + std::to_string(getpid()));
  fs::remove_all(folder);
  const train::DecoderSource source(model::open_weights(fs::path(HONE_FIXTURES) / "parity" / "tiny_llama"));
  model::CausalLm model(source, {});
  adapters::Adapter::load(model, recorded).save(folder);
  const auto config = [](const fs::path& of) {
    return base::parse_json(base::read_text(of / "adapter_config.json"), "adapter_config.json");
  };
  const Json ours = config(folder), theirs = config(recorded);
  for (const auto& [key, value] : theirs.items()) EXPECT_EQ(ours.at(key), value) << key;
  EXPECT_EQ(ours.size(), theirs.size());
  const Golden written(folder / train::kAdapterWeightsFile), read(recorded / train::kAdapterWeightsFile);
  EXPECT_EQ(written.file().tensors().size(), read.file().tensors().size());
  for (const auto& tensor : read.file().tensors())
    EXPECT_TRUE(at::equal(written.tensor(tensor.name), read.tensor(tensor.name))) << tensor.name;
  fs::remove_all(folder);
}

// What TRL saved after case `bt` is a reward of GRPO's here, with transformers' scores.
TEST(TrlRewardAdapter, IsAReward) {
  const fs::path recorded = recorded_file(kFolder, "adapter", "");
  const fs::path folder = fs::temp_directory_path() / ("hone_reward_adapter_" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::copy(recorded, folder);
  Json config = base::parse_json(base::read_text(folder / "adapter_config.json"), "adapter_config.json");
  config["base_model_name_or_path"] =
      (fs::path(HONE_SOURCE_DIR) / config.at("base_model_name_or_path").get<std::string>()).string();
  base::write_file_atomic(folder / "adapter_config.json", base::dump_json(config, 2));
  const auto reward = train::open_model_reward(folder.string(), config::Precision::kFloat32);
  const Json golden = base::parse_json(base::read_text(folder / "scores.json"), "scores.json");
  rewards::Request request;
  for (const Json& text : golden.at("texts")) {
    request.prompts.push_back(text.get<std::string>());
    request.completions.push_back("");
  }
  const rewards::Scores scores = reward->score(request);
  Margin margin("scores of TRL's adapter", kFirstStepBound);
  for (std::size_t i = 0; i < scores.values.size(); ++i)
    margin.compare("text " + std::to_string(i), scores.values[i], golden.at("scores").at(i).get<double>());
  fs::remove_all(folder);
}

}  // namespace trl_reward_test
}  // namespace hone::parity
