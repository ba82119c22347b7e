#include "rollout/dialogue.h"

#include <algorithm>

namespace hone::rollout {

void Dialogue::reset() {
  if (id_ != 0) engine_.forget(std::exchange(id_, 0));
  engine_.lose_keys();
}

Completion Dialogue::answer(std::span<const std::int32_t> prompt, std::uint64_t turn,
                            const RequestOptions& options,
                            const std::function<bool(std::span<const std::int32_t>)>& on_token) {
  const std::span<const std::int32_t> held = id_ == 0 ? std::span<const std::int32_t>() : engine_.tokens(id_);
  const auto same =
      std::mismatch(held.begin(), held.end(), prompt.begin(), prompt.end()).first - held.begin();
  if (same == 0) {
    const RequestId id = engine_.add({.ids = {prompt.begin(), prompt.end()},
                                      .options = options,
                                      .key = {.prompt = turn},
                                      .where = "the conversation"});
    if (id_ != 0) engine_.forget(id_);
    id_ = id;
  } else {
    engine_.append(id_, {.ids = {prompt.begin() + same, prompt.end()},
                         .options = options,
                         .key = {.prompt = turn},
                         .keep = same});
  }
  try {
    while (engine_.advance()) {
      engine_.poll();
      const Completion& completion = engine_.completion(id_);
      const bool goes_on = completion.ids.empty() || !on_token || on_token(completion.ids);
      if (!goes_on) engine_.cancel(id_);
    }
  } catch (...) {
    reset();
    throw;
  }
  return engine_.completion(id_);
}

}  // namespace hone::rollout
