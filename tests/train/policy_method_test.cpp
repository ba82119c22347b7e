// GroupMethod step by step, with a reward of this test: the sampler is the trainer for as long as a run goes
// on, and the base never changes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/files/crc32c.h"
#include "base/process/instruction_level.h"
#include "config/parse.h"
#include "learn/adamw.h"
#include "model/files/weight_source.h"
#include "train/methods/grpo/grpo.h"
#include "train/opening/memory_inputs.h"
#include "train/opening/open_model.h"
#include "train/opening/run_setup.h"
#include "train/steps/group_method.h"

namespace hone::train {
namespace policy_method_test {

namespace fs = base::fs;

const fs::path kFixtures = fs::path(HONE_FIXTURES) / "parity";

// Few different tokens are better; some groups have equal rewards.
class FewTokens final : public rewards::Reward {
 public:
  const std::string& name() const override { return name_; }
  rewards::Scores score(const rewards::Request& request) override {
    rewards::Scores out;
    for (const auto& ids : request.completion_ids) {
      const std::size_t pairs = ids.size() / 2;
      out.values.push_back(-static_cast<double>(pairs));
    }
    return out;
  }

 private:
  std::string name_ = "few_tokens";
};

std::vector<std::uint32_t> hashes(const model::CausalLm& model) {
  std::vector<std::uint32_t> out;
  for (const auto& [name, tensor] : model.frozen_tensors()) {
    const at::Tensor x = tensor.contiguous();
    out.push_back(base::crc32c({static_cast<const std::byte*>(x.const_data_ptr()), x.nbytes()}));
  }
  return out;
}

// A run without a loop around it.
class Steps {
 public:
  explicit Steps(const std::vector<std::string>& more) : plan_(make_plan(more)) {
    const auto source = model::open_weights(plan_.model_name_or_path);
    model_ =
        std::make_unique<model::CausalLm>(*source, dtype_policy(plan_.precision), model::Storage::kPacked);
    adapters::LoraConfig lora;
    lora.r = 8;
    lora.alpha = 16;
    lora.target_modules = {"all-linear"};
    lora.target_is_regex = true;
    adapter_.emplace(adapters::Adapter::attach(*model_, lora, 42));
    optimizer_ = learn::AdamWState::zeros_like(adapter_->flat());
    opened_.emplace(open_text(plan_));
    prompts_.rows = data::read_prompt_rows(base::fs::path(plan_.dataset_name));
    prompts_.tokens =
        data::tokenize_prompts(prompts_.rows, opened_->tokenizer, opened_->chat_template.get(), {});
    rewards_.push_back(std::make_unique<FewTokens>());
    rollouts_.emplace(sampling_options(plan_, model_->config(), opened_->tokenizer), *model_, prompts_,
                      opened_->tokenizer, rewards_);
    const config::PolicyPlan& policy = plan_.policy;
    method_.emplace(
        SamplingParts{.plan = plan_, .model = *model_, .source = *rollouts_, .listener = silent_},
        grpo::kOpening.group,
        PolicyOrder({.prompts = static_cast<std::int64_t>(prompts_.rows.size()),
                     .prompts_per_generation = policy.generation_batch_size / policy.num_generations,
                     .steps_per_generation = policy.steps_per_generation,
                     .num_iterations = policy.num_iterations,
                     .accumulation = plan_.gradient_accumulation_steps}),
        std::map<std::string, std::string>());
  }

  StepLoss step(std::int64_t index) {
    adapter_->zero_gradient();
    StepLoss out = method_->backward(index);
    learn::clip_gradient(adapter_->flat_gradient(), 1.0);
    learn::adamw_step(adapter_->flat(), adapter_->flat_gradient(), optimizer_, {}, 2e-2);
    method_->on_step(index);
    return out;
  }
  const model::CausalLm& model() const { return *model_; }

 private:
  static config::Plan make_plan(const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "--model_name_or_path",
        (kFixtures / "tiny_llama").string(),
        "--dataset_name",
        (kFixtures / "trl_grpo" / "prompts.jsonl").string(),
        "--use_peft",
        "--reward_funcs",
        "length",
        "--per_device_train_batch_size",
        "4",
        "--num_generations",
        "4",
        "--max_completion_length",
        "7",
        "--output_dir",
        "unused",
        "--generation_kwargs",
        R"({"eos_token_id": [2, 10, 18, 26, 34, 42, 50, 58, 66, 74, 82, 90, 98, 106, 114]})"};
    words.insert(words.end(), more.begin(), more.end());
    return config::parse_run(config::Method::kGrpo, words);
  }

  config::Plan plan_;
  std::unique_ptr<model::CausalLm> model_;
  std::optional<adapters::Adapter> adapter_;
  learn::AdamWState optimizer_;
  std::optional<OpenedText> opened_;
  PolicyPrompts prompts_;
  std::vector<std::unique_ptr<rewards::Reward>> rewards_;
  std::optional<LiveRollouts> rollouts_;
  RunListener silent_;
  std::optional<GroupMethod> method_;
};

double value_of(const StepLoss& step, const std::string& name) {
  for (const auto& [key, value] : step.metrics) {
    if (key == name) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// The largest gap of `count` steps; and the base afterwards is the base before.
double largest_gap(const std::vector<std::string>& more, std::int64_t count) {
  Steps steps(more);
  const std::vector<std::uint32_t> before = hashes(steps.model());
  double gap = 0;
  std::int64_t known = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double one = value_of(steps.step(i), "ratio_gap");
    if (std::isnan(one)) continue;  // every group was dead
    gap = std::max(gap, one);
    known += 1;
  }
  EXPECT_GT(known, count / 4);
  EXPECT_EQ(hashes(steps.model()), before);
  return gap;
}

TEST(PolicyMethod, TheSamplerIsTheTrainerAfterTwoHundredSteps) {
  EXPECT_LT(largest_gap({"--bf16", "false"}, 200), 1e-4);
}

// Bit for bit where our kernels promise it (ops/gemm.h, ops/attention.h).
TEST(PolicyMethod, TheSamplerIsTheTrainerInBf16) {
  const double gap = largest_gap({"--dtype", "bfloat16"}, 200);
  if (base::instruction_level() >= base::InstructionLevel::kAvx2) {
    EXPECT_EQ(gap, 0);
  } else {
    EXPECT_LT(gap, 0.1);
  }
}

TEST(PolicyMethod, DeadGroupsAreSkippedAndCounted) {
  Steps steps({"--bf16", "false", "--gradient_accumulation_steps", "3", "--max_completion_length", "1"});
  const StepLoss step = steps.step(0);  // one token each: every reward is equal
  EXPECT_EQ(value_of(step, "dead_groups"), 1);
  EXPECT_EQ(value_of(step, "skipped_rows"), 12);
  EXPECT_EQ(step.loss, 0);
  EXPECT_GT(value_of(step, "entropy"), 0);  // from the sampler's record
}

}  // namespace policy_method_test
}  // namespace hone::train
