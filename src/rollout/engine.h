// The sampler: requests of a model decode together, one forward at a time. They come and go at any moment, each
// with options, randomness and stops of its own, and one that has ended goes on when it is given more tokens.
//
//   Engine engine(model, {.batch_size = 8});
//   const RequestId id = engine.add({.ids = prompt, .options = options});
//   while (engine.advance()) {
//     for (const Event& event : engine.poll()) show(engine.completion(event.id));
//   }
//   engine.append(id, {.ids = answer_of_a_tool, .options = options});
//
// Life of a request: it waits, in order, until there is a place in the batch and memory for all its tokens; it
// decodes; it ends (FinishReason) and stays, until forget() or take(), so that append() can continue it.
//
// Memory. Keys and values of all requests take at most EngineOptions::kv_memory bytes, counted as they are
// allocated, without a forward's own memory. A request that decodes has room for all its max_new_tokens from the
// beginning, so it is never stopped. One that has ended keeps its keys while nobody needs the room; then those that
// were used the longest ago lose theirs first, and append() computes them again.
//
// Adapters. Requests may each name one (adapters/adapter_set.h), and decode beside requests of other adapters and of none:
// one product of the base for all of them, and the small ones of each adapter for its own.
//
// Bits. With products of hone's own kernels (AVX2 or more) a request's tokens, log-probabilities and entropies are a
// function of its tokens, its options, its DrawKey, its adapter and the model: not of the other requests, of when they came, of
// the options of the engine, of memory, of what was shared with or kept for it, or of where its tokens came from
// (a prompt of a + b, or a prompt of a that b was appended to; with share_prompt the first is another request than the
// second, since its prompt ends elsewhere). Elsewhere libtorch's products differ in their last bits with the number
// of rows.
//
// Drafts. With EngineOptions::drafts a request may get several tokens in one advance(): those that it would have got in as
// many.
//
// Where the device draws tokens itself, it may begin the next step before advance() has told of one's tokens. Nothing here shows that
// but EngineFacts::computed, which then also counts tokens that were read after the last one of a request, and taken back.
//
// Threads: all functions are for one caller's thread; kernels use at::get_num_threads(). The model must outlive the
// engine, and must not change while requests decode; after a change (another adapter, an update) call lose_keys().
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/causal_lm.h"
#include "ops/linear.h"
#include "rollout/completion.h"

namespace hone::rollout {

struct Sequence;
class Decoder;
class KeyMemory;

using RequestId = std::uint64_t;  // 1, 2, 3, ... of an engine

// Together with seed and step: which random numbers decide a completion (sampler.h, sampling_uniform). Its token i has
// those of position + i.
struct DrawKey {
  std::uint64_t prompt = 0, sample = 0, position = 0;
};

struct Request {
  std::vector<std::int32_t> ids;  // the prompt
  RequestOptions options;
  DrawKey key = {};
  // So many requests of this prompt, with consecutive ids and DrawKey::sample: the prompt is read once. They wait side
  // by side.
  std::int64_t samples = 1;
  std::string where = "the prompt";  // names it in errors
  // Its adapter, also of what is appended; null: the model as it is, with or without an adapter of its own.
  std::shared_ptr<const ops::AdapterSides> adapter = {};
  // It has what was said after this prompt before (former_texts.h), for guesses, and decides no bit. Null: nothing is known.
  std::shared_ptr<const Texts> former = {};
};

// What append() adds to a request that has ended: tokens, and another completion after them.
struct Continuation {
  std::vector<std::int32_t> ids;  // may be empty
  RequestOptions options;         // share_prompt and share_prefixes stay those of the request
  DrawKey key = {};
  // Of the tokens that the request has, so many from the first on stay, at least one; negative: all. What differs after
  // them is read again, the rest is not.
  std::int64_t keep = -1;
};

// A request has a new token (with drafts one or more), or has ended, or both.
struct Event {
  RequestId id = 0;
  bool has_token = false, has_ended = false;
};

struct EngineFacts {
  std::size_t waiting = 0, decoding = 0, ended = 0;
  std::int64_t booked = 0;    // bytes of keys and values that are promised
  std::int64_t held = 0;      // bytes of them that are allocated, at most `booked`
  std::int64_t computed = 0;  // tokens that went through the model so far
  std::int64_t lost = 0;      // times that keys were let go because their room was needed
};

class Engine {
 public:
  Engine(const model::CausalLm& model, EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The id of the request, or of its first sample. UserError: no tokens, a token outside the vocabulary, more tokens
  // with max_new_tokens than the model has positions or than a given kv_memory holds, a stop token that the model
  // cannot produce, an adapter beside one of the model that is more than sides of linears. Nothing has changed then.
  RequestId add(Request request);
  // The request, which has ended, waits again, behind all others; completion() is then the new one. UserError as add(),
  // and nothing has changed then.
  void append(RequestId id, Continuation continuation);
  // It ends now (FinishReason::kCancelled), with what it has; nothing happens to one that has ended.
  void cancel(RequestId id);
  void forget(RequestId id);  // in any state: it is gone, with its memory
  // Drops all keys and values that are kept, which were computed with other weights. Sequences that decode compute
  // theirs again.
  void lose_keys();

  // One forward, in which each request that has read its tokens gets a new one (with drafts one or more) and others read
  // up to prefill_tokens of theirs, in order. False: no request waits or decodes. What happened is in poll().
  // UserError for logits that are not finite: such requests are cancelled, the others have their tokens. Any other
  // exception (of the options' functions, of the machine) leaves every request as it was before, or with its token;
  // advance() may be called again.
  bool advance();
  // Returns what has happened since the last call, in the order of the requests in the batch.
  std::vector<Event> poll();

  const Completion& completion(RequestId id) const;  // so far
  std::span<const std::int32_t> tokens(
      RequestId id) const;  // all: prompt, completion, what was appended, ...
  std::optional<std::size_t> requests_before(RequestId id) const;  // of those that wait; nothing: it does not
  bool has_ended(RequestId id) const;
  // How many of its tokens were not computed for its last turn, since their keys were there when it joined the batch.
  std::int64_t reused(RequestId id) const;
  Completion take(RequestId id);  // of one that has ended; it is forgotten
  EngineFacts facts() const;

 private:
  Sequence& find(RequestId id) const;
  void check(const Sequence& sequence) const;
  void join();
  void leave();

  const model::CausalLm& model_;
  const EngineOptions options_;
  std::unique_ptr<KeyMemory> memory_;
  std::unique_ptr<Decoder> decoder_;
  std::map<RequestId, std::unique_ptr<Sequence>> all_;  // but those that are forgotten
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> live_;  // in the order in which they joined
  std::vector<Event> events_;
  RequestId last_id_ = 0;
};

}  // namespace hone::rollout
