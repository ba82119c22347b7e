// The tools and environments of a run, opened before its prompts: their schemas stand in the prompts. And the function that makes a
// run's completions in their place.
#pragma once

#include <memory>

#include "train/batches/function_rollouts.h"
#include "train/batches/tool_rollouts.h"
#include "train/opening/open_run.h"

namespace hone::train {

// Starts the workers, reads the chat template's form of calls and results, and checks it. UserError for what ToolPool, ResponseParser
// and SuffixMaker refuse, and for a model without a chat template.
std::shared_ptr<ToolUse> open_tools(OpenedRun& run);

// The same workers once more, for who calls them and leaves nothing behind: the doctor.
std::unique_ptr<tools::ToolPool> open_tool_pool(const config::Plan& plan);

// How long the run's prompts may be.
PromptLimits prompt_limits(const OpenedRun& run);
// The template of prompts and suffixes: TRL's training form, which `notes` then says, where the model's own changes a turn that is
// over. UserError for a model without a chat template; `model` names it.
std::shared_ptr<const text::ChatTemplate> acting_template(const OpenedText& text, const std::string& model,
                                                          std::vector<std::string>& notes);

// Starts the process of the plan's rollout function. UserError of tools::RolloutHost. `run` must outlive the result.
std::shared_ptr<FunctionUse> open_function(const OpenedRun& run);

// UserError for a run without anything that scores: neither reward_funcs nor an environment's get_reward.
void require_rewards(const config::Plan& plan, const ToolUse& tools);

}  // namespace hone::train
