#include "rollout/generate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/rng.h"

namespace hone::rollout {

namespace {

// A sequence that is being decoded.
struct Live {
  std::size_t prompt = 0;
  model::KvCache cache;
  std::vector<std::int64_t> next;  // tokens not yet in the cache
};

bool is_stop(const GenerateOptions& options, std::int64_t id) {
  return std::find(options.stop_ids.begin(), options.stop_ids.end(), id) != options.stop_ids.end();
}

// One forward for every live sequence, one token each.
std::vector<std::int64_t> next_tokens(const model::CausalLm& model, std::vector<Live>& live,
                                      const std::vector<Completion>& done, const GenerateOptions& options) {
  std::vector<std::vector<std::int64_t>> ids;
  std::vector<model::KvCache*> caches;
  for (Live& sequence : live) {
    ids.push_back(sequence.next);
    caches.push_back(&sequence.cache);
  }
  const at::Tensor logits = model.logits(model.step(ids, caches, {}));
  std::vector<std::int64_t> tokens;
  for (std::size_t i = 0; i < live.size(); ++i) {
    const std::size_t prompt = live[i].prompt;
    const base::Stream stream(options.seed, base::Purpose::kSampling, 0, prompt);
    tokens.push_back(sample_token(logits[static_cast<std::int64_t>(i)], options.sampler,
                                  stream.uniform(done[prompt].ids.size())));
  }
  return tokens;
}

}  // namespace

std::vector<Completion> generate(const model::CausalLm& model,
                                 const std::vector<std::vector<std::int32_t>>& prompts,
                                 const GenerateOptions& options,
                                 const std::function<void(std::size_t)>& on_done) {
  const at::NoGradGuard no_grad;
  std::vector<Completion> done(prompts.size());
  std::vector<Live> live;
  std::size_t waiting = 0;
  while (waiting < prompts.size() || !live.empty()) {
    while (waiting < prompts.size() && static_cast<std::int64_t>(live.size()) < options.batch_size) {
      const auto& prompt = prompts[waiting];
      if (prompt.empty()) {
        throw base::UserError({.where = "prompt " + std::to_string(waiting + 1),
                               .expected = "at least one token",
                               .found = "an empty prompt",
                               .fix = "give the prompt some text"});
      }
      live.push_back({.prompt = waiting++, .cache = {}, .next = {prompt.begin(), prompt.end()}});
    }
    const auto tokens = next_tokens(model, live, done, options);
    std::vector<Live> still;
    for (std::size_t i = 0; i < live.size(); ++i) {
      Completion& completion = done[live[i].prompt];
      completion.ids.push_back(static_cast<std::int32_t>(tokens[i]));
      completion.stopped = is_stop(options, tokens[i]);
      if (completion.stopped || static_cast<std::int64_t>(completion.ids.size()) >= options.max_new_tokens) {
        if (on_done) on_done(live[i].prompt);
        continue;
      }
      live[i].next = {tokens[i]};
      still.push_back(std::move(live[i]));
    }
    live = std::move(still);
  }
  return done;
}

}  // namespace hone::rollout
