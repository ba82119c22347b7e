// The step that a device does while the host reads the tokens of the one before (Decoder::advance has the rule).
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "ops/sampling/sample_tokens.h"
#include "rollout/decoder.h"

namespace hone::rollout {

bool Decoder::runs_ahead(std::span<const Ready> ready) const {
  const auto needs_no_host = [&](const Ready& one) {
    return draws_.takes(*one.sequence) && !one.sequence->options->stops;
  };
  const bool all_are_drawn = std::all_of(ready.begin(), ready.end(), needs_no_host);
  const bool runs = all_are_drawn && model_.takes_drawn_ids();
  if (graphs_ && !runs && !ready.empty()) ops::tell_no_step_graph(why_not_ahead(all_are_drawn));
  return runs;
}

const char* Decoder::why_not_ahead(bool all_are_drawn) const {
  if (!ops::draws_tokens(model_.device())) return "tokens are drawn on the host, without hone's own kernels";
  if (all_are_drawn) return "the model has layers for which the host looks at each token";
  return "the host looks at each token of some requests, for stop strings or a constraint";
}

// Starts the step after the one whose tokens those of `last` have drawn, and the host has not read.
void Decoder::step_ahead(std::span<const Ready> last) {
  std::vector<std::size_t> which;
  std::vector<Ready> next;
  std::vector<model::KvCache*> caches;
  std::vector<std::int64_t> before;
  for (std::size_t i = 0; i < last.size(); ++i) {
    Sequence* const one = last[i].sequence;
    if (one == nullptr) continue;
    // What it has drawn is its last token, whatever it is.
    if (static_cast<std::int64_t>(one->completion.ids.size()) + 1 >= one->options->max_new_tokens) continue;
    next.push_back({one, static_cast<std::int64_t>(which.size())});
    which.push_back(i);
    caches.push_back(&one->cache);
    before.push_back(one->cache.length);
  }
  const std::vector<std::int64_t> places = draws_.go_on(which);
  if (places.empty()) return;
  rows_.clear();
  for (const Ready& one : next) {
    if (one.sequence->cache.layers.empty()) make_cache_room(*one.sequence);
    go_through(*one.sequence, 1);
  }
  try {
    const std::string why_not = graphs_ ? why_no_graph() : "graphs are not wanted";
    if (why_not.empty()) {
      step_by_graph(next);
    } else {
      if (graphs_) ops::tell_no_step_graph(why_not);
      const at::Tensor hidden = model_.step_drawn(draws_.last_ids(), caches, pass());
      draws_.draw(logits_at(places, next, hidden));
    }
    computed_ += static_cast<std::int64_t>(next.size());
  } catch (...) {
    // Some layers may have the tokens and others not.
    for (std::size_t i = 0; i < next.size(); ++i) {
      model::KvCache& cache = *caches[i];
      if (before[i] > next[i].sequence->own_from) {
        cache.truncate(before[i]);
      } else {
        cache.forget();
        cache.length = before[i];
      }
    }
    throw;
  }
  ahead_ = std::move(next);
}

std::string Decoder::why_no_graph() const {
  if (!graphs_->why_not().empty()) return graphs_->why_not();
  if (rows_.size() != 1 || rows_.front().sides != nullptr) return "some requests have adapters of their own";
  if (model_.config().experts.count > 0)
    return "the model has experts, and where they are not multiplied in groups the host reads how many tokens each gets";
  if (!model_.has_listed_steps())
    return "the model has layers whose keys are not in pages, or queries that are scaled by their position";
  return "";
}

// Rows that draw nothing are nobody's in the model too.
void Decoder::step_by_graph(std::span<const Ready> next) {
  std::vector<model::KvCache*> caches(static_cast<std::size_t>(draws_.rows()), nullptr);
  for (std::size_t i = 0; i < next.size(); ++i) caches[draws_.row_of(i)] = &next[i].sequence->cache;
  model_.list_step(caches);
  draws_.settle();
  std::vector<std::int64_t> form = model_.listed_form();
  draws_.put_form(form);
  graphs_->run(form, [this] {
    const at::NoGradGuard no_grad;
    // A row that is nobody's, or whose logits were not finite, has no token.
    const at::Tensor hidden = model_.listed_step(draws_.ids().clamp_min(0), {});
    draws_.step(model_.logits(hidden, {}));
  });
  draws_.send();
}

// The tokens that were drawn before come first, whatever happens.
void Decoder::try_ahead(std::span<const Ready> last) {
  try {
    step_ahead(last);
  } catch (...) {
    failed_ = std::current_exception();
  }
}

void Decoder::tell_failed() {
  if (!failed_) return;
  if (graphs_) graphs_->clear();
  draws_.begin_again();
  std::rethrow_exception(std::exchange(failed_, nullptr));
}

// The tokens of the step that was started, after the next one is where the batch is still the same. False: it was for nobody here.
bool Decoder::finish_ahead(std::span<Sequence* const> live) {
  const std::vector<Ready> last = std::exchange(ahead_, {});
  const auto wanted =
      std::count_if(last.begin(), last.end(), [](const Ready& one) { return one.sequence != nullptr; });
  if (wanted == 0) {
    draws_.take();
    return false;
  }
  if (wanted == static_cast<std::ptrdiff_t>(live.size())) try_ahead(last);
  std::size_t taken = 0;
  try {
    take(last, drawn_on_device(), taken);
  } catch (...) {
    read_again(std::span(last).subspan(taken));
    throw;
  }
  drop_ended();
  tell_failed();
  return true;
}

std::vector<Decoder::Drawn> Decoder::drawn_on_device() {
  std::vector<Drawn> drawn;
  for (const DeviceSampler::Token& token : draws_.take())
    drawn.push_back({.finite = token.is_finite,
                     .draw = {.id = token.id, .logprob = token.sampled_logprob},
                     .facts = {.logprob = token.logprob, .entropy = token.entropy}});
  return drawn;
}

// After an error. What was not drawn is read again: a sequence's last token, or it begins again with its prompt's hidden state.
// The device may have drawn what the host has not read, so that its rows begin again too.
void Decoder::read_again(std::span<const Ready> ready) {
  drop_all();
  draws_.begin_again();
  for (const auto& [one, row] : ready) {
    if (one == nullptr || one->cache.layers.empty()) continue;
    if (one->length() > one->own_from) {
      one->cache.truncate(one->length() - 1);
    } else {
      one->cache.forget();
    }
  }
}

void Decoder::drop(const Sequence& sequence) {
  for (Ready& one : ahead_) {
    if (one.sequence != &sequence) continue;
    model::KvCache& cache = one.sequence->cache;
    cache.truncate(cache.length - 1);
    one.sequence = nullptr;
  }
}

void Decoder::drop_ended() {
  for (Ready& one : ahead_)
    if (one.sequence != nullptr && one.sequence->has_ended) drop(*one.sequence);
}

void Decoder::drop_all() {
  if (graphs_) graphs_->clear();
  const bool failed = std::exchange(failed_, nullptr) != nullptr;
  if (ahead_.empty() && !failed) return;
  for (const Ready& one : ahead_)
    if (one.sequence != nullptr) drop(*one.sequence);
  ahead_.clear();
  draws_.begin_again();
}

}  // namespace hone::rollout
