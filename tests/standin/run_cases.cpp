#include "standin/run_cases.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "model/files/gguf_write.h"
#include "model/files/weight_source.h"

namespace hone::standin {

using config::Method;

base::fs::path parity(const std::string& below) {
  return base::fs::path(HONE_FIXTURES) / "parity" / below;
}

std::string tiny_gguf() {
  struct Written {
    base::fs::path folder =
        base::fs::temp_directory_path() / ("hone_standin_gguf_" + std::to_string(getpid()));
    Written() {
      base::fs::create_directories(folder);
      model::write_gguf(*model::open_weights(parity("tiny_llama")), folder / "tiny.gguf",
                        model::GgufWeights::kQ8_0);
    }
    ~Written() { base::fs::remove_all(folder); }
  };
  static const Written written;
  return (written.folder / "tiny.gguf").string();
}

std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << one.name;
}

std::vector<std::string> options_of(const Case& one) {
  std::vector<std::string> out = {
      "--model_name_or_path", one.model.empty() ? tiny_gguf() : one.model, "--dataset_name",
      parity(one.data).string(), "--max_steps", "3", "--save_strategy", "no", "--learning_rate", "1e-3",
      // Else AdamW moves an element whose gradient is rounding as far as any other.
      "--adam_epsilon", "1e-2", "--use_peft", one.full ? "false" : "true"};
  if (!one.full) out.insert(out.end(), {"--lora_target_modules", "all-linear", "--lora_dropout", "0"});
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
      {.name = "sft", .data = rows, .words = two, .a_step = {.staged = 4, .to_host = 2}},
      {.name = "sft_dropout",
       .data = rows,
       .words = with({"--lora_dropout", "0.1"}),
       .a_step = {.to_device = 39, .staged = 4, .to_host = 2}},
      {.name = "sft_dora",
       .data = rows,
       .words = with({"--use_dora"}),
       .a_step = {.staged = 4, .to_host = 2}},
      {.name = "sft_pissa",
       .data = rows,
       .words = with({"--init_lora_weights", "pissa_niter_4"}),
       .a_step = {.staged = 4, .to_host = 2}},
      {.name = "sft_token_rows",
       .data = rows,
       .words = with({"--trainable_token_indices", "224", "3", "25"}),
       .a_step = {.staged = 15, .to_host = 3}},
      {.name = "sft_whole_modules",
       .data = rows,
       .words = with({"--lora_modules_to_save", "lm_head", "embed_tokens", "norm"}),
       .a_step = {.staged = 5, .to_host = 2}},
      {.name = "sft_4bit",
       .data = rows,
       .words = with({"--load_in_4bit"}),
       .a_step = {.staged = 4, .to_host = 2}},
      {.name = "sft_recompute",
       .data = rows,
       .words = with({"--recompute", "layer"}),
       .a_step = {.staged = 4, .to_host = 2}},
      {.name = "sft_plain",
       .data = rows,
       .words = with({"--layer_form", "plain"}),
       .a_step = {.staged = 4, .to_host = 2}},
      {.name = "sft_clipped",
       .data = rows,
       .words = with({"--max_grad_norm", "0.01"}),
       .a_step = {.staged = 4, .to_host = 2}},
  };
}

namespace {

// Every eighth token ends a completion: the tiny model would draw its one end token too rarely.
std::string many_stops() {
  std::string ids;
  for (int id = 2; id < 384; id += 8) ids += (ids.empty() ? "" : ", ") + std::to_string(id);
  return "{\"eos_token_id\": [" + ids + "]}";
}

// A group of four completions to each of two prompts.
std::vector<std::string> sampling(std::vector<std::string> more) {
  std::vector<std::string> out = {"--reward_funcs", "length(target=6)", "--generation_kwargs", many_stops()};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

std::vector<std::string> group(std::vector<std::string> more) {
  more.insert(more.end(), {"--per_device_train_batch_size", "8", "--num_generations", "4",
                           "--max_completion_length", "6"});
  return sampling(std::move(more));
}

}  // namespace

std::vector<Case> preference_cases() {
  const std::vector<std::string> two = {"--per_device_train_batch_size", "2"};
  const std::string adapter = parity("tiny_llama/adapter").string();
  return {
      {.name = "dpo",
       .method = Method::kDpo,
       .data = "trl_dpo/explicit.jsonl",
       .words = two,
       .a_step = {.staged = 17, .to_host = 3}},
      {.name = "dpo_weighted",
       .method = Method::kDpo,
       .data = "trl_dpo/explicit.jsonl",
       .words = {"--per_device_train_batch_size", "2", "--use_weighting", "--adapter_name_or_path", adapter},
       .a_step = {.staged = 17, .to_host = 3}},
      {.name = "kto",
       .method = Method::kKto,
       .data = "trl_kto/rows.jsonl",
       .words = two,
       .a_step = {.staged = 17, .to_host = 4}},
      {.name = "cpo",
       .method = Method::kCpo,
       .data = "trl_cpo/explicit.jsonl",
       .words = two,
       .a_step = {.staged = 9, .to_host = 2}},
      {.name = "orpo",
       .method = Method::kOrpo,
       .data = "trl_orpo/explicit.jsonl",
       .words = two,
       .a_step = {.staged = 9, .to_host = 2}},
      {.name = "reward",
       .method = Method::kReward,
       .data = "trl_reward/explicit.jsonl",
       .words = two,
       .a_step = {.staged = 4, .to_host = 2}},
  };
}

std::vector<Case> policy_cases() {
  const std::string prompts = "trl_grpo/prompts.jsonl";
  return {
      {.name = "grpo",
       .method = Method::kGrpo,
       .data = prompts,
       .words = group({}),
       .a_step = {.staged = 26, .to_host = 8}},
      {.name = "grpo_everything",
       .method = Method::kGrpo,
       .data = prompts,
       .words = group({"--beta", "0.1", "--entropy_coef", "0.01", "--top_entropy_quantile", "0.5"}),
       .a_step = {.staged = 51, .to_host = 10}},
      {.name = "grpo_reward_model",
       .method = Method::kGrpo,
       .data = prompts,
       .words = {"--per_device_train_batch_size", "4", "--num_generations", "2", "--max_completion_length",
                 "4", "--reward_funcs", parity("rewards/tiny_reward").string()},
       .a_step = {.staged = 24, .to_host = 8}},
      {.name = "rloo",
       .method = Method::kRloo,
       .data = prompts,
       .words = group({"--beta", "0"}),  // else KLs of 0 and of 1e-7 make groups with and without a gradient
       .a_step = {.staged = 26, .to_host = 8}},
      {.name = "online_dpo",
       .method = Method::kOnlineDpo,
       .data = prompts,
       .words = sampling({"--per_device_train_batch_size", "4", "--max_new_tokens", "6"}),
       .a_step = {.staged = 30, .to_host = 9}},
  };
}

std::vector<Case> full_cases() {
  const std::string rows = "sft/text.jsonl", pairs = "trl_dpo/explicit.jsonl";
  const std::vector<std::string> two = {"--per_device_train_batch_size", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), two.begin(), two.end());
    return more;
  };
  std::vector<Case> out = {
      {.name = "full_sft", .data = rows, .words = two},
      {.name = "full_sft_clipped", .data = rows, .words = with({"--max_grad_norm", "0.05"})},
      {.name = "full_sft_plain", .data = rows, .words = with({"--layer_form", "plain"})},
      {.name = "full_sft_recompute", .data = rows, .words = with({"--recompute", "layer"})},
      {.name = "full_sft_upper_layer",
       .data = rows,
       .words = with({"--unfrozen_parameters", "model.layers.1"})},
      {.name = "full_sft_by_layers", .data = rows, .words = two, .by_layers = true},
      {.name = "full_sft_by_layers_unclipped",
       .data = rows,
       .words = with({"--max_grad_norm", "0"}),
       .by_layers = true},
      {.name = "full_dpo", .method = Method::kDpo, .data = pairs, .words = two},
      {.name = "full_dpo_by_layers", .method = Method::kDpo, .data = pairs, .words = two, .by_layers = true},
      {.name = "full_kto", .method = Method::kKto, .data = "trl_kto/rows.jsonl", .words = two},
      {.name = "full_cpo", .method = Method::kCpo, .data = "trl_cpo/explicit.jsonl", .words = two},
      {.name = "full_orpo", .method = Method::kOrpo, .data = "trl_orpo/explicit.jsonl", .words = two},
      {.name = "full_reward", .method = Method::kReward, .data = "trl_reward/explicit.jsonl", .words = two},
      {.name = "full_grpo", .method = Method::kGrpo, .data = "trl_grpo/prompts.jsonl", .words = group({})},
      {.name = "full_grpo_kl",
       .method = Method::kGrpo,
       .data = "trl_grpo/prompts.jsonl",
       .words = group({"--beta", "0.1"})},
      {.name = "full_rloo",
       .method = Method::kRloo,
       .data = "trl_grpo/prompts.jsonl",
       .words = group({"--beta", "0"})},
      {.name = "full_online_dpo",
       .method = Method::kOnlineDpo,
       .data = "trl_grpo/prompts.jsonl",
       .words = sampling({"--per_device_train_batch_size", "4", "--max_new_tokens", "6"})},
  };
  for (Case& one : out) {
    one.full = true;
    one.counted = false;
  }
  return out;
}

// Each of an adapter whose factors are large enough for 8-bit states, and of a whole model.
std::vector<Case> optimizer_cases() {
  struct Row {
    std::string name, optim, arguments;
    double bound = 1e-5;
  };
  // A code of 8 bits that rounding turns moves an element by a part of the learning rate; lion's may turn
  // the sign.
  constexpr double kOfCodes = 5e-3;
  const std::vector<Row> rows = {
      {"adamw_fused", "adamw_torch_fused", ""},
      {"adamw_8bit", "adamw_8bit", "", kOfCodes},
      {"adafactor", "adafactor", ""},
      {"rmsprop", "rmsprop", "eps=1e-2"},
      {"rmsprop_centered", "rmsprop", "eps=1e-2,momentum=0.9,centered=True"},
      {"sgd", "sgd", ""},
      {"sgd_nesterov", "sgd", "momentum=0.9,nesterov=True"},
      {"adagrad", "adagrad", "eps=1e-2,lr_decay=0.1"},
      {"lion", "lion_32bit", ""},
      {"lion_8bit", "lion_8bit", "", kOfCodes},
  };
  std::vector<Case> out;
  for (const Row& row : rows) {
    for (const bool full : {false, true}) {
      Case one = {
          .name = row.name + (full ? "_full" : ""),
          .data = "sft/text.jsonl",
          .words = {"--per_device_train_batch_size", "2", "--optim", row.optim, "--weight_decay", "0.1"},
          .full = full,
          .bound = row.bound,
          .counted = false};
      if (!row.arguments.empty()) one.words.insert(one.words.end(), {"--optim_args", row.arguments});
      if (!full) one.words.insert(one.words.end(), {"--lora_r", "64"});
      out.push_back(std::move(one));
    }
  }
  return out;
}

// Quantized bases, a GGUF, adapters below the one that is trained, and what an evaluation samples.
std::vector<Case> base_cases() {
  const std::string rows = "sft/text.jsonl", adapter = parity("tiny_llama/adapter").string();
  const std::vector<std::string> two = {"--per_device_train_batch_size", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), two.begin(), two.end());
    return more;
  };
  std::vector<Case> out = {
      {.name = "base_8bit", .data = rows, .words = with({"--load_in_8bit"})},
      {.name = "base_nested_4bit", .data = rows, .words = with({"--load_in_4bit", "--use_bnb_nested_quant"})},
      {.name = "base_gguf", .data = rows, .words = two, .model = ""},
      {.name = "goes_on_with_an_adapter", .data = rows, .words = with({"--adapter_name_or_path", adapter})},
      {.name = "frozen_adapter", .data = rows, .words = with({"--base_adapters", adapter})},
      {.name = "frozen_adapters",
       .data = rows,
       .words = with({"--base_adapters", adapter, parity("tiny_llama/adapter_second").string()})},
      {.name = "grpo_frozen_adapter",
       .method = Method::kGrpo,
       .data = "trl_grpo/prompts.jsonl",
       .words = group({"--base_adapters", adapter, "--beta", "0.1"})},
      {.name = "grpo_8bit",
       .method = Method::kGrpo,
       .data = "trl_grpo/prompts.jsonl",
       .words = group({"--load_in_8bit"})},
      {.name = "samples_and_rewards_of_an_evaluation",
       .data = "sft/prompt_completion.jsonl",
       .words = with({"--eval_dataset", parity("sft/prompt_completion.jsonl").string(), "--eval_strategy",
                      "steps", "--eval_steps", "1", "--sample_prompts", "3", "--sample_steps", "1",
                      "--sample_max_new_tokens", "6", "--eval_reward_rows", "3", "--eval_reward_funcs",
                      "length(target=6)"})},
  };
  for (Case& one : out) one.counted = false;
  return out;
}

std::vector<Case> all_cases() {
  std::vector<Case> out;
  for (const auto& cases : {full_cases(), base_cases(), sft_cases(), preference_cases(), policy_cases()})
    out.insert(out.end(), cases.begin(), cases.end());
  return out;
}

std::vector<Case> picked(std::vector<Case> all, const std::vector<std::string>& names, bool held) {
  std::erase_if(all, [&](const Case& one) { return std::ranges::count(names, one.name) != (held ? 1 : 0); });
  return all;
}

std::vector<double> losses_of(const Outcome& outcome) {
  std::vector<double> out;
  for (const train::StepFacts& step : outcome.steps) {
    out.push_back(step.loss);
    out.push_back(step.grad_norm);
  }
  return out;
}

void expect_near_losses(const std::vector<double>& expected, const std::vector<double>& found,
                        const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 2e-2 * std::max(1.0, std::fabs(expected[i]))) << what;
}

}  // namespace hone::standin
