// A conversation: keys and values of the last prompt and its answer are kept, because the next prompt begins
// with them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/causal_lm.h"
#include "rollout/completion.h"

namespace hone::rollout {

class Dialogue {
 public:
  explicit Dialogue(const model::CausalLm& model) : model_(model) {}  // which must outlive it

  // Completes `prompt`, the whole conversation as tokens; of what it shares with the last one and its answer,
  // from the beginning on, nothing is computed again. `on_token(completion so far)` is called after each
  // token; false ends the answer (FinishReason::kCancelled). Sampling is keyed by (seed, step, turn, 0,
  // position). UserError as generate(); after one, or an exception of on_token, the next call computes all
  // again.
  Completion answer(std::span<const std::int32_t> prompt, std::uint64_t turn, const GenerateOptions& options,
                    const std::function<bool(std::span<const std::int32_t>)>& on_token);

  std::int64_t reused() const { return reused_; }  // tokens of the last prompt that were not computed again
  void reset();                                    // forgets all, and frees its memory

 private:
  const model::CausalLm& model_;
  model::KvCache cache_;
  std::vector<std::int32_t> held_;  // the tokens in the cache
  std::int64_t reused_ = 0;
};

}  // namespace hone::rollout
