#include "rollout/engine.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "model/config/rotations.h"
#include "rollout/decoder.h"
#include "rollout/key_memory.h"
#include "rollout/sequence.h"

namespace hone::rollout {
namespace {

void check_stop_ids(const model::ModelConfig& model, const RequestOptions& options) {
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

// `length`: tokens before the completion.
void check_length(std::int64_t length, const model::ModelConfig& model, const RequestOptions& options,
                  const std::string& where) {
  if (length == 0) {
    throw base::UserError({.where = where,
                           .expected = "at least one token",
                           .found = "an empty prompt",
                           .fix = "give the prompt some text"});
  }
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

}  // namespace

Engine::Engine(const model::CausalLm& model, EngineOptions options)
    : model_(model),
      options_(std::move(options)),
      memory_(std::make_unique<KeyMemory>(model, options_)),
      decoder_(std::make_unique<Decoder>(model, options_)) {
  base::require(options_.batch_size > 0, "rollout::Engine", "at least one sequence");
}

Engine::~Engine() = default;

Sequence& Engine::find(RequestId id) const {
  const auto place = all_.find(id);
  base::require(place != all_.end(), "rollout::Engine", "the id of a request that is not forgotten");
  return *place->second;
}

void Engine::check(const Sequence& sequence) const {
  const RequestOptions& options = *sequence.options;
  base::require(options.max_new_tokens > 0, "rollout::Engine", "at least one new token");
  check_stop_ids(model_.config(), options);
  check_length(sequence.length(), model_.config(), options, sequence.where);
  model_.require_ids(sequence.ids);
  if (sequence.adapter && !model_.takes_other_adapters()) {
    throw base::UserError({.where = sequence.where,
                           .expected = "a model whose own adapter is LoRA or DoRA of linears alone",
                           .found = "one that trains rows of the embedding, whole tensors or experts",
                           .cause = "requests of other adapters would go through those too",
                           .fix = "give such an adapter an engine of its own"});
  }
  memory_->require_room(sequence);
}

RequestId Engine::add(Request request) {
  base::require(request.samples > 0, "rollout::Engine", "at least one sample");
  Sequence first;
  first.where = std::move(request.where);
  first.ids = std::move(request.ids);
  first.turn = first.length();
  first.share_prompt = request.options.share_prompt;
  first.share_prefixes = request.options.share_prefixes;
  first.options = std::make_shared<const RequestOptions>(std::move(request.options));
  first.key = request.key;
  first.adapter = std::move(request.adapter);
  memory_->lay_out(first);
  check(first);
  first.group = std::make_shared<PromptGroup>();
  first.group->prompt = first.length();
  first.group->size = first.group->to_begin = request.samples;
  first.group->former = std::move(request.former);
  const RequestId id = last_id_ + 1;
  for (std::int64_t i = 0; i < request.samples; ++i) {
    auto one = std::make_unique<Sequence>();
    one->id = ++last_id_;
    one->where = first.where;
    one->ids = first.ids;
    one->turn = first.turn;
    one->options = first.options;
    one->adapter = first.adapter;
    one->key = first.key;
    one->key.sample += static_cast<std::uint64_t>(i);
    one->tree_end = first.tree_end;
    one->own_from = first.own_from;
    one->share_prompt = first.share_prompt;
    one->share_prefixes = first.share_prefixes;
    one->group = first.group;
    waiting_.push_back(one.get());
    all_.emplace(one->id, std::move(one));
  }
  return id;
}

void Engine::append(RequestId id, Continuation continuation) {
  Sequence& old = find(id);
  base::require(old.has_ended, "rollout::Engine::append", "a request that has ended");
  const std::int64_t keep = continuation.keep < 0 ? old.length() : continuation.keep;
  base::require(keep > 0 && keep <= old.length(), "rollout::Engine::append", "tokens to keep");
  Sequence next;
  next.where = old.where;
  next.ids.assign(old.ids.begin(), old.ids.begin() + keep);
  next.ids.insert(next.ids.end(), continuation.ids.begin(), continuation.ids.end());
  next.turn = next.length();
  next.options = std::make_shared<const RequestOptions>(std::move(continuation.options));
  next.adapter = old.adapter;
  next.share_prompt = old.share_prompt;
  next.share_prefixes = old.share_prefixes;
  next.tree_end = old.tree_end;
  next.own_from = old.own_from;
  const bool is_other = keep < old.own_from || (!old.share_prompt && next.length() == old.own_from);
  if (is_other) memory_->lay_out(next);
  check(next);

  if (is_other) memory_->lose(old);
  if (keep < old.group->prompt) {
    old.leave_group();
    old.group = std::make_shared<PromptGroup>();
    old.group->prompt = next.length();
  }
  // The last token is read again even if it is there: its logits are needed.
  const std::int64_t most = std::max(next.own_from, std::min(keep, next.length() - 1));
  if (!old.cache.layers.empty() && old.cache.length > most) old.cache.truncate(most);
  if (old.cache.length == old.own_from) old.cache.forget();
  old.ids = std::move(next.ids);
  old.turn = next.turn;
  old.turns += 1;
  old.options = std::move(next.options);
  old.key = continuation.key;
  old.tree_end = next.tree_end;
  old.own_from = next.own_from;
  old.completion = {};
  old.seen.clear();
  old.has_ended = false;
  memory_->settle(old);
  waiting_.push_back(&old);
}

void Engine::cancel(RequestId id) {
  Sequence& one = find(id);
  if (one.has_ended) return;
  one.has_ended = true;
  one.completion.finish_reason = FinishReason::kCancelled;
  decoder_->drop(one);
  if (!one.is_live) {
    std::erase(waiting_, &one);
    one.leave_group();
    events_.push_back({.id = id, .has_token = false, .has_ended = true});
  }
  leave();
}

void Engine::forget(RequestId id) {
  cancel(id);
  std::erase_if(events_, [id](const Event& one) { return one.id == id; });
  all_.erase(id);
}

void Engine::lose_keys() {
  decoder_->drop_all();
  memory_->lose_all(all_);
}

void Engine::join() {
  memory_->reserve(waiting_);
  while (!waiting_.empty() && static_cast<std::int64_t>(live_.size()) < options_.batch_size) {
    Sequence& one = *waiting_.front();
    if (!memory_->admit(one, all_, live_.empty())) return;
    waiting_.pop_front();
    one.is_live = true;
    live_.push_back(&one);
  }
}

// Tells what has happened to those in the batch, and takes those out that have ended.
void Engine::leave() {
  for (Sequence* const one : live_) {
    if (one->has_new_token || one->has_ended)
      events_.push_back({.id = one->id, .has_token = one->has_new_token, .has_ended = one->has_ended});
    one->has_new_token = false;
    if (!one->has_ended) continue;
    one->is_live = false;
    memory_->settle(*one);
  }
  std::erase_if(live_, [](const Sequence* one) { return one->has_ended; });
}

bool Engine::advance() {
  join();
  if (live_.empty()) return false;
  try {
    decoder_->advance(live_);
  } catch (...) {
    leave();
    throw;
  }
  leave();
  return true;
}

std::vector<Event> Engine::poll() {
  return std::exchange(events_, {});
}

const Completion& Engine::completion(RequestId id) const {
  return find(id).completion;
}

std::span<const std::int32_t> Engine::tokens(RequestId id) const {
  return find(id).ids;
}

std::optional<std::size_t> Engine::requests_before(RequestId id) const {
  const auto place = std::find(waiting_.begin(), waiting_.end(), &find(id));
  if (place == waiting_.end()) return {};
  return static_cast<std::size_t>(place - waiting_.begin());
}

bool Engine::has_ended(RequestId id) const {
  return find(id).has_ended;
}

std::int64_t Engine::reused(RequestId id) const {
  return find(id).reused;
}

Completion Engine::take(RequestId id) {
  Sequence& one = find(id);
  base::require(one.has_ended, "rollout::Engine::take", "a request that has ended");
  Completion out = std::move(one.completion);
  forget(id);
  return out;
}

EngineFacts Engine::facts() const {
  return {.waiting = waiting_.size(),
          .decoding = live_.size(),
          .ended = all_.size() - waiting_.size() - live_.size(),
          .booked = memory_->booked(),
          .held = memory_->held(all_),
          .computed = decoder_->computed(),
          .lost = memory_->lost()};
}

}  // namespace hone::rollout
