// Prompts -> completions with a KV cache: the plain form, exact before fast.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/causal_lm.h"
#include "rollout/sampler.h"

namespace hone::rollout {

struct GenerateOptions {
  std::int64_t max_new_tokens = 64;
  SamplerOptions sampler;
  std::uint64_t seed = 42;
  std::vector<std::int64_t> stop_ids;  // end of sequence; the stop token is part of the completion
  std::int64_t batch_size = 16;        // sequences that decode together
  std::int64_t prefill_tokens = 2048;  // prompt tokens of one forward; a longer prompt joins alone
};

struct Completion {
  std::vector<std::int32_t> ids;  // the stop token included
  bool stopped = false;           // ended by a stop token, not by max_new_tokens
};

// One completion a prompt, in order. Sampling is keyed by (seed, prompt index, position). UserError for an
// empty prompt, for one that with max_new_tokens exceeds the model's positions, and for logits that are not
// finite. `on_done(index)` is called as prompts finish; may be empty.
std::vector<Completion> generate(const model::CausalLm& model,
                                 const std::vector<std::vector<std::int32_t>>& prompts,
                                 const GenerateOptions& options,
                                 const std::function<void(std::size_t)>& on_done = {});

}  // namespace hone::rollout
