#include "rollout/generate.h"

#include "base/error.h"
#include "rollout/engine.h"

namespace hone::rollout {

std::vector<Completion> generate(const model::CausalLm& model,
                                 const std::vector<std::vector<std::int32_t>>& prompts,
                                 const GenerateOptions& options, const OnDone& on_done) {
  base::require(options.max_new_tokens > 0 && options.samples > 0 && options.batch_size > 0,
                "rollout::generate", "at least one new token, sample and sequence");
  Engine engine(model, options);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::size_t key = options.key_of(i);
    engine.add({.ids = prompts[i],
                .options = options,
                .key = {.prompt = key},
                .samples = options.samples,
                .where = "prompt " + std::to_string((options.adapters.empty() ? i : key) + 1),
                .adapter = options.adapters.empty() ? nullptr : options.adapters.at(i),
                .former = options.former_of(i)});
  }
  std::vector<Completion> done(prompts.size() * static_cast<std::size_t>(options.samples));
  while (engine.advance()) {
    for (const Event& event : engine.poll()) {
      if (!event.has_ended) continue;
      const auto index = static_cast<std::size_t>(event.id - 1);
      done[index] = engine.take(event.id);
      if (on_done) on_done(index, done[index]);
    }
  }
  return done;
}

}  // namespace hone::rollout
