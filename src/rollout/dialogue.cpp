#include "rollout/dialogue.h"

#include <algorithm>
#include <utility>

#include "rollout/decoder.h"

namespace hone::rollout {

void Dialogue::reset() {
  cache_ = {};
  held_.clear();
  reused_ = 0;
}

Completion Dialogue::answer(std::span<const std::int32_t> prompt, std::uint64_t turn,
                            const GenerateOptions& options,
                            const std::function<bool(std::span<const std::int32_t>)>& on_token) {
  check_prompt(prompt, model_.config(), options, "the conversation");
  check_stop_ids(model_.config(), options);
  // The last token is read again even if it is there: its logits are needed.
  const auto most = std::min(held_.size(), prompt.size() - 1);
  const auto shared =
      std::mismatch(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(most), prompt.begin());
  std::int64_t kept = shared.first - held_.begin();
  Sequence sequence = {.prompt = prompt, .prompt_index = turn, .cache = std::exchange(cache_, {})};
  held_.clear();
  if (sequence.cache.length > kept) kept = sequence.cache.truncate(kept);
  reused_ = kept;
  Decoder decoder(model_, options);
  while (!sequence.done) {
    const std::size_t before = sequence.completion.ids.size();
    decoder.advance({&sequence, 1});
    const auto& ids = sequence.completion.ids;
    if (ids.size() > before && on_token && !on_token(ids) && !sequence.done) {
      sequence.completion.finish_reason = FinishReason::kCancelled;
      sequence.done = true;
    }
  }
  cache_ = std::move(sequence.cache);
  held_.assign(prompt.begin(), prompt.end());
  held_.insert(held_.end(), sequence.completion.ids.begin(), sequence.completion.ids.end());
  held_.resize(static_cast<std::size_t>(cache_.length));
  return std::move(sequence.completion);
}

}  // namespace hone::rollout
