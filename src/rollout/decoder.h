// Sequences on their way, one forward at a time: what generate.h and dialogue.h are made of.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/causal_lm.h"
#include "rollout/completion.h"
#include "rollout/sampler.h"

namespace hone::rollout {

// A prompt and its completion so far. `cache.length` tokens of the two, in this order, have been read.
struct Sequence {
  std::span<const std::int32_t> prompt;        // outlived by its owner
  std::uint64_t prompt_index = 0, sample = 0;  // keys of the randomness
  model::KvCache cache = {};
  Completion completion = {};
  bool done = false;
  std::vector<std::int32_t> seen = {};  // distinct ids, sorted; kept only for a repetition penalty

  std::int64_t length() const {
    return static_cast<std::int64_t>(prompt.size()) + static_cast<std::int64_t>(completion.ids.size());
  }
};

class Decoder {
 public:
  // Both must outlive it.
  Decoder(const model::CausalLm& model, const GenerateOptions& options) : model_(model), options_(options) {}

  // One forward. Sequences that have read their prompt get a token each; the prompts of the others are read
  // in pieces of options.prefill_tokens, as many as fit into that number together, in order. A
  // prompt that several samples share is read once. `done` is set on those that have ended; they must not
  // come again. UserError for logits that are not finite. A sequence's
  // tokens do not depend on the others here.
  void advance(std::span<Sequence> live);

 private:
  void sample(std::span<Sequence* const> ready, const at::Tensor& hidden);
  Draw draw(Sampler& sampler, Sequence& sequence, std::span<const float> logits) const;
  void take(Sequence& sequence, const Draw& draw) const;
  void record_logprobs(std::span<Sequence* const> ready, const std::vector<Draw>& draws,
                       const at::Tensor& logits) const;

  const model::CausalLm& model_;
  const GenerateOptions& options_;
  std::vector<Sampler> samplers_;  // one a thread
};

// UserError when the prompt is empty or, with max_new_tokens, has more tokens than the model has positions.
// `where` names it.
void check_prompt(std::span<const std::int32_t> prompt, const model::ModelConfig& model,
                  const GenerateOptions& options, const std::string& where);

}  // namespace hone::rollout
