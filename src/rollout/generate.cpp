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

void check_prompt(const std::vector<std::int32_t>& prompt, std::size_t index, const model::ModelConfig& model,
                  const GenerateOptions& options) {
  const std::string where = "prompt " + std::to_string(index + 1);
  if (prompt.empty()) {
    throw base::UserError({.where = where,
                           .expected = "at least one token",
                           .found = "an empty prompt",
                           .fix = "give the prompt some text"});
  }
  const auto length = static_cast<std::int64_t>(prompt.size());
  const std::int64_t most = model.max_position_embeddings;
  // Subtracted, so that no max_new_tokens overflows.
  if (length <= most && options.max_new_tokens <= most - length) return;
  throw base::UserError({.where = where,
                         .expected = "at most the model's " + std::to_string(most) +
                                     " positions (max_position_embeddings) for prompt and completion",
                         .found = "a prompt of " + std::to_string(length) + " tokens and max_new_tokens " +
                                  std::to_string(options.max_new_tokens),
                         .cause = "the model has never seen the positions after that",
                         .fix = "lower max_new_tokens or shorten the prompt"});
}

void require_finite(const at::Tensor& logits, const std::vector<Live>& live) {
  const at::Tensor finite = logits.isfinite().all(1);
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (finite[static_cast<std::int64_t>(i)].item<bool>()) continue;
    throw base::UserError({.where = "prompt " + std::to_string(live[i].prompt + 1) + ", after token " +
                                    std::to_string(live[i].cache.length),
                           .expected = "finite logits",
                           .found = "infinite or not-a-number values",
                           .cause = "NUM-02: the weights or the adapter hold non-finite values, or some too "
                                    "large for this precision",
                           .fix = "generate without the adapter, and with dtype: float32, to see which"});
  }
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
  require_finite(logits, live);
  std::vector<std::int64_t> tokens;
  for (std::size_t i = 0; i < live.size(); ++i) {
    const std::size_t prompt = live[i].prompt;
    const base::Stream stream(options.seed, base::Purpose::kSampling, 0, prompt);
    tokens.push_back(sample_token(logits[static_cast<std::int64_t>(i)], options.sampler,
                                  stream.uniform(done[prompt].ids.size())));
  }
  return tokens;
}

// Lets prompts from `waiting` on join `live`, while there is room for the sequence and for its tokens.
void join(const std::vector<std::vector<std::int32_t>>& prompts, const GenerateOptions& options,
          std::size_t& waiting, std::vector<Live>& live) {
  std::int64_t joined = 0;
  while (waiting < prompts.size() && static_cast<std::int64_t>(live.size()) < options.batch_size) {
    const auto& prompt = prompts[waiting];
    const auto length = static_cast<std::int64_t>(prompt.size());
    if (joined > 0 && joined + length > options.prefill_tokens) return;
    joined += length;
    live.push_back({.prompt = waiting++, .cache = {}, .next = {prompt.begin(), prompt.end()}});
  }
}

}  // namespace

std::vector<Completion> generate(const model::CausalLm& model,
                                 const std::vector<std::vector<std::int32_t>>& prompts,
                                 const GenerateOptions& options,
                                 const std::function<void(std::size_t)>& on_done) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < prompts.size(); ++i) check_prompt(prompts[i], i, model.config(), options);
  std::vector<Completion> done(prompts.size());
  std::vector<Live> live;
  std::size_t waiting = 0;
  while (waiting < prompts.size() || !live.empty()) {
    join(prompts, options, waiting, live);
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
