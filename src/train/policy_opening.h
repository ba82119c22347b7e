// What GRPO, RLOO and Online DPO open alike: prompts and rewards, or a replay of both, and what samples.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/plan.h"
#include "rewards/reward.h"
#include "train/open_run.h"
#include "train/rollout_batch.h"
#include "train/rollout_source.h"

namespace hone::train {

struct OpenedSampling : OpenedRun {
  using OpenedRun::OpenedRun;
  const PolicyPrompts* prompts() const override { return &train_prompts; }
  std::span<const std::unique_ptr<rewards::Reward>> rewards() const override { return reward_list; }
  std::span<const std::vector<std::string>> reward_columns() const override { return columns; }
  bool replays() const { return !plan.policy.replay.empty(); }

  PolicyPrompts train_prompts, eval_prompts;
  std::vector<std::unique_ptr<rewards::Reward>> reward_list;
  std::vector<std::unique_ptr<rewards::Reward>> judge;  // Online DPO's, in their place: one or none
  std::vector<std::vector<std::string>> columns;        // of each reward
  std::vector<RolloutBatch> recorded;                   // the replay's, until open_sources takes them
  std::unique_ptr<RolloutSource> train_source, eval_source;
};

// Prompts, then rewards or the replay; run.source and run.text are there. UserError: rows and rewards that do
// not open, a column that a reward needs and the data lack, prompts that leave no room for a completion.
void open_prompts_and_rewards(OpenedSampling& run);

// Prompts to train on, and the tokens of the longest; of a replay without data those of its batches.
struct PromptSizes {
  std::int64_t count = 0, longest = 0;
};
PromptSizes prompt_sizes(const OpenedSampling& run);
RolloutPrompt rehearsal_prompt(const OpenedSampling& run);  // before open_sources

// The model itself, or the batches of the replay; run.start.memory says what keys and values may take.
void open_sources(OpenedSampling& run, rollout::GenerateOptions sampling);

// dump_rollouts: what an earlier start wrote of batches from `first_generation` on, which are made again, is
// taken out; also for a fresh start, after one that was stopped before its first checkpoint.
void trim_rollouts(const base::fs::path& path, std::int64_t first_generation);

// Words of the start page.
std::string sampling_line(const config::PolicyPlan& policy);  // "temperature 1, at most 256 new tokens"
std::vector<std::string> weighted_names(const config::PolicyPlan& policy,
                                        const std::vector<std::string>& rewards);     // "0.5 x format_reward"
std::string evaluation_line(const config::PolicyPlan& policy, std::int64_t prompts);  // "": none

}  // namespace hone::train
