#include "rollout/decoder.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "ops/head/linear_logprob.h"
#include "ops/index_tensor.h"
#include "ops/machine/team.h"
#include "rollout/scores.h"

namespace hone::rollout {

namespace {

// Samples of a prompt that each has a copy of: one that has read nothing begins with a copy of what another has
// read, all but the prompt's last token, whose logits it needs. False: it has to wait, since the other is still reading.
bool begin_with_another(Sequence& sequence, std::span<Sequence* const> others) {
  const std::int64_t copied = sequence.length() - 1;
  const bool begins = sequence.cache.layers.empty() && sequence.completion.ids.empty() && sequence.turns == 0;
  if (!begins || sequence.share_prompt || sequence.group->size == 1 || copied <= sequence.own_from)
    return true;
  const auto other = std::find_if(others.begin(), others.end(), [&](const Sequence* one) {
    return one->group == sequence.group && one->turns == 0;
  });
  if (other == others.end()) return true;
  const model::KvCache& theirs = (*other)->cache;
  if (theirs.layers.empty() || theirs.length < copied) return false;
  if (!theirs.can_truncate(copied)) return true;  // too far ahead: the sample reads the prompt itself
  sequence.cache = theirs.clone();
  sequence.cache.truncate(copied);
  return true;
}

void see(std::vector<std::int32_t>& seen, std::int32_t id) {
  const auto place = std::lower_bound(seen.begin(), seen.end(), id);
  if (place == seen.end() || *place != id) seen.insert(place, id);
}

std::vector<std::int32_t> distinct(std::span<const std::int32_t> ids) {
  std::vector<std::int32_t> out(ids.begin(), ids.end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Those of an adapter side by side, otherwise in order: their rows are one range of a forward.
std::vector<Sequence*> by_adapter(std::span<Sequence* const> live) {
  std::map<const ops::AdapterSides*, std::size_t> first;
  for (std::size_t i = 0; i < live.size(); ++i) first.emplace(live[i]->adapter.get(), i);
  std::vector<Sequence*> out(live.begin(), live.end());
  std::stable_sort(out.begin(), out.end(), [&](const Sequence* a, const Sequence* b) {
    return first.at(a->adapter.get()) < first.at(b->adapter.get());
  });
  return out;
}

bool is_one_adapter(std::span<const Ready> ready) {
  return std::all_of(ready.begin(), ready.end(), [&](const Ready& one) {
    return one.sequence->adapter == ready.front().sequence->adapter;
  });
}

// Some of a step's sequences, with the rows of hidden that are theirs.
struct Rows {
  std::vector<Ready> ready;
  at::Tensor hidden;
};

Rows rows_of(std::span<const Ready> some, const at::Tensor& hidden) {
  Rows out;
  std::vector<std::int64_t> rows;
  for (const Ready& one : some) {
    if (rows.empty() || rows.back() != one.row) rows.push_back(one.row);
    out.ready.push_back({one.sequence, static_cast<std::int64_t>(rows.size()) - 1});
  }
  out.hidden = hidden.index_select(0, ops::index_tensor(rows, hidden.device()));
  return out;
}

}  // namespace

void Decoder::not_finite(const Sequence& sequence) {
  throw base::UserError({.where = sequence.where + ", after token " + std::to_string(sequence.length()),
                         .expected = "finite logits",
                         .found = "infinite or not-a-number values",
                         .cause = "NUM-02: the weights or the adapter hold non-finite values, or some too "
                                  "large for this precision",
                         .fix = "generate without the adapter, and with dtype: float32, to see which"});
}

Draw Decoder::draw(Sampler& sampler, Sequence& sequence, std::span<const float> logits,
                   std::uint64_t ahead) const {
  const RequestOptions& options = *sequence.options;
  const std::uint64_t place = sequence.completion.ids.size() + ahead;
  const bool penalized = options.sampler.repetition_penalty != 1;
  const bool too_early = static_cast<std::int64_t>(place) < options.min_new_tokens;
  const double uniform = sampling_uniform(options.seed, options.step, sequence.key.prompt,
                                          sequence.key.sample, sequence.key.position + place);
  if (!penalized && !too_early && !options.constrain) return sampler.draw(logits, options.sampler, uniform);
  std::vector<float> scores(logits.begin(), logits.end());
  if (penalized) {
    if (sequence.seen.empty()) sequence.seen = distinct(sequence.ids);
    penalize(scores, sequence.seen, options.sampler.repetition_penalty);
  }
  if (too_early) forbid(scores, options.stop_ids);
  if (options.constrain) options.constrain(sequence.completion.ids, scores);
  return sampler.draw(scores, options.sampler, uniform);
}

void Decoder::take(Sequence& sequence, const Draw& draw) const {
  const RequestOptions& options = *sequence.options;
  Completion& completion = sequence.completion;
  const auto id = static_cast<std::int32_t>(draw.id);
  sequence.ids.push_back(id);
  completion.ids.push_back(id);
  completion.sampled_logprobs.push_back(draw.logprob);
  sequence.has_new_token = true;
  if (!sequence.seen.empty()) see(sequence.seen, id);
  const auto& stop_ids = options.stop_ids;
  const bool stops = std::find(stop_ids.begin(), stop_ids.end(), draw.id) != stop_ids.end();
  sequence.has_ended = stops || static_cast<std::int64_t>(completion.ids.size()) >= options.max_new_tokens;
  completion.finish_reason = stops ? FinishReason::kStopToken : FinishReason::kLength;
  if (stops || !options.stops || !options.stops(completion.ids)) return;
  completion.finish_reason = FinishReason::kStopString;
  sequence.has_ended = true;
}

void Decoder::go_through(const Sequence& sequence, std::int64_t rows) {
  const ops::AdapterSides* const sides = sequence.adapter.get();
  const std::int64_t begin = rows_.empty() ? 0 : rows_.back().end;
  if (rows_.empty() || rows_.back().sides != sides)
    rows_.push_back({.begin = begin, .end = begin, .sides = sides});
  rows_.back().end += rows;
}

ops::PassContext Decoder::pass() const {
  const bool is_own = rows_.size() == 1 && rows_.front().sides == nullptr;
  return {.adapter_rows = is_own ? std::span<const ops::AdapterRows>() : rows_};
}

// [rows, V] of the rows of hidden, in the order in which `ready` first names them, which is that of hidden.
at::Tensor Decoder::logits_of(std::span<const Ready> ready, const at::Tensor& hidden) {
  rows_.clear();
  for (std::size_t i = 0; i < ready.size(); ++i)
    if (i == 0 || ready[i].row != ready[i - 1].row) go_through(*ready[i].sequence, 1);
  return model_.logits(hidden, pass());
}

// All that is wanted of a row, so that it is read from the cache after the first pass.
Decoder::Drawn Decoder::drawn_from(Sampler& sampler, Sequence& sequence, const at::Tensor& logits,
                                   std::int64_t row, std::uint64_t ahead) const {
  const auto vocabulary = static_cast<std::size_t>(logits.size(1));
  const std::span<const float> scores(
      logits.const_data_ptr<float>() + static_cast<std::size_t>(row) * vocabulary, vocabulary);
  Drawn out{.finite = all_finite(scores), .draw = {}, .facts = {}};
  if (!out.finite) return out;
  out.draw = draw(sampler, sequence, scores, ahead);
  const RequestOptions& options = *sequence.options;
  if (!options.logprobs && !options.entropies) return out;
  const double temperature = options.sampler.temperature;
  out.facts = facts_of(logits.narrow(0, row, 1), out.draw.id, temperature > 0 ? temperature : 1);
  return out;
}

std::vector<Decoder::Drawn> Decoder::draw_on_host(std::span<const Ready> ready, const at::Tensor& hidden) {
  // [rows, V]: the one copy of a token to the host, where it is drawn and its facts are taken.
  const at::Tensor logits = logits_of(ready, hidden).cpu().contiguous();
  const auto vocabulary = static_cast<std::size_t>(logits.size(1));
  std::vector<Drawn> drawn(ready.size());
  samplers_.resize(std::max(samplers_.size(), static_cast<std::size_t>(at::get_num_threads())));
  // Another thread is worth its while from about 10,000 numbers on.
  const bool alone = ready.size() * vocabulary < 20000;
  ops::in_team(static_cast<std::int64_t>(ready.size()), alone ? 1 : at::get_num_threads(),
               [&](std::int64_t i, std::int64_t thread) {
                 const auto [sequence, at] = ready[static_cast<std::size_t>(i)];
                 drawn[static_cast<std::size_t>(i)] =
                     drawn_from(samplers_[static_cast<std::size_t>(thread)], *sequence, logits, at);
               });
  return drawn;
}

// [places, V]: of each place its row of hidden.
at::Tensor Decoder::logits_at(const std::vector<std::int64_t>& places, std::span<const Ready> ready,
                              const at::Tensor& hidden) {
  std::vector<std::int64_t> in_order(static_cast<std::size_t>(hidden.size(0)));
  std::iota(in_order.begin(), in_order.end(), 0);
  if (places == in_order) return logits_of(ready, hidden);
  const at::Tensor& of_row = draws_.index_of(places);
  if (!is_one_adapter(ready)) return logits_of(ready, hidden).index_select(0, of_row);
  // Rows of hidden are smaller than those of logits.
  rows_.clear();
  go_through(*ready.front().sequence, static_cast<std::int64_t>(places.size()));
  return model_.logits(hidden.index_select(0, of_row), pass());
}

std::vector<Decoder::Drawn> Decoder::draw_on_device(std::span<const Ready> ready, const at::Tensor& hidden) {
  draws_.draw(logits_at(draws_.place(ready), ready, hidden));
  if (may_run_ahead_) try_ahead(ready);
  return drawn_on_device();
}

// Those that the device draws come first.
std::vector<Decoder::Drawn> Decoder::draw_all(std::span<const Ready> ready, const at::Tensor& hidden) {
  const auto border = std::find_if_not(ready.begin(), ready.end(),
                                       [&](const Ready& one) { return draws_.takes(*one.sequence); });
  if (border == ready.end()) return draw_on_device(ready, hidden);
  if (border == ready.begin()) return draw_on_host(ready, hidden);
  const std::size_t count = static_cast<std::size_t>(border - ready.begin());
  const Rows of_device = rows_of(ready.first(count), hidden), of_host = rows_of(ready.subspan(count), hidden);
  std::vector<Drawn> out = draw_on_device(of_device.ready, of_device.hidden);
  for (const Drawn& one : draw_on_host(of_host.ready, of_host.hidden)) out.push_back(one);
  return out;
}

bool Decoder::take_drawn(Sequence& one, const Drawn& its) const {
  if (!its.finite) {
    one.has_ended = true;
    one.completion.finish_reason = FinishReason::kCancelled;
    return false;
  }
  if (one.options->logprobs) one.completion.logprobs.push_back(its.facts.logprob);
  if (one.options->entropies) one.completion.entropies.push_back(its.facts.entropy);
  take(one, its.draw);
  return true;
}

void Decoder::sample(std::span<const Ready> ready, const at::Tensor& hidden, std::size_t& taken) {
  if (guessed_ > 0) return sample_drafts(ready, hidden, taken);
  take(ready, draw_all(ready, hidden), taken);
}

void Decoder::take(std::span<const Ready> ready, std::span<const Drawn> drawn, std::size_t& taken) const {
  const Sequence* bad = nullptr;
  for (const Drawn& its : drawn) {
    Sequence* const one = ready[taken++].sequence;
    if (one != nullptr && !take_drawn(*one, its) && bad == nullptr) bad = one;
  }
  if (bad != nullptr) not_finite(*bad);
}

Decoder::Facts Decoder::facts_of(const at::Tensor& logits, std::int64_t id, double temperature) {
  const at::NoGradGuard no_grad;  // in every thread
  const at::Tensor target = at::full({1}, id, logits.options().dtype(at::kLong));
  const ops::TokenLogprobs facts = ops::logprob_of(logits, target, temperature);
  return {.logprob = facts.logprob.item<float>(), .entropy = facts.entropy.item<float>()};
}

// False: so many tokens are for a later forward. A sequence that has read all before its last token always has its turn.
bool Decoder::add(const Fed& fed, std::int64_t count, bool is_reading) {
  if (is_reading && prefill_ > 0 && prefill_ + count > most_) return false;
  if (is_reading) prefill_ += count;
  const auto from = fed.sequence->ids.begin() + fed.cache().length;
  fed_.push_back(fed);
  ids_.emplace_back(from, from + count);
  if (fed.node != nullptr) fed.node->fed = count;
  return true;
}

void Decoder::make_cache_room(Sequence& sequence) const {
  if (ops::pools_keys(model_.device()))
    sequence.cache.room = sequence.turn - sequence.own_from + sequence.options->max_new_tokens;
}

void Decoder::feed(Sequence& sequence) {
  for (const auto& node : sequence.nodes) {
    if (node->cache.length + node->fed == node->end) continue;
    if (node->fed > 0) return;  // another one reads it
    const std::int64_t count = std::min(node->end - node->cache.length, most_);
    if (!add({&sequence, node.get()}, count, true) || node->cache.length + count < node->end) return;
  }
  model::KvCache& cache = sequence.cache;
  if (cache.layers.empty()) {
    // A prompt's hidden state comes first, and of a convolution and a delta rule what they hold.
    if (sequence.share_prompt && (!sequence.nodes.back()->is_read() || sequence.begins())) return;
    cache.length = sequence.own_from;
    cache.prefix = sequence.nodes.empty() ? nullptr : prefix_of(sequence.nodes.back());
    make_cache_room(sequence);
  }
  const std::int64_t count = std::min(sequence.length() - cache.length, most_);
  const bool is_reading = count > 1 || cache.length < sequence.turn;
  if (add({&sequence, nullptr}, count, is_reading) && drafter_ && !is_reading) guess(sequence);
}

// [parts, H] of what was fed: the hidden state of each part's last token, with guesses [rows, H] (wanted_).
at::Tensor Decoder::forward() {
  if (fed_.empty()) return {};
  std::vector<model::KvCache*> caches;
  rows_.clear();
  wanted_.clear();
  for (std::size_t i = 0; i < fed_.size(); ++i) {
    caches.push_back(&fed_[i].cache());
    go_through(*fed_[i].sequence, static_cast<std::int64_t>(ids_[i].size()));
    if (guessed_ > 0) wanted_.push_back(rows_wanted(fed_[i]));
  }
  try {
    at::Tensor hidden = model_.step(ids_, caches, pass(), wanted_);
    std::int64_t row = 0;
    for (std::size_t i = 0; i < fed_.size(); ++i) {
      computed_ += static_cast<std::int64_t>(ids_[i].size());
      const std::int64_t first = std::exchange(row, row + rows_wanted(fed_[i]));
      KeyNode* const node = fed_[i].node;
      if (node == nullptr) continue;
      node->fed = 0;
      if (node->is_prompt && node->is_read()) node->hidden = hidden.narrow(0, first, 1).clone();
    }
    return hidden;
  } catch (...) {
    // Some layers may have the tokens and others not.
    for (const Fed& one : fed_) {
      if (one.node != nullptr) {
        one.node->forget_tokens();
      } else if (one.cache().length == one.sequence->own_from) {
        one.cache().forget();
      } else {
        one.cache().truncate(one.cache().length);
      }
    }
    throw;
  }
}

void Decoder::advance(std::span<Sequence* const> all) {
  const at::NoGradGuard no_grad;
  if (!ahead_.empty() && finish_ahead(all)) return;
  const std::vector<Sequence*> sorted = by_adapter(all);
  const std::span<Sequence* const> live = sorted;
  fed_.clear();
  ids_.clear();
  prefill_ = 0;
  begin_guesses(live);
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (!live[i]->begins() && begin_with_another(*live[i], live.first(i))) feed(*live[i]);
  }
  const at::Tensor hidden = forward();
  std::vector<Ready> ready;
  std::vector<at::Tensor> rows;
  std::int64_t row = 0;
  for (const Fed& fed : fed_) {
    const std::int64_t first = std::exchange(row, row + rows_wanted(fed));
    const auto [sequence, node] = fed;
    if (node != nullptr || sequence->cache.length < sequence->length()) continue;
    for (std::int64_t at = first; at < row; ++at) {
      ready.push_back({sequence, static_cast<std::int64_t>(rows.size())});
      rows.push_back(hidden.narrow(0, at, 1));
    }
  }
  // What is being read gives no row of its own: as many rows as were fed may still be others.
  const auto fed_rows = static_cast<std::size_t>(row);
  const bool all_fed = ready.size() == fed_rows;
  std::size_t taken = 0;
  try {
    // Now, since the one that has read may be done with its first token.
    for (std::size_t i = 0; i < live.size(); ++i) begin_with_another(*live[i], live.first(i));
    const KeyNode* before = nullptr;  // the samples of a prompt are neighbors
    for (Sequence* const one : live) {
      if (!one->begins()) continue;
      const KeyNode& prompt = *one->nodes.back();
      one->cache = model::KvCache::after(prefix_of(one->nodes.back()));
      if (&prompt != before) rows.push_back(prompt.hidden);
      before = &prompt;
      ready.push_back({one, static_cast<std::int64_t>(rows.size()) - 1});
    }
    std::stable_partition(ready.begin(), ready.end(),
                          [&](const Ready& one) { return draws_.takes(*one.sequence); });
    may_run_ahead_ = ready.size() == live.size() && runs_ahead(ready);
    if (!ready.empty()) sample(ready, all_fed && ready.size() == fed_rows ? hidden : at::cat(rows), taken);
    if (drafter_ && all_fed && ready.size() == fed_rows) end_guesses();
  } catch (...) {
    read_again(std::span(ready).subspan(taken));
    throw;
  }
  drop_ended();
  tell_failed();
}

}  // namespace hone::rollout
