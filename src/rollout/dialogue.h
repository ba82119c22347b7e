// A conversation: keys and values of the last prompt and its answer are kept, because the next prompt begins
// with them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "rollout/engine.h"

namespace hone::rollout {

class Dialogue {
 public:
  // The model must outlive it.
  explicit Dialogue(const model::CausalLm& model, Drafts drafts = Drafts::kOff)
      : engine_(model, {.batch_size = 1, .drafts = drafts}) {}

  // Completes `prompt`, the whole conversation as tokens; of what it shares with the last one and its answer,
  // from the beginning on, nothing is computed again. `on_token(completion so far)` is called after each
  // token (with drafts after one or more); false ends the answer (FinishReason::kCancelled). Sampling is keyed by (seed, step, turn, 0,
  // position). UserError as Engine::add, after which the conversation is as it was, and for logits that are not
  // finite; after those, or an exception of on_token, the next call computes all again.
  Completion answer(std::span<const std::int32_t> prompt, std::uint64_t turn, const RequestOptions& options,
                    const std::function<bool(std::span<const std::int32_t>)>& on_token);

  // Tokens of the last prompt that were not computed again.
  std::int64_t reused() const { return id_ == 0 ? 0 : engine_.reused(id_); }
  void reset();  // forgets all, and frees its memory

 private:
  Engine engine_;
  RequestId id_ = 0;  // 0: nothing was said
};

}  // namespace hone::rollout
