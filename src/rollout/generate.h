// Prompts -> completions: sequences decode together; those that end leave the batch, waiting ones enter it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/causal_lm.h"
#include "rollout/completion.h"

namespace hone::rollout {

using OnDone = std::function<void(std::size_t index, const Completion& completion)>;

// options.samples completions a prompt, those of a prompt adjacent, prompts in order: completion
// prompt * samples + sample. Sampling is keyed by (seed, step, prompt index, sample, position): a completion
// depends neither on the batch that it decoded in nor on how much memory there was. UserError for an empty
// prompt, for one that with max_new_tokens exceeds the model's positions or a given kv_memory, and for a
// stop token outside the vocabulary and for logits that are not finite.
//
// Sequences begin in order and none overtakes another, so that the samples of a prompt decode together and
// end early. `on_done(index, completion)` is called on the caller's thread as completions finish; may be
// empty.
std::vector<Completion> generate(const model::CausalLm& model,
                                 const std::vector<std::vector<std::int32_t>>& prompts,
                                 const GenerateOptions& options, const OnDone& on_done = {});

}  // namespace hone::rollout
