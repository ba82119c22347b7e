// Completions beside the training: of fixed prompts, to be compared over the run, and of the rows to evaluate, with rewards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hone::config {

struct SamplesPlan {
  // A number of rows, a file of prompts, or prompts; which of them it is, the fields below say. Empty: nothing is sampled.
  std::vector<std::string> sample_prompts;
  std::int64_t sample_steps = 0;  // 0: at each evaluation; always before step 1 and after the last one
  std::int64_t sample_max_new_tokens = 0;      // of samples and of what eval_reward_funcs score; resolved
  std::vector<std::string> eval_reward_funcs;  // rewards/open_reward.h
  std::int64_t eval_reward_rows = 0;           // of each set to evaluate; 0: all

  // One of these, of sample_prompts: the first rows of the data to evaluate, or else to train on; a file; texts.
  std::int64_t sample_rows = 0;
  std::string sample_file;
  std::vector<std::string> sample_texts;

  bool samples_prompts() const { return !sample_prompts.empty(); }
  bool scores_completions() const { return !eval_reward_funcs.empty(); }

  bool operator==(const SamplesPlan&) const = default;
};

}  // namespace hone::config
