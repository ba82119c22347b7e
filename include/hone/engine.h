// Sampling. Requests of one model decode together, one pass at a time; they come and go at any moment.
//
//   hone::Engine engine(model);
//   const hone::RequestId id = engine.add({.prompt = prompt, .max_new_tokens = 64});
//   while (engine.advance()) {}
//   std::cout << model.decode(engine.take(id).ids);
//
// With products of hone's own kernels (AVX2 or more) a completion is a function of its request and the model
// alone, bit for bit, not of the requests beside it. At a temperature of 1 or 0 its log-probabilities are those
// that a step (step.h) computes again. At another one they are of another distribution than a step's, and no ratio of the two
// means anything.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hone/model.h"

namespace hone {

using RequestId = std::uint64_t;

struct Request {
  std::vector<std::int32_t> prompt;  // one token or more
  std::int64_t max_new_tokens = 64;
  double temperature = 0;  // 0: the most likely token
  double top_p = 1;        // 1: off
  std::int64_t top_k = 0;  // 0: off
  // Together they decide which tokens are drawn. Requests that differ only in `sample` are drawn
  // independently.
  std::uint64_t seed = 42, sample = 0;
};

struct Completion {
  std::vector<std::int32_t> ids;  // a stop token is the last one
  // Of each, in the model's own distribution at this temperature (1 if it is 0).
  std::vector<float> logprobs;
  bool stopped = false;  // false: it has max_new_tokens
};

struct EngineOptions {
  std::int64_t batch_size = 16;  // requests that decode together
  // Bytes of keys and values; 0: half of the memory that is free when the engine is made.
  std::int64_t kv_memory = 0;
};

class Engine {
 public:
  // The model must outlive it.
  explicit Engine(const Model& model, const EngineOptions& options = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  // UserError for an empty prompt, an id outside the vocabulary, no new token, and more tokens than the
  // model's context holds. Nothing has changed then.
  RequestId add(const Request& request);
  // One pass, in which each request that has read its prompt gets a token. False: no request waits or
  // decodes.
  bool advance();
  bool has_ended(RequestId id) const;
  // The completion so far. This and the others: UserError for an id that there is not.
  Completion completion(RequestId id) const;
  // The same of one that has ended, which is then forgotten.
  Completion take(RequestId id);
  void cancel(RequestId id);
  // Call this after weights have changed: what was computed with the former ones is forgotten.
  void weights_changed();

  struct Parts;  // of the implementation

 private:
  std::unique_ptr<Parts> parts_;
};

// All of them, in order.
std::vector<Completion> sample(const Model& model, const std::vector<Request>& requests,
                               const EngineOptions& options = {});

}  // namespace hone
