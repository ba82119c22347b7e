// Completions for TrainingMethod::rehearse of methods that sample.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/causal_lm.h"
#include "rollout/completion.h"
#include "train/batches/rollout_batch.h"
#include "train/loop/loop.h"

namespace hone::train {

constexpr std::int64_t kRehearsedCompletions = 2;

// Two short completions of the end of `prompt`, by the run's own sampler, with randomness separate from all
// training batches. No reward is called.
RolloutBatch rehearsal_rollouts(const model::CausalLm& model, const RolloutPrompt& prompt,
                                rollout::GenerateOptions options, const RehearsalRequest& request);

// Between `logprob` [n] of the samples' tokens, in their order, and what the sampler recorded.
double largest_difference(const at::Tensor& logprob, const RolloutBatch& batch,
                          const std::vector<std::size_t>& samples);

}  // namespace hone::train
