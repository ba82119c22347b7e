// The order of events before the first step of a method that samples: GRPO, RLOO, Online DPO.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "config/plan.h"
#include "train/memory_plan.h"
#include "train/open_run.h"
#include "train/sampling_method.h"

namespace hone::train {

// Prompts to train on, and the tokens of the longest; of a replay without data those of its batches.
struct PromptSizes {
  std::int64_t count = 0, longest = 0;
};

// What passes hold at most; the backward of attention where `longest_prompt` is shared by `sharing` tokens of
// completions.
struct LargestPasses {
  LongestBatch train, eval;
  bool shares = false;
  std::int64_t longest_prompt = 0, sharing = 0;
};

// A method's own part of the opening.
struct SamplingKind {
  bool wants_reference = true;
  LargestPasses passes;
  std::function<std::unique_ptr<TrainingMethod>(SamplingParts, const OpenedRun&)> method;
  std::string loss_line;             // of the start page
  std::int64_t steps_per_batch = 1;  // PolicyStartFacts
  // batches that a run of so many steps takes
  std::function<std::int64_t(std::int64_t steps)> generation_count;
  std::string replayed_again;  // words for a replay that is used again: "" or ", with ..."
};

// Prompts, rewards and the replay before weights: a wrong row or a broken function is found in seconds.
// UserError: rows and rewards that do not open, a column that a reward needs and the data lack, prompts that
// leave no room for a completion.
std::unique_ptr<OpenedRun> open_sampling(
    const config::Plan& asked, RunListener& listener,
    const std::function<SamplingKind(const config::Plan&, const PromptSizes&)>& kind_of);

}  // namespace hone::train
