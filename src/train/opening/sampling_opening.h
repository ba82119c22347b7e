// The order of events before the first step of a method that samples: GRPO, RLOO, Online DPO, distillation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "config/plan.h"
#include "train/facts/memory_plan.h"
#include "train/opening/open_run.h"
#include "train/steps/policy_step.h"
#include "train/steps/sampling_method.h"

namespace hone::train {

// Prompts to train on, and the tokens of the longest; of a replay without data those of its batches.
struct PromptSizes {
  std::int64_t count = 0, longest = 0;
  std::int64_t longest_given = 0;  // tokens of the longest completion that the data give
};

// What passes hold at most; the backward of attention where `longest_prompt` is shared by `sharing` tokens of
// completions.
struct LargestPasses {
  LongestBatch train, eval;
  bool shares = false;
  std::int64_t longest_prompt = 0, sharing = 0;
};

// A method's own part of the opening. Methods that compare the advantages of a prompt's completions use
// group_opening().
struct SamplingOpening {
  bool (*wants_reference)(const config::Plan&);
  LargestPasses (*passes)(const config::Plan&, const PromptSizes&);
  std::unique_ptr<TrainingMethod> (*method)(SamplingParts, const OpenedRun&, const SamplingOpening&);
  std::string (*loss_line)(const config::Plan&);                   // of the start page
  std::int64_t (*steps_per_batch)(const config::Plan&) = nullptr;  // PolicyStartFacts; null: 1
  // Batches that a run of so many steps takes.
  std::int64_t (*generation_count)(const config::Plan&, std::int64_t prompts, std::int64_t steps);
  std::string_view replayed_again = {};  // words for a replay that is used again: "" or ", with ..."
  GroupLoss group = {};                  // of GRPO and RLOO
  bool has_teacher = false;              // the reference is one: the vocabularies have to be the same
};

// Prompts, rewards and the replay before weights: a wrong row or a broken function is found in seconds.
// UserError: rows and rewards that do not open, a column that a reward needs and the data lack, prompts that
// leave no room for a completion.
// `opening` must outlive the run.
std::unique_ptr<OpenedRun> open_sampling(const config::Plan& asked, RunListener& listener,
                                         const SamplingOpening& opening);

}  // namespace hone::train
