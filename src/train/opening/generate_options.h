// Every command that samples reads these in the same way.
#pragma once

#include <span>

#include "model/config/model_config.h"
#include "rollout/completion.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"

namespace hone::train {

// The sampler, the first tokens without an end, and where a completion ends: at every eos_token_id of
// generation_config.json or config.json, and at the tokenizer's. `Sampling` has transformers' names:
// config::PolicyPlan or config::SamplingPlan. The tokenizer must outlive the result.
template <typename Sampling>
rollout::GenerateOptions generate_options_of(const Sampling& from, const model::ModelConfig& config,
                                             const text::Tokenizer& tokenizer) {
  rollout::GenerateOptions out;
  out.min_new_tokens = from.min_new_tokens;
  out.drafts = from.drafts == "auto" ? rollout::Drafts::kAuto : rollout::Drafts::kOff;
  out.sampler = {.temperature = from.temperature,
                 .top_k = from.top_k,
                 .top_p = from.top_p,
                 .min_p = from.min_p,
                 .repetition_penalty = from.repetition_penalty};
  out.stop_ids = config.eos_token_ids;
  if (const auto eos = tokenizer.eos_id()) out.stop_ids.push_back(*eos);
  if (const auto eot = tokenizer.eot_id(); eot && *eot < config.vocab_size) out.stop_ids.push_back(*eot);
  if (!from.stop_strings.empty()) {
    out.stops = [stops = from.stop_strings, &tokenizer](std::span<const std::int32_t> ids) {
      return text::ends_with_stop(ids, stops, tokenizer);
    };
  }
  return out;
}

}  // namespace hone::train
