#include "hone/engine.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "hone/error.h"
#include "library/parts.h"
#include "rollout/engine.h"

namespace hone {

struct Engine::Parts {
  const Model::Parts& model;
  rollout::Engine engine;
  std::set<RequestId> known;  // that were not taken
};

namespace {

void require_known(const std::set<RequestId>& known, RequestId id) {
  if (known.contains(id)) return;
  throw UserError({.where = "hone::Engine",
                   .expected = "the id of a request that was added and not taken",
                   .found = std::to_string(id),
                   .cause = {},
                   .fix = {}});
}

Completion completion_of(const rollout::Completion& from) {
  return {.ids = from.ids,
          .logprobs = from.logprobs,
          .stopped = from.finish_reason == rollout::FinishReason::kStopToken};
}

}  // namespace

Engine::Engine(const Model& model, const EngineOptions& options)
    : parts_(new Parts{.model = model.parts(),
                       .engine = {model.parts().model,
                                  {.batch_size = std::max<std::int64_t>(options.batch_size, 1),
                                   .kv_memory = options.kv_memory}},
                       .known = {}}) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

static void require_range(bool holds, const std::string& field, const std::string& expected, double found) {
  if (holds) return;
  throw UserError({.where = "hone::Request::" + field,
                   .expected = expected,
                   .found = std::to_string(found),
                   .cause = {},
                   .fix = {}});
}

RequestId Engine::add(const Request& request) {
  require_range(request.max_new_tokens >= 1, "max_new_tokens", "1 or more",
                static_cast<double>(request.max_new_tokens));
  require_range(request.temperature >= 0 && std::isfinite(request.temperature), "temperature", "0 or more",
                request.temperature);
  require_range(request.top_p > 0 && request.top_p <= 1, "top_p", "above 0, at most 1", request.top_p);
  require_range(request.top_k >= 0, "top_k", "0 or more", static_cast<double>(request.top_k));
  rollout::RequestOptions options;
  options.max_new_tokens = request.max_new_tokens;
  options.sampler = {.temperature = request.temperature, .top_k = request.top_k, .top_p = request.top_p};
  options.seed = request.seed;
  options.stop_ids = parts_->model.stop_ids;
  const RequestId id = parts_->engine.add(
      {.ids = request.prompt, .options = std::move(options), .key = {.prompt = 0, .sample = request.sample}});
  parts_->known.insert(id);
  return id;
}

bool Engine::advance() {
  const bool more = parts_->engine.advance();
  parts_->engine.poll();  // nobody asks for events here, and they would be kept
  return more;
}

bool Engine::has_ended(RequestId id) const {
  require_known(parts_->known, id);
  return parts_->engine.has_ended(id);
}

Completion Engine::completion(RequestId id) const {
  require_known(parts_->known, id);
  return completion_of(parts_->engine.completion(id));
}

Completion Engine::take(RequestId id) {
  if (!has_ended(id)) {
    throw UserError({.where = "hone::Engine::take",
                     .expected = "a request that has ended",
                     .found = "one that waits or decodes",
                     .cause = {},
                     .fix = "call advance() until has_ended(), or cancel() it"});
  }
  parts_->known.erase(id);
  return completion_of(parts_->engine.take(id));
}

void Engine::cancel(RequestId id) {
  require_known(parts_->known, id);
  parts_->engine.cancel(id);
}

void Engine::weights_changed() {
  parts_->engine.lose_keys();
}

std::vector<Completion> sample(const Model& model, const std::vector<Request>& requests,
                               const EngineOptions& options) {
  Engine engine(model, options);
  std::vector<RequestId> ids;
  for (const Request& one : requests) ids.push_back(engine.add(one));
  while (engine.advance()) {
  }
  std::vector<Completion> out;
  for (const RequestId id : ids) out.push_back(engine.take(id));
  return out;
}

}  // namespace hone
