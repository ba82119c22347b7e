// Prompts -> completions: sequences decode together; those that end leave the batch, waiting ones enter it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/causal_lm.h"
#include "rollout/completion.h"

namespace hone::rollout {

// options.samples completions a prompt, one prompt's beside each other, prompts in order: completion
// prompt * samples + sample. Sampling is keyed by (seed, step, prompt index, sample, position): a completion
// depends neither on the batch that it decoded in nor on how much memory there was. UserError for an empty
// prompt, for one that with max_new_tokens exceeds the model's positions or a given kv_memory, and for logits
// that are not finite. `on_done(index)` is called as completions finish; may be empty.
std::vector<Completion> generate(const model::CausalLm& model,
                                 const std::vector<std::vector<std::int32_t>>& prompts,
                                 const GenerateOptions& options,
                                 const std::function<void(std::size_t)>& on_done = {});

}  // namespace hone::rollout
