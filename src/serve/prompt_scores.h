// Log-probabilities of tokens that are given, by the trainer's own forward (model/fused_pass.h): the bits
// that a training pass computes for them.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "model/causal_lm.h"
#include "serve/scheduler.h"
#include "serve/weights.h"

namespace hone::serve {

// The k most likely tokens at a place, the best first; equals by id.
using TopTokens = std::vector<std::pair<std::int32_t, float>>;

struct PromptScores {
  std::vector<float> logprobs;  // [T - from] of tokens from `from` on, each after those before it
  std::vector<TopTokens> top;   // the same places; empty when none were asked for
};

struct ScoreJob {
  std::vector<std::int32_t> ids;  // [T], at least two
  std::int64_t from = 1;          // the first token that is scored, 1 to T - 1
  std::int64_t top = 0;           // how many of the most likely
  Version version;
  std::function<void(PromptScores)> on_done;  // on the compute thread
  std::function<void(std::exception_ptr)> on_error;
  // Asked before the pass; false: nobody waits for it any more, and neither is called. Empty: it is wanted.
  std::function<bool()> is_wanted = {};
};

// One pass over all its tokens. The model must outlive it.
std::unique_ptr<Work> score_prompt(const model::CausalLm& model, ScoreJob job);

// log sum exp of a row of logits [V], with the bits that the trainer's log-probabilities are made with.
float log_sum_of(std::span<const float> logits);

// The k largest of `logits` [V] with their log-probabilities at temperature 1, given log sum exp of the row.
TopTokens top_tokens(std::span<const float> logits, float log_sum, std::int64_t k);

}  // namespace hone::serve
