// Decodes several sequences, one forward at a time; generate.h and dialogue.h are built on it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/causal_lm.h"
#include "rollout/completion.h"
#include "rollout/sampler.h"

namespace hone::rollout {

// A prompt whose keys and values its samples read in place.
struct SharedPrompt {
  model::KvCache cache = {};
  at::Tensor hidden = {};  // [1, H] of its last token, once all is read: what first tokens are drawn from
};

// A prompt and its completion so far. `cache.length` tokens of the two, in this order, have been read; with a
// shared prompt none before all of that has.
struct Sequence {
  std::span<const std::int32_t> prompt;        // the caller's; must outlive this
  std::uint64_t prompt_index = 0, sample = 0;  // keys of the randomness
  model::KvCache cache = {};
  Completion completion = {};
  bool done = false;
  std::vector<std::int32_t> seen = {};        // distinct ids, sorted; kept only for a repetition penalty
  std::shared_ptr<SharedPrompt> shared = {};  // null: the cache holds the prompt as well

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
  // be passed again. UserError for logits that are not finite. A sequence's
  // tokens do not depend on the others here.
  void advance(std::span<Sequence> live);

 private:
  // A sequence whose tokens have all been read, and the row of hidden that its next token is drawn from.
  struct Ready {
    Sequence* sequence = nullptr;
    std::int64_t row = 0;
  };
  void sample(std::span<const Ready> ready, const at::Tensor& hidden);
  Draw draw(Sampler& sampler, Sequence& sequence, std::span<const float> logits) const;
  void take(Sequence& sequence, const Draw& draw) const;
  // What the trainer will see where `id` was drawn; logits [1, V].
  struct Facts {
    float logprob = 0, entropy = 0;
  };
  Facts facts_of(const at::Tensor& logits, std::int64_t id) const;

  const model::CausalLm& model_;
  const GenerateOptions& options_;
  std::vector<Sampler> samplers_;  // one a thread
};

// UserError when the prompt is empty or, with max_new_tokens, has more tokens than the model has positions.
// `where` names it.
void check_prompt(std::span<const std::int32_t> prompt, const model::ModelConfig& model,
                  const GenerateOptions& options, const std::string& where);

// UserError for a stop token that the model cannot produce.
void check_stop_ids(const model::ModelConfig& model, const GenerateOptions& options);

}  // namespace hone::rollout
