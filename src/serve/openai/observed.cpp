#include "serve/openai/observed.h"

#include <algorithm>
#include <limits>

namespace hone::serve::openai {

Observed::Observed(const Wish& wish, bool raw_logprobs)
    : top_(wish.logprobs.value_or(0)),
      keeps_row_(wish.logprobs && raw_logprobs && wish.sampler.temperature != 0 &&
                 wish.sampler.temperature != 1),
      changes_(wish.presence_penalty != 0 || wish.frequency_penalty != 0 || !wish.bias.empty() ||
               !wish.allowed.empty()),
      presence_(wish.presence_penalty),
      frequency_(wish.frequency_penalty),
      bias_(wish.bias),
      allowed_(wish.allowed) {}

void Observed::before(std::span<const std::int32_t> ids, std::span<float> scores) {
  if (top_ > 0 || keeps_row_) log_sum_ = log_sum_of(scores);
  if (top_ > 0) {
    top_tokens_.resize(ids.size());  // shorter: a forward was made again
    top_tokens_.push_back(top_tokens(scores, log_sum_, top_));
  }
  if (keeps_row_) row_.assign(scores.begin(), scores.end());
  if (changes_) change(ids, scores);
}

void Observed::after(std::span<const std::int32_t> ids) {
  if (!keeps_row_ || raw_.size() >= ids.size()) return;
  raw_.push_back(row_[static_cast<std::size_t>(ids.back())] - log_sum_);
}

void Observed::change(std::span<const std::int32_t> ids, std::span<float> scores) const {
  if (presence_ != 0 || frequency_ != 0) {
    std::map<std::int32_t, int> counts;
    for (const std::int32_t id : ids) ++counts[id];
    for (const auto& [id, count] : counts)
      scores[static_cast<std::size_t>(id)] -= static_cast<float>(frequency_ * count + presence_);
  }
  for (const auto& [id, bias] : bias_) scores[static_cast<std::size_t>(id)] += bias;
  if (allowed_.empty()) return;
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::size_t next = 0;
  bool some = false;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    while (next < allowed_.size() && static_cast<std::size_t>(allowed_[next]) < i) ++next;
    if (next == allowed_.size() || static_cast<std::size_t>(allowed_[next]) != i) scores[i] = kNever;
    some = some || scores[i] != kNever;
  }
  // All that are allowed end the text, and it must not end yet.
  if (!some) scores[static_cast<std::size_t>(allowed_.front())] = 0;
}

}  // namespace hone::serve::openai
