#include "serve/openai/sampling.h"

#include <ctime>

#include "serve/openai/errors.h"
#include "text/stop_strings.h"

namespace hone::serve::openai {

Sampling::Sampling(Served& served, Wish wish, std::shared_ptr<Exchange> exchange, std::string id,
                   std::function<void(int)> ended)
    : served_(served),
      wish_(std::move(wish)),
      exchange_(std::move(exchange)),
      number_(wish_.seed ? 0 : ++served.requests),
      told_{.served = served,
            .wish = wish_,
            .id = std::move(id),
            .created = static_cast<std::int64_t>(std::time(nullptr))},
      ended_(std::move(ended)) {
  choices_.resize(wish_.prompts.size() * static_cast<std::size_t>(wish_.samples));
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].index = static_cast<std::int64_t>(i);
    choices_[i].prompt = choices_[i].index / wish_.samples;
    choices_[i].observed = std::make_unique<Observed>(wish_, served.raw_logprobs);
  }
  if (wish_.stream) stream_ = std::make_unique<Stream>(told_, *exchange_, choices_.size());
}

// The same seed gives the same tokens, in whatever place of a list a prompt stands.
rollout::Request Sampling::request_of(Choice& choice) const {
  rollout::Request out;
  out.ids = wish_.prompts[static_cast<std::size_t>(choice.prompt)];
  out.adapter = wish_.weights.version;
  out.where = "the prompt";
  out.options = {.max_new_tokens = wish_.max_tokens, .sampler = wish_.sampler};
  out.options.seed = wish_.seed.value_or(served_.seed);
  out.options.stop_ids = wish_.stop_ids;
  out.options.min_new_tokens = wish_.min_tokens;
  out.options.share_prefixes = true;
  out.options.logprobs = wish_.logprobs.has_value();
  if (wish_.seed) {
    out.key = {.sample = static_cast<std::uint64_t>(choice.index % wish_.samples)};
  } else {
    out.key = {.prompt = number_ & 0xFFFFFFFFU, .sample = static_cast<std::uint64_t>(choice.index)};
  }
  if (!wish_.stops.empty()) {
    out.options.stops = [stops = wish_.stops, &tokenizer = served_.tokenizer,
                         least =
                             static_cast<std::size_t>(wish_.min_tokens)](std::span<const std::int32_t> ids) {
      return ids.size() >= least && text::ends_with_stop(ids, stops, tokenizer);
    };
  }
  choice.observed->enter(out.options, out.ids);
  return out;
}

void Sampling::count(std::int64_t tokens) {
  const std::int64_t more = tokens * wish_.told_beside();
  numbers_ += more;
  const std::int64_t held = served_.numbers += more;
  // One at a time is refused: what it held is free for the others then.
  if (wish_.logprobs && held > kMostNumbersHeld)
    throw Refusal(429, "too many log-probabilities wait to be told: try again in a moment", "", "",
                  "overloaded");
  if (numbers_ <= kMostNumbers) return;
  throw Refusal(400,
                "an answer has at most " + std::to_string(kMostNumbers) +
                    " log-probabilities (choices x tokens x (1 + logprobs)): ask for fewer choices, shorter "
                    "texts, or fewer of them beside a token",
                wish_.form == Form::kChat ? "top_logprobs" : "logprobs", "answer_too_large");
}

void Sampling::start() {
  const bool scores = wish_.echo && wish_.logprobs;
  std::size_t to_score = 0, told = 0;
  for (const auto& prompt : wish_.prompts) {
    to_score += scores && prompt.size() > 1 ? 1 : 0;
    told += scores ? prompt.size() : 0;
  }
  try {
    count(static_cast<std::int64_t>(told) * wish_.samples);
  } catch (const Refusal&) {
    fail(std::current_exception());
    return;
  }
  left_ = to_score + (wish_.max_tokens > 0 ? choices_.size() : 0);
  const std::weak_ptr<Sampling> weak = weak_from_this();
  exchange_->when_gone([weak] {
    if (const auto self = weak.lock()) self->cancel();
  });
  if (left_ == 0) {
    finish();
    return;
  }
  for (std::size_t i = 0; scores && i < wish_.prompts.size(); ++i) {
    if (wish_.prompts[i].size() > 1) submit_scores(i);
  }
  for (std::size_t i = 0; wish_.max_tokens > 0 && i < choices_.size(); ++i) submit_choice(i);
}

void Sampling::submit_scores(std::size_t prompt) {
  served_.scheduler.submit(
      score_prompt(
          served_.model,
          {.ids = wish_.prompts[prompt],
           .from = 1,
           .top = *wish_.logprobs,
           .version = wish_.weights.version,
           .on_done =
               [self = shared_from_this(), prompt](PromptScores found) {
                 const auto scores = std::make_shared<const PromptScores>(std::move(found));
                 for (Choice& one : self->choices_) {
                   if (one.prompt == static_cast<std::int64_t>(prompt)) one.scores = scores;
                 }
                 self->one_done();
               },
           .on_error = [self =
                            shared_from_this()](const std::exception_ptr& failure) { self->fail(failure); },
           .is_wanted = [self = shared_from_this()] { return !self->cancelled_ && !self->failed_; }}),
      0);
}

void Sampling::submit_choice(std::size_t index) {
  Choice& choice = choices_[index];
  const JobId id = served_.scheduler.submit(
      {.request = request_of(choice),
       .on_token = [self = shared_from_this(), &choice](
                       const rollout::Completion& completion, const SampleFacts& facts,
                       bool has_ended) { self->take(choice, completion, facts, has_ended); },
       .on_error = [self = shared_from_this()](const std::exception_ptr& failure) { self->fail(failure); }});
  const std::lock_guard lock(mutex_);
  jobs_.push_back(id);
  if (cancelled_) served_.scheduler.cancel(id);
}

void Sampling::take(Choice& choice, const rollout::Completion& completion, const SampleFacts& facts,
                    bool has_ended) {
  if (failed_ || (cancelled_ && !has_ended)) return;
  choice.facts = facts;
  try {
    if (choice.observed->has_failed())
      throw Refusal(400, "response_format: the schema allows too many forms to follow", "response_format");
    count(static_cast<std::int64_t>(completion.ids.size() - choice.counted));
  } catch (const Refusal&) {
    fail(std::current_exception());
    return;
  }
  choice.counted = completion.ids.size();
  if (!completion.ids.empty()) choice.observed->after(completion.ids);
  if (!completion.ids.empty() && !has_first_.exchange(true)) served_.metrics.first_token(facts.first_seconds);
  if (completion.finish_reason == rollout::FinishReason::kCancelled) {
    fail(std::make_exception_ptr(
        Refusal(503, "the request was stopped before its end", "", "", "server_error")));
    return;
  }
  // Of an answer in one piece only the end is needed.
  if (has_ended || stream_) choice.completion = completion;
  if (stream_) stream_->tell(choice, has_ended);
  if (has_ended) one_done();
}

void Sampling::one_done() {
  if (--left_ > 0 || failed_) return;
  if (stream_) {
    stream_->end(choices_);
    end(200);
  } else {
    served_.background.run([self = shared_from_this()] { self->finish(); });
  }
}

void Sampling::finish() {
  try {
    end(exchange_->answer({.body = answer_of(told_, choices_, kMostBytes)}));
  } catch (...) {
    fail(std::current_exception());
  }
}

void Sampling::fail(const std::exception_ptr& failure) {
  if (failed_.exchange(true)) return;
  const Refusal refusal = refusal_of(failure);
  int status = refusal.status;
  if (stream_ && stream_->has_begun()) {
    stream_->fail(error_body(refusal));
  } else {
    status = exchange_->answer(answer_of(refusal));
  }
  cancel();
  end(exchange_->gone() ? 499 : status);
}

void Sampling::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (const JobId id : jobs_) served_.scheduler.cancel(id);
}

void Sampling::end(int status) {
  served_.numbers -= numbers_.exchange(0);
  exchange_->when_gone(nullptr);
  if (ended_) ended_(status);
}

}  // namespace hone::serve::openai
