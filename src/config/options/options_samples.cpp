// Rows: completions of fixed prompts while training, and rewards of an evaluation.
#include "config/option_table.h"

namespace hone::config {
namespace {
const Change kNoCompletions = {.option_class = OptionClass::kRefused,
                               .reason = "a reward model generates no completions"};
}  // namespace

std::vector<Option> sample_options() {
  std::vector<Option> rows;
  add(rows, {"samples", kHone, kAll},
      {{"sample_prompts",
        "prompts whose completions show how the model changes: texts, a file of prompts, or a number N, for the first N rows of "
        "eval_dataset, or else of the training data; greedy, before step 1, at sample_steps and at the end",
        &SamplesPlan::sample_prompts, in("reward", kNoCompletions)},
       {"sample_steps", "optimizer steps between samples; null: at each evaluation",
        &SamplesPlan::sample_steps, "null", at_least(1), in("reward", kNoCompletions)},
       {"sample_max_new_tokens",
        "maximum number of tokens of such a completion, and of those that eval_reward_funcs score; null: 256, or "
        "max_completion_length",
        &SamplesPlan::sample_max_new_tokens, "null", Range{.least = 1, .most = 1e9},
        in("reward", kNoCompletions)},
       {"eval_reward_funcs",
        "rewards of greedy completions of the rows to evaluate, as in reward_funcs of grpo, with 95 % confidence intervals",
        &SamplesPlan::eval_reward_funcs, in("reward", kNoCompletions)},
       {"eval_reward_rows", "the first rows of each eval_dataset that eval_reward_funcs score; null: all",
        &SamplesPlan::eval_reward_rows, "null", at_least(1), in("reward", kNoCompletions)}});
  return rows;
}

}  // namespace hone::config
