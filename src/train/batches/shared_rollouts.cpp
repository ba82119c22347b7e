#include "train/batches/shared_rollouts.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "parallel/turns.h"
#include "train/facts/facts_bytes.h"

namespace hone::train {

// clang-format off
template <typename Archive>
void fields(Archive& archive, RolloutPrompt& facts) { archive(facts.row, facts.ids); }

template <typename Archive>
void fields(Archive& archive, GivenTokens& facts) { archive(facts.begin, facts.end); }

template <typename Archive>
void fields(Archive& archive, ToolCall& facts) {
  archive(facts.turn, facts.name, facts.arguments, facts.result, facts.failed, facts.seconds);
}

template <typename Archive>
void fields(Archive& archive, RolloutSample& facts) {
  archive(facts.prompt, facts.ids, facts.truncated, facts.text, facts.rewards, facts.old_logprobs,
          facts.sampling_logprobs, facts.ref_logprobs, facts.entropies, facts.advantage, facts.given, facts.messages,
          facts.calls);
}

template <typename Archive>
void fields(Archive& archive, CallFacts& facts) {
  archive(facts.turn, facts.name, facts.arguments, facts.failed, facts.seconds, facts.is_unread, facts.unread);
}

template <typename Archive>
void fields(Archive& archive, CompletionFacts& facts) {
  archive(facts.prompt, facts.asked, facts.completion, facts.truncated, facts.tokens, facts.most_common_token,
          facts.most_common_fraction, facts.rewards, facts.advantage, facts.extra, facts.messages, facts.calls,
          facts.opens_call, facts.spans);
}

template <typename Archive>
void fields(Archive& archive, PrintedFacts& facts) {
  archive(facts.reward, facts.first, facts.count, facts.text);
}
// clang-format on

namespace {

// A rank's part of a batch.
struct PartFacts {
  int rank = 0;
  std::vector<RolloutPrompt> prompts;
  std::vector<RolloutSample> samples;
  std::vector<CompletionFacts> completions;
  std::vector<std::string> warnings;
  std::vector<PrintedFacts> printed;
  std::vector<NamedValue> metrics, counts;
  double rollout_seconds = 0, reward_seconds = 0, sampling_seconds = 0, tool_wait_seconds = 0;
};

template <typename Archive>
void fields(Archive& archive, PartFacts& facts) {
  archive(facts.rank, facts.prompts, facts.samples, facts.completions, facts.warnings, facts.printed,
          facts.metrics, facts.counts, facts.rollout_seconds, facts.reward_seconds, facts.sampling_seconds,
          facts.tool_wait_seconds);
}

template <typename T>
void append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// Of prompts in places `items` of the whole batch, which is as large already; so is `prompts`, of each sample.
void put(SourcedRollouts& all, std::vector<RolloutPrompt>& prompts, PartFacts part,
         const std::vector<std::int64_t>& items, std::size_t group) {
  base::require(part.samples.size() == items.size() * group, "train::SharedRollouts",
                "the completions of a rank's prompts");
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto place = static_cast<std::size_t>(items[i]);
    for (std::size_t k = 0; k < group; ++k) {
      RolloutSample& sample = all.batch.samples[place * group + k];
      sample = std::move(part.samples[i * group + k]);
      prompts[place * group + k] = part.prompts.at(sample.prompt);
      all.facts.completions[place * group + k] = std::move(part.completions[i * group + k]);
    }
  }
  append(all.facts.warnings, part.warnings);
  append(all.facts.printed, part.printed);
  append(all.metrics, part.metrics);
  add_counts(all.counts, part.counts);
  all.rollout_seconds = std::max(all.rollout_seconds, part.rollout_seconds);
  all.reward_seconds = std::max(all.reward_seconds, part.reward_seconds);
  all.facts.sampling_seconds = std::max(all.facts.sampling_seconds, part.sampling_seconds);
  all.facts.tool_wait_seconds = std::max(all.facts.tool_wait_seconds, part.tool_wait_seconds);
}

}  // namespace

std::string SharedRollouts::make_own(const RolloutRequest& request, const parallel::BinnedWork& work) {
  RolloutRequest own = request;
  own.rows.clear();
  own.places.clear();
  for (const std::int64_t item : work.items_of_rank(ranks_.rank())) {
    own.rows.push_back(request.rows[static_cast<std::size_t>(item)]);
    own.places.push_back(request.places.empty() ? static_cast<std::size_t>(item)
                                                : request.places.at(static_cast<std::size_t>(item)));
  }
  PartFacts part{.rank = ranks_.rank()};
  if (!own.rows.empty()) {
    SourcedRollouts made = own_.make(own);
    part.prompts = std::move(made.batch.prompts);
    part.samples = std::move(made.batch.samples);
    part.completions = std::move(made.facts.completions);
    part.warnings = std::move(made.facts.warnings);
    part.printed = std::move(made.facts.printed);
    part.metrics = std::move(made.metrics);
    part.counts = std::move(made.counts);
    part.rollout_seconds = made.rollout_seconds;
    part.reward_seconds = made.reward_seconds;
    part.sampling_seconds = made.facts.sampling_seconds;
    part.tool_wait_seconds = made.facts.tool_wait_seconds;
  }
  return write_facts(std::move(part));
}

SourcedRollouts SharedRollouts::make(const RolloutRequest& request) {
  const auto group = static_cast<std::size_t>(request.num_generations);
  std::vector<std::int64_t> costs;
  for (const std::int64_t row : request.rows) costs.push_back(own_.prompt_tokens(row));
  const parallel::BinnedWork work(costs, ranks_.size());
  SourcedRollouts out;
  out.batch.generation = request.generation;
  out.batch.reward_names = own_.reward_names();
  out.batch.has_tools = own_.has_tools();
  std::vector<RolloutPrompt> prompts(request.rows.size() * group);
  out.batch.samples.resize(request.rows.size() * group);
  out.facts.completions.resize(request.rows.size() * group);
  out.facts.reward_names = own_.reward_names();
  const auto parts = parallel::in_turns(
      ranks_, ranks_.size(), [&](std::int64_t) { return make_own(request, work); }, "completions");
  std::vector<PartFacts> by_rank(parts.size());
  for (const std::string& bytes : parts) {
    auto part = read_facts<PartFacts>(bytes);
    by_rank.at(static_cast<std::size_t>(part.rank)) = std::move(part);
  }
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank)
    put(out, prompts, std::move(by_rank[rank]), work.items_of_rank(static_cast<int>(rank)), group);
  set_prompts(out.batch, std::move(prompts), request.num_generations);
  return out;
}

}  // namespace hone::train
