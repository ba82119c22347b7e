#include "rollout/decoder.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/error.h"
#include "model/config/rotations.h"
#include "ops/head/linear_logprob.h"
#include "ops/machine/team.h"
#include "rollout/kv_memory.h"
#include "rollout/scores.h"

namespace hone::rollout {

namespace {

// Where the next tokens of `sequence` go.
model::KvCache& growing(Sequence& sequence) {
  return sequence.shared && sequence.cache.length == 0 ? sequence.shared->cache : sequence.cache;
}

// The samples of a shared prompt that has been read begin after it.
bool begins(const Sequence& sequence) {
  return sequence.shared && sequence.cache.length == 0 && sequence.shared->hidden.defined();
}

// A prompt is read once: a sample of it that has read nothing begins with a copy of what another has read,
// all but the last token, whose logits it needs. False: it has to wait, since the other is still reading.
bool begin_with_another(Sequence& sequence, std::span<const Sequence> others) {
  const auto shared = static_cast<std::int64_t>(sequence.prompt.size()) - 1;
  if (sequence.shared || sequence.cache.length > 0 || shared == 0) return true;
  const auto other = std::find_if(others.begin(), others.end(), [&](const Sequence& one) {
    return one.prompt_index == sequence.prompt_index && one.sample != sequence.sample;
  });
  if (other == others.end()) return true;
  if (other->cache.length < shared) return false;
  if (!other->cache.can_truncate(shared)) return true;  // too far ahead: the sample reads the prompt itself
  sequence.cache = other->cache.clone();
  sequence.cache.truncate(shared);
  return true;
}

std::vector<std::int64_t> tokens_from(const Sequence& sequence, std::int64_t begin, std::int64_t count) {
  std::vector<std::int64_t> out;
  const auto prompt = static_cast<std::int64_t>(sequence.prompt.size());
  for (std::int64_t i = begin; i < begin + count; ++i) {
    out.push_back(i < prompt ? sequence.prompt[static_cast<std::size_t>(i)]
                             : sequence.completion.ids[static_cast<std::size_t>(i - prompt)]);
  }
  return out;
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

[[noreturn]] void not_finite(const Sequence& sequence) {
  throw base::UserError({.where = "prompt " + std::to_string(sequence.prompt_index + 1) + ", after token " +
                                  std::to_string(sequence.cache.length),
                         .expected = "finite logits",
                         .found = "infinite or not-a-number values",
                         .cause = "NUM-02: the weights or the adapter hold non-finite values, or some too "
                                  "large for this precision",
                         .fix = "generate without the adapter, and with dtype: float32, to see which"});
}

}  // namespace

void check_prompt(std::span<const std::int32_t> prompt, const model::ModelConfig& model,
                  const GenerateOptions& options, const std::string& where) {
  if (prompt.empty()) {
    throw base::UserError({.where = where,
                           .expected = "at least one token",
                           .found = "an empty prompt",
                           .fix = "give the prompt some text"});
  }
  const auto length = static_cast<std::int64_t>(prompt.size());
  const std::int64_t most = model::longest_generated(model);
  const bool by_factors = most < model.max_position_embeddings;
  // Subtracted, so that no max_new_tokens overflows.
  if (length <= most && options.max_new_tokens <= most - length) return;
  throw base::UserError(
      {.where = where,
       .expected = "at most the model's " + std::to_string(most) + " positions (" +
                   (by_factors ? "original_" : "") + "max_position_embeddings) for prompt and completion",
       .found = "a prompt of " + std::to_string(length) + " tokens and max_new_tokens " +
                std::to_string(options.max_new_tokens),
       .cause = by_factors ? "beyond them longrope has other factors, for the whole sequence"
                           : "the model was not trained on later positions",
       .fix = "lower max_new_tokens or shorten the prompt"});
}

void check_stop_ids(const model::ModelConfig& model, const GenerateOptions& options) {
  for (const std::int64_t id : options.stop_ids) {
    if (id >= 0 && id < model.vocab_size) continue;
    throw base::UserError(
        {.where = "the stop token " + std::to_string(id),
         .expected = "a token that the model can produce, 0 to " + std::to_string(model.vocab_size - 1),
         .found = std::to_string(id),
         .cause = "the tokenizer has tokens without a logit in the model, so no completion would end",
         .fix = "use the model's own tokenizer, or name another stop token"});
  }
}

Draw Decoder::draw(Sampler& sampler, Sequence& sequence, std::span<const float> logits) const {
  const std::uint64_t position = sequence.completion.ids.size();
  const bool penalized = options_.sampler.repetition_penalty != 1;
  const bool too_early = static_cast<std::int64_t>(position) < options_.min_new_tokens;
  const std::size_t key =
      options_.prompt_keys.empty() ? sequence.prompt_index : options_.prompt_keys.at(sequence.prompt_index);
  const double uniform = sampling_uniform(options_.seed, options_.step, key, sequence.sample, position);
  if (!penalized && !too_early && !options_.constrain) return sampler.draw(logits, options_.sampler, uniform);
  std::vector<float> scores(logits.begin(), logits.end());
  if (penalized) {
    if (sequence.seen.empty()) sequence.seen = distinct(sequence.prompt);
    penalize(scores, sequence.seen, options_.sampler.repetition_penalty);
  }
  if (too_early) forbid(scores, options_.stop_ids);
  if (options_.constrain) options_.constrain(sequence.completion.ids, scores);
  return sampler.draw(scores, options_.sampler, uniform);
}

void Decoder::take(Sequence& sequence, const Draw& draw) const {
  Completion& completion = sequence.completion;
  const auto id = static_cast<std::int32_t>(draw.id);
  completion.ids.push_back(id);
  completion.sampled_logprobs.push_back(draw.logprob);
  if (!sequence.seen.empty()) see(sequence.seen, id);
  const auto& stop_ids = options_.stop_ids;
  sequence.done = true;
  if (std::find(stop_ids.begin(), stop_ids.end(), draw.id) != stop_ids.end()) {
    completion.finish_reason = FinishReason::kStopToken;
  } else if (options_.stops && options_.stops(completion.ids)) {
    completion.finish_reason = FinishReason::kStopString;
  } else {
    sequence.done = static_cast<std::int64_t>(completion.ids.size()) >= options_.max_new_tokens;
  }
}

void Decoder::sample(std::span<const Ready> ready, const at::Tensor& hidden) {
  // [rows, V]: the one copy of a token to the host, where it is drawn and its facts are taken.
  const at::Tensor logits = model_.logits(hidden).cpu().contiguous();
  const auto vocabulary = static_cast<std::size_t>(logits.size(1));
  const float* const rows = logits.const_data_ptr<float>();
  const bool recorded = options_.logprobs || options_.entropies;
  struct Drawn {
    bool finite = false;
    Draw draw;
    Facts facts;
  };
  std::vector<Drawn> drawn(ready.size());
  samplers_.resize(std::max(samplers_.size(), static_cast<std::size_t>(at::get_num_threads())));
  // A row at a time, all that is wanted of it, so that it is read from the cache after the first pass.
  // Another thread is worth its while from about 10,000 numbers on.
  const bool alone = ready.size() * vocabulary < 20000;
  ops::in_team(static_cast<std::int64_t>(ready.size()), alone ? 1 : at::get_num_threads(),
               [&](std::int64_t i, std::int64_t thread) {
                 const auto [sequence, at] = ready[static_cast<std::size_t>(i)];
                 Drawn& out = drawn[static_cast<std::size_t>(i)];
                 const std::span<const float> row(rows + static_cast<std::size_t>(at) * vocabulary,
                                                  vocabulary);
                 out.finite = all_finite(row);
                 if (!out.finite) return;
                 out.draw = draw(samplers_[static_cast<std::size_t>(thread)], *sequence, row);
                 if (recorded) out.facts = facts_of(logits.narrow(0, at, 1), out.draw.id);
               });
  for (std::size_t i = 0; i < ready.size(); ++i) {
    if (!drawn[i].finite) not_finite(*ready[i].sequence);
  }
  for (std::size_t i = 0; i < ready.size(); ++i) {
    Completion& completion = ready[i].sequence->completion;
    if (options_.logprobs) completion.logprobs.push_back(drawn[i].facts.logprob);
    if (options_.entropies) completion.entropies.push_back(drawn[i].facts.entropy);
    take(*ready[i].sequence, drawn[i].draw);
  }
}

Decoder::Facts Decoder::facts_of(const at::Tensor& logits, std::int64_t id) const {
  const at::NoGradGuard no_grad;  // in every thread
  const double temperature = options_.sampler.temperature > 0 ? options_.sampler.temperature : 1;
  const at::Tensor target = at::full({1}, id, logits.options().dtype(at::kLong));
  const ops::TokenLogprobs facts = ops::logprob_of(logits, target, temperature);
  return {.logprob = facts.logprob.item<float>(), .entropy = facts.entropy.item<float>()};
}

void Decoder::advance(std::span<Sequence> live) {
  const at::NoGradGuard no_grad;
  std::vector<std::vector<std::int64_t>> ids;
  std::vector<model::KvCache*> caches;
  std::vector<Sequence*> fed;
  std::int64_t prefill = 0;
  const std::int64_t most = std::max<std::int64_t>(1, options_.prefill_tokens);
  for (std::size_t i = 0; i < live.size(); ++i) {
    Sequence& one = live[i];
    if (begins(one) || !begin_with_another(one, live.first(i))) continue;
    model::KvCache& cache = growing(one);
    if (std::find(caches.begin(), caches.end(), &cache) != caches.end()) continue;  // another sample reads it
    const std::int64_t count = std::min(one.length() - cache.length, most);
    const bool of_prompt = cache.length < static_cast<std::int64_t>(one.prompt.size());
    if (of_prompt && prefill > 0 && prefill + count > most) continue;
    if (of_prompt) prefill += count;
    if (cache.layers.empty() && cache.room == 0)
      cache.room = first_room(static_cast<std::int64_t>(one.prompt.size()), options_, model_.device());
    ids.push_back(tokens_from(one, cache.length, count));
    caches.push_back(&cache);
    fed.push_back(&one);
  }
  at::Tensor hidden;
  if (!fed.empty()) hidden = model_.step(ids, caches, {});
  // Now, since the one that has read may be done with its first token.
  for (std::size_t i = 0; i < live.size(); ++i) begin_with_another(live[i], live.first(i));

  std::vector<Ready> ready;
  std::vector<at::Tensor> rows;
  for (std::size_t i = 0; i < fed.size(); ++i) {
    if (caches[i]->length < fed[i]->length()) continue;
    const at::Tensor row = hidden.narrow(0, static_cast<std::int64_t>(i), 1);
    if (caches[i] != &fed[i]->cache) {
      fed[i]->shared->hidden = row.clone();
      continue;
    }
    ready.push_back({fed[i], static_cast<std::int64_t>(rows.size())});
    rows.push_back(row);
  }
  // A prompt that is being read gives no row of its own: as many rows as sequences were fed may still be others.
  const bool all_fed = ready.size() == fed.size();
  const SharedPrompt* before = nullptr;  // the samples of a prompt are neighbors
  for (Sequence& one : live) {
    if (!begins(one)) continue;
    one.cache = model::KvCache::after({one.shared, &one.shared->cache});
    if (one.shared.get() != before) rows.push_back(one.shared->hidden);
    before = one.shared.get();
    ready.push_back({&one, static_cast<std::int64_t>(rows.size()) - 1});
  }
  if (ready.empty()) return;
  sample(ready, all_fed && ready.size() == fed.size() ? hidden : at::cat(rows));
}

}  // namespace hone::rollout
