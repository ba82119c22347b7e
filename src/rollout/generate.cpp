#include "rollout/generate.h"

#include <algorithm>
#include <iterator>
#include <memory>

#include "base/error.h"
#include "rollout/decoder.h"
#include "rollout/kv_memory.h"

namespace hone::rollout {

namespace {

using Prompts = std::vector<std::vector<std::int32_t>>;

// The sequences that wait and those that decode, within the batch size and the memory for keys and values.
class Queue {
 public:
  Queue(const model::CausalLm& model, const Prompts& prompts, const GenerateOptions& options)
      : prompts_(prompts),
        options_(options),
        limit_(kv_limit(options, model.device())),
        shared_(options.share_prompt ? prompts.size() : 0),
        remaining_(prompts.size(), options.samples) {
    check_stop_ids(model.config(), options);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const std::string where = "prompt " + std::to_string(i + 1);
      check_prompt(prompts[i], model.config(), options, where);
      bytes_.push_back(kv_bytes(model.config(), model.dtypes().linear,
                                static_cast<std::int64_t>(prompts[i].size()), options, model.device()));
      if (options.kv_memory > 0) require_room(bytes_.back().prompt + bytes_.back().sample, where);
    }
    keys_ = model.reserve_keys(first_tokens());
  }

  bool busy() const { return !live.empty() || waiting_ < total(); }
  std::size_t total() const { return prompts_.size() * samples(); }

  // In order: none overtakes one that has to wait for memory.
  void join() {
    while (waiting_ < total() && static_cast<std::int64_t>(live.size()) < options_.batch_size) {
      const std::size_t prompt = waiting_ / samples();
      const std::size_t sample = waiting_ % samples();
      const std::int64_t needed = bytes_[prompt].sample + (sample == 0 ? bytes_[prompt].prompt : 0);
      if (!live.empty() && used_ + needed > limit_) return;
      used_ += needed;
      live.push_back({.prompt = prompts_[prompt], .prompt_index = prompt, .sample = sample});
      if (options_.share_prompt) live.back().shared = shared_prompt(prompt);
      ++waiting_;
    }
  }

  // Calls `finish(index, completion)` for those that are done, in order, and lets them go.
  template <typename Finish>
  void leave(const Finish& finish) {
    for (Sequence& one : live) {
      if (!one.done) continue;
      used_ -= bytes_[one.prompt_index].sample;
      if (--remaining_[one.prompt_index] == 0) {
        used_ -= bytes_[one.prompt_index].prompt;
        if (options_.share_prompt) shared_[one.prompt_index].reset();
      }
      finish(one.prompt_index * samples() + one.sample, std::move(one.completion));
    }
    std::erase_if(live, [](const Sequence& one) { return one.done; });
  }

  std::vector<Sequence> live;

 private:
  std::size_t samples() const { return static_cast<std::size_t>(options_.samples); }

  // Room of the sequences that join first.
  std::int64_t first_tokens() const {
    std::int64_t tokens = 0, bytes = 0;
    const auto most = static_cast<std::size_t>(options_.batch_size);
    for (std::size_t i = 0; i < total() && i < most; ++i) {
      const KvBytes& one = bytes_[i / samples()];
      const bool first = i % samples() == 0;
      bytes += one.sample + (first ? one.prompt : 0);
      if (i > 0 && bytes > limit_) break;
      tokens += one.sample_room + (first ? one.prompt_room : 0);
    }
    return tokens;
  }

  const std::shared_ptr<SharedPrompt>& shared_prompt(std::size_t prompt) {
    std::shared_ptr<SharedPrompt>& shared = shared_[prompt];
    if (!shared) {
      shared = std::make_shared<SharedPrompt>();
      shared->cache.room = static_cast<std::int64_t>(prompts_[prompt].size());
    }
    return shared;
  }

  void require_room(std::int64_t bytes, const std::string& where) const {
    if (bytes <= limit_) return;
    throw base::UserError({.where = where,
                           .expected = "kv_memory to hold the keys and values of one sequence, " +
                                       std::to_string(bytes) + " bytes",
                           .found = std::to_string(limit_) + " bytes",
                           .cause = "the prompt with max_new_tokens is long",
                           .fix = "raise kv_memory, or lower max_new_tokens"});
  }

  const Prompts& prompts_;
  const GenerateOptions& options_;
  const std::int64_t limit_;
  std::vector<KvBytes> bytes_;                               // of each prompt
  std::vector<std::shared_ptr<ops::backend::KvPool>> keys_;  // CausalLm::reserve_keys
  std::vector<std::shared_ptr<SharedPrompt>> shared_;        // of prompts with samples to come or live
  std::vector<std::int64_t> remaining_;                      // samples of each prompt that have not ended
  std::int64_t used_ = 0;
  std::size_t waiting_ = 0;  // the first that has not joined
};

}  // namespace

std::vector<Completion> generate(const model::CausalLm& model, const Prompts& prompts,
                                 const GenerateOptions& options, const OnDone& on_done) {
  base::require(options.max_new_tokens > 0 && options.samples > 0 && options.batch_size > 0,
                "rollout::generate", "at least one new token, sample and sequence");
  Queue queue(model, prompts, options);
  Decoder decoder(model, options);
  std::vector<Completion> done(queue.total());
  while (queue.busy()) {
    queue.join();
    decoder.advance(queue.live);
    queue.leave([&](std::size_t index, Completion completion) {
      done[index] = std::move(completion);
      if (on_done) on_done(index, done[index]);
    });
  }
  return done;
}

}  // namespace hone::rollout
