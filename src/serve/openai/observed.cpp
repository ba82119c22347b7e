#include "serve/openai/observed.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/strings/pattern.h"
#include "rollout/scores.h"
#include "text/token_pattern.h"

namespace hone::serve::openai {

Observed::Observed(const Wish& wish, bool raw_logprobs)
    : top_(wish.logprobs.value_or(0)),
      keeps_row_(wish.logprobs && raw_logprobs && wish.sampler.temperature != 0 &&
                 wish.sampler.temperature != 1),
      sees_(top_ > 0 || keeps_row_),
      changes_(wish.presence_penalty != 0 || wish.frequency_penalty != 0 || !wish.bias.empty() ||
               !wish.allowed.empty() || wish.matched != nullptr),
      presence_(wish.presence_penalty),
      frequency_(wish.frequency_penalty),
      bias_(wish.bias),
      allowed_(wish.allowed),
      matched_(wish.matched),
      ends_(wish.stop_ids) {}

void Observed::enter(rollout::RequestOptions& options, const std::vector<std::int32_t>& prompt) {
  if (!is_needed()) return;
  if (sees_) {
    repetition_ = std::exchange(options.sampler.repetition_penalty, 1);
    min_tokens_ = std::exchange(options.min_new_tokens, 0);
    if (repetition_ != 1) prompt_ = prompt;
    if (min_tokens_ > 0) stop_ids_ = options.stop_ids;
  }
  options.constrain = [this](std::span<const std::int32_t> ids, std::span<float> scores) {
    before(ids, scores);
  };
}

void Observed::before(std::span<const std::int32_t> ids, std::span<float> scores) {
  if (sees_) log_sum_ = log_sum_of(scores);
  if (top_ > 0) {
    top_tokens_.resize(ids.size());  // shorter: a forward was made again
    top_tokens_.push_back(top_tokens(scores, log_sum_, top_));
  }
  if (keeps_row_) row_.assign(scores.begin(), scores.end());
  change(ids, scores);
  if (matched_) match(ids, scores);
}

// Of a pattern that fails the text ends: other requests must not.
void Observed::match(std::span<const std::int32_t> ids, std::span<float> scores) {
  try {
    if (!failed_) matched_->constrain(ids, ends_, scores);
  } catch (const base::PatternTooSlow&) {
    failed_ = true;
  }
  if (!failed_) return;
  std::fill(scores.begin(), scores.end(), -std::numeric_limits<float>::infinity());
  scores[static_cast<std::size_t>(ends_.front())] = 0;
}

void Observed::after(std::span<const std::int32_t> ids) {
  if (!keeps_row_ || raw_.size() >= ids.size()) return;
  raw_.push_back(row_[static_cast<std::size_t>(ids.back())] - log_sum_);
}

void Observed::change(std::span<const std::int32_t> ids, std::span<float> scores) const {
  if (repetition_ != 1) {
    std::vector<std::int32_t> seen = prompt_;
    seen.insert(seen.end(), ids.begin(), ids.end());
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    rollout::penalize(scores, seen, repetition_);
  }
  if (static_cast<std::int64_t>(ids.size()) < min_tokens_) rollout::forbid(scores, stop_ids_);
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
