// What is seen and changed of a sequence's scores before each of its tokens is drawn: the most likely tokens
// beside it, and the penalties, biases and allowed tokens of a request. Where scores are seen, the engine's own
// penalties come here too, behind what is seen, so that it has the model's scores.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "serve/openai/wish.h"
#include "serve/prompt_scores.h"

namespace hone::serve::openai {

class Observed {
 public:
  Observed(const Wish& wish, bool raw_logprobs);

  bool is_needed() const { return sees_ || changes_; }
  // For a request of `prompt`. What before() does itself is taken out of the options; it applies in the
  // engine's order, to the same bits. `this` must outlive the request.
  void enter(rollout::RequestOptions& options, const std::vector<std::int32_t>& prompt);
  // RequestOptions::constrain, by one thread at a time.
  void before(std::span<const std::int32_t> ids, std::span<float> scores);
  // After the token was drawn.
  void after(std::span<const std::int32_t> ids);

  // The text's pattern had more states than are kept: its tokens are none that were asked for.
  bool has_failed() const { return failed_; }

  // [tokens]; empty where none were asked for. At temperature 1, before penalties.
  const std::vector<TopTokens>& top() const { return top_tokens_; }
  // [tokens] at temperature 1; empty where Completion::logprobs has the same.
  const std::vector<float>& raw() const { return raw_; }

 private:
  void change(std::span<const std::int32_t> ids, std::span<float> scores) const;
  void match(std::span<const std::int32_t> ids, std::span<float> scores);

  const std::int64_t top_;
  const bool keeps_row_, sees_, changes_;
  const double presence_, frequency_;
  const std::map<std::int32_t, float> bias_;
  const std::vector<std::int32_t> allowed_;
  const std::shared_ptr<const text::TokenPattern> matched_;  // null: any text
  const std::vector<std::int64_t> ends_;                     // tokens that end it
  bool failed_ = false;
  // Of the engine; 1 and 0: it does them.
  double repetition_ = 1;
  std::int64_t min_tokens_ = 0;
  std::vector<std::int64_t> stop_ids_;
  std::vector<std::int32_t> prompt_;
  std::vector<TopTokens> top_tokens_;
  std::vector<float> row_, raw_;
  float log_sum_ = 0;
};

}  // namespace hone::serve::openai
