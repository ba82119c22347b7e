// Every method on the stand-in gives what it gives on the CPU, to 1e-5 in fp32, and a step crosses between
// host and device as often as it did when this was written: another copy, or another wait for the device,
// fails here.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "standin/tiny_runs.h"
#include "train/open_run.h"

namespace hone::standin {
namespace methods_test {

namespace fs = base::fs;
using config::Method;

const fs::path kFixtures = fs::path(HONE_FIXTURES) / "parity";

struct Case {
  std::string name;
  Method method = Method::kSft;
  std::string data;                // below kFixtures
  std::vector<std::string> words;  // beside the common ones
  // Of the second step, of all its micro-batches and with its part of generation.
  Counts a_step = {};
};

std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << one.name;
}

std::vector<std::string> options_of(const Case& one) {
  std::vector<std::string> out = {
      "--model_name_or_path", (kFixtures / "tiny_llama").string(), "--dataset_name",
      (kFixtures / one.data).string(), "--max_steps", "3", "--save_strategy", "no", "--learning_rate", "1e-3",
      "--lora_target_modules", "all-linear", "--lora_dropout", "0",
      // Else AdamW moves an element whose gradient is rounding as far as any other.
      "--adam_epsilon", "1e-2"};
  out.insert(out.end(), one.words.begin(), one.words.end());
  return out;
}

std::vector<Case> sft_cases() {
  const std::string rows = "sft/text.jsonl";
  const std::vector<std::string> two = {"--per_device_train_batch_size", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), two.begin(), two.end());
    return more;
  };
  return {
      {.name = "sft", .data = rows, .words = two, .a_step = {.to_device = 4, .to_host = 2}},
      {.name = "sft_dropout",
       .data = rows,
       .words = with({"--lora_dropout", "0.1"}),
       .a_step = {.to_device = 43, .to_host = 2}},
      {.name = "sft_dora",
       .data = rows,
       .words = with({"--use_dora"}),
       .a_step = {.to_device = 4, .to_host = 2}},
      {.name = "sft_pissa",
       .data = rows,
       .words = with({"--init_lora_weights", "pissa_niter_4"}),
       .a_step = {.to_device = 4, .to_host = 2}},
      {.name = "sft_token_rows",
       .data = rows,
       .words = with({"--trainable_token_indices", "224", "3", "25"}),
       .a_step = {.to_device = 13, .to_host = 3}},
      {.name = "sft_whole_modules",
       .data = rows,
       .words = with({"--lora_modules_to_save", "lm_head", "embed_tokens", "norm"}),
       .a_step = {.to_device = 5, .to_host = 2}},
      {.name = "sft_4bit",
       .data = rows,
       .words = with({"--load_in_4bit"}),
       .a_step = {.to_device = 4, .to_host = 2}},
      {.name = "sft_recompute",
       .data = rows,
       .words = with({"--recompute", "layer"}),
       .a_step = {.to_device = 4, .to_host = 2}},
      {.name = "sft_plain",
       .data = rows,
       .words = with({"--layer_form", "plain"}),
       .a_step = {.to_device = 4, .to_host = 2}},
      {.name = "sft_clipped",
       .data = rows,
       .words = with({"--max_grad_norm", "0.01"}),
       .a_step = {.to_device = 4, .to_host = 2}},
  };
}

// Every eighth token ends a completion: the tiny model would draw its one end token too rarely.
std::string many_stops() {
  std::string ids;
  for (int id = 2; id < 384; id += 8) ids += (ids.empty() ? "" : ", ") + std::to_string(id);
  return "{\"eos_token_id\": [" + ids + "]}";
}

std::vector<Case> preference_cases() {
  const std::vector<std::string> two = {"--per_device_train_batch_size", "2"};
  const std::string adapter = (kFixtures / "tiny_llama" / "adapter").string();
  return {
      {.name = "dpo",
       .method = Method::kDpo,
       .data = "trl_dpo/explicit.jsonl",
       .words = two,
       .a_step = {.to_device = 17, .to_host = 3}},
      {.name = "dpo_weighted",
       .method = Method::kDpo,
       .data = "trl_dpo/explicit.jsonl",
       .words = {"--per_device_train_batch_size", "2", "--use_weighting", "--adapter_name_or_path", adapter},
       .a_step = {.to_device = 17, .to_host = 3}},
      {.name = "kto",
       .method = Method::kKto,
       .data = "trl_kto/rows.jsonl",
       .words = two,
       .a_step = {.to_device = 17, .to_host = 4}},
      {.name = "cpo",
       .method = Method::kCpo,
       .data = "trl_cpo/explicit.jsonl",
       .words = two,
       .a_step = {.to_device = 9, .to_host = 2}},
      {.name = "orpo",
       .method = Method::kOrpo,
       .data = "trl_orpo/explicit.jsonl",
       .words = two,
       .a_step = {.to_device = 9, .to_host = 2}},
      {.name = "reward",
       .method = Method::kReward,
       .data = "trl_reward/explicit.jsonl",
       .words = two,
       .a_step = {.to_device = 4, .to_host = 2}},
  };
}

std::vector<Case> policy_cases() {
  const std::string prompts = "trl_grpo/prompts.jsonl";
  const auto sampling = [](std::vector<std::string> more) {
    std::vector<std::string> out = {"--reward_funcs", "length(target=6)", "--generation_kwargs",
                                    many_stops()};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  const auto group = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--per_device_train_batch_size", "8", "--num_generations", "4",
                             "--max_completion_length", "6"});
    return sampling(std::move(more));
  };
  return {
      {.name = "grpo",
       .method = Method::kGrpo,
       .data = prompts,
       .words = group({}),
       .a_step = {.to_device = 26, .to_host = 8}},
      {.name = "grpo_everything",
       .method = Method::kGrpo,
       .data = prompts,
       .words = group({"--beta", "0.1", "--entropy_coef", "0.01", "--top_entropy_quantile", "0.5"}),
       .a_step = {.to_device = 51, .to_host = 10}},
      {.name = "grpo_reward_model",
       .method = Method::kGrpo,
       .data = prompts,
       .words = {"--per_device_train_batch_size", "4", "--num_generations", "2", "--max_completion_length",
                 "4", "--reward_funcs", (kFixtures / "rewards" / "tiny_reward").string()},
       .a_step = {.to_device = 24, .to_host = 8}},
      {.name = "rloo",
       .method = Method::kRloo,
       .data = prompts,
       .words = group({"--beta", "0"}),  // else KLs of 0 and of 1e-7 make groups with and without a gradient
       .a_step = {.to_device = 26, .to_host = 8}},
      {.name = "online_dpo",
       .method = Method::kOnlineDpo,
       .data = prompts,
       .words = sampling({"--per_device_train_batch_size", "4", "--max_new_tokens", "6"}),
       .a_step = {.to_device = 30, .to_host = 9}},
  };
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

class MethodsTest : public testing::TestWithParam<Case> {
 protected:
  void TearDown() override { fs::remove_all(root_); }

  Outcome run(const std::string& device) const {
    return run_tiny(tiny_plan(GetParam().method, device, root_ / device, options_of(GetParam())));
  }

  fs::path root_ = fs::temp_directory_path() / ("hone_standin_" + std::to_string(getpid()));
};

TEST_P(MethodsTest, IsTheCpusAndCrossesAsOftenAsBefore) {
  const Outcome cpu = run("cpu");
  const Outcome found = run(kName);
  expect_close(cpu, found, GetParam().name);
  EXPECT_EQ((cpu.after.back() - cpu.after.front()).operators, 0) << "the CPU's run touched the stand-in";
  ASSERT_EQ(found.after.size(), 3U);
  const Counts step = found.after[1] - found.after[0], &expected = GetParam().a_step;
  EXPECT_GT(step.operators, 100) << "the stand-in's run was elsewhere";
  EXPECT_EQ(step.to_device, expected.to_device);
  EXPECT_EQ(step.to_host, expected.to_host);
  EXPECT_EQ(step.scalars, expected.scalars);
  EXPECT_EQ(step.shapes, expected.shapes);
}

void expect_near(double found, double expected, const std::string& what) {
  EXPECT_NEAR(found, expected, 1e-5 * std::max(1.0, std::fabs(expected))) << what;
}

void expect_same_rehearsal(train::OpenedRun& cpu, train::OpenedRun& here,
                           const train::RehearsalRequest& request) {
  cpu.adapter->zero_gradient();
  here.adapter->zero_gradient();
  const train::Rehearsal a = cpu.method->rehearse(request), b = here.method->rehearse(request);
  expect_near(b.loss, a.loss, "loss");
  expect_near(b.nll, a.nll, "nll");
  EXPECT_EQ(b.tokens, a.tokens);
  EXPECT_EQ(b.scored, a.scored);
  EXPECT_LE(b.sampler_gap.value_or(0), 1e-5);
  const at::Tensor expected = cpu.adapter->flat_gradient(), found = here.adapter->flat_gradient().cpu();
  EXPECT_LE((found - expected).abs().max().item<double>(), 1e-5 * expected.abs().max().item<double>());
}

// What the doctor asks of a run before step 1, and an evaluation.
TEST_P(MethodsTest, RehearsesAndEvaluatesAsOnTheCpu) {
  std::vector<std::string> words = options_of(GetParam());
  if (!config::samples(GetParam().method)) {
    words.insert(words.end(),
                 {"--eval_dataset", (kFixtures / GetParam().data).string(), "--eval_strategy", "epoch"});
  }
  train::RunListener silent;
  const auto open = [&](const std::string& device) {
    return train::open_run(tiny_plan(GetParam().method, device, root_ / device, words), silent);
  };
  const auto cpu = open("cpu"), here = open(kName);
  expect_same_rehearsal(*cpu, *here, {.max_tokens = 64});
  expect_same_rehearsal(*cpu, *here, {.max_tokens = 64, .backward = false, .adapters_on = false});
  if (!cpu->method->has_evaluation()) return;
  const train::EvalFacts a = cpu->method->evaluate(), b = here->method->evaluate();
  ASSERT_EQ(b.metrics.size(), a.metrics.size());
  for (std::size_t i = 0; i < a.metrics.size(); ++i) {
    expect_near(b.metrics[i].second, a.metrics[i].second, a.metrics[i].first);
  }
}

INSTANTIATE_TEST_SUITE_P(Sft, MethodsTest, testing::ValuesIn(sft_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Preferences, MethodsTest, testing::ValuesIn(preference_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Policy, MethodsTest, testing::ValuesIn(policy_cases()), name_of);

class ResumeTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(root_); }

  config::Plan plan(const std::string& device, const std::string& name, bool resume = false) const {
    std::vector<std::string> words =
        options_of({.name = name, .data = "sft/text.jsonl", .words = {}, .a_step = {}});
    words.insert(words.end(), {"--save_strategy", "steps", "--save_steps", "2", "--weight_decay", "0.1"});
    if (resume) words.insert(words.end(), {"--resume_from_checkpoint", "true"});
    return tiny_plan(Method::kSft, device, root_ / name, words);
  }

  fs::path root_ = fs::temp_directory_path() / ("hone_standin_resume_" + std::to_string(getpid()));
};

TEST_F(ResumeTest, StoppedAndResumedIsBitEqualOnTheDevice) {
  const Outcome whole = run_tiny(plan(kName, "whole"));
  run_tiny(plan(kName, "parts"), /*stop_after=*/2);
  const Outcome resumed = run_tiny(plan(kName, "parts", /*resume=*/true));
  EXPECT_EQ(resumed.adapter, whole.adapter);
}

TEST_F(ResumeTest, ACheckpointGoesFromDeviceToCpu) {
  const Outcome whole = run_tiny(plan("cpu", "whole"));
  run_tiny(plan(kName, "parts"), /*stop_after=*/2);
  Outcome resumed = run_tiny(plan("cpu", "parts", /*resume=*/true));
  resumed.steps = whole.steps;  // it has made only the last
  expect_close(whole, resumed, "resumed on the CPU");
}

}  // namespace methods_test
}  // namespace hone::standin
