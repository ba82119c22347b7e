#include "train/batches/mixed_rollouts.h"

#include <array>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/rng.h"

namespace hone::train {

namespace {

// The order of rows draws from the first stream of a step.
constexpr std::uint64_t kFirstStream = std::uint64_t{1} << 40;

template <typename T>
void add_list(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// Prompts `items` of the batch `all`, which is as large already.
void place_part(SourcedRollouts& all, SourcedRollouts part, const std::vector<std::size_t>& items) {
  base::require(part.batch.samples.size() == items.size(), "train::MixedRollouts",
                "a completion of each prompt");
  for (std::size_t i = 0; i < items.size(); ++i) {
    RolloutSample& sample = all.batch.samples[items[i]] = std::move(part.batch.samples[i]);
    all.batch.prompts[items[i]] = part.batch.prompts.at(sample.prompt);
    sample.prompt = items[i];
    all.facts.completions[items[i]] = std::move(part.facts.completions[i]);
  }
  add_list(all.facts.warnings, part.facts.warnings);
  add_list(all.facts.printed, part.facts.printed);
  add_list(all.metrics, part.metrics);
  add_counts(all.counts, part.counts);
  all.rollout_seconds += part.rollout_seconds;
}

}  // namespace

GivenRollouts::GivenRollouts(const PolicyPrompts& prompts, const std::vector<data::GivenCompletion>& given,
                             const text::Tokenizer& tokenizer)
    : prompts_(prompts), given_(given), tokenizer_(tokenizer) {
  base::require(prompts.stream == nullptr && prompts.size() == given.size(), "train::GivenRollouts",
                "a completion of each row");
}

SourcedRollouts GivenRollouts::make(const RolloutRequest& request) {
  SourcedRollouts out;
  out.batch.generation = request.generation;
  for (const std::int64_t row : request.rows) {
    const data::GivenCompletion& one = given_.at(static_cast<std::size_t>(row));
    const std::string text = tokenizer_.decode(one.ids, true);
    out.facts.completions.push_back({.prompt = prompts_.token_row(row).text,
                                     .asked = {},
                                     .completion = text,
                                     .tokens = std::ssize(one.ids)});
    RolloutSample sample{.prompt = out.batch.prompts.size(), .ids = one.ids, .text = text};
    out.batch.samples.push_back(std::move(sample));
    out.batch.prompts.push_back({.row = row, .ids = one.prompt});
  }
  return out;
}

bool mixes(const config::Plan& plan) {
  return plan.method == config::Method::kDistill && plan.distill.lmbda < 1 && plan.policy.replay.empty();
}

MixOptions mix_options(const config::Plan& plan) {
  return {.lmbda = plan.distill.lmbda,
          .micro_batch = plan.per_device_train_batch_size,
          .seed = static_cast<std::uint64_t>(plan.seed)};
}

bool is_sampled(const MixOptions& options, std::int64_t generation, std::int64_t index) {
  const base::Stream random(options.seed, base::Purpose::kOrder, static_cast<std::uint64_t>(generation),
                            kFirstStream + static_cast<std::uint64_t>(index));
  return random.uniform(0) < options.lmbda;
}

MixedRollouts::MixedRollouts(std::unique_ptr<RolloutSource> model, std::unique_ptr<RolloutSource> others,
                             MixOptions options)
    : model_(std::move(model)), others_(std::move(others)), options_(options) {}

SourcedRollouts MixedRollouts::make(const RolloutRequest& request) {
  base::require(request.num_generations == 1, "train::MixedRollouts", "one completion a prompt");
  if (request.evaluation) return model_->make(request);
  std::array<RolloutRequest, 2> parts = {request, request};  // the model's, the others'
  std::array<std::vector<std::size_t>, 2> items;
  for (RolloutRequest& one : parts) {
    one.rows.clear();
    one.places.clear();
  }
  for (std::size_t i = 0; i < request.rows.size(); ++i) {
    const std::size_t place = request.places.empty() ? i : request.places.at(i);
    const auto micro_batch = static_cast<std::int64_t>(place) / options_.micro_batch;
    const std::size_t which = is_sampled(options_, request.generation, micro_batch) ? 0 : 1;
    parts.at(which).rows.push_back(request.rows[i]);
    parts.at(which).places.push_back(place);
    items.at(which).push_back(i);
  }
  SourcedRollouts out;
  out.batch.generation = request.generation;
  out.batch.reward_names = out.facts.reward_names = reward_names();
  out.batch.prompts.resize(request.rows.size());
  out.batch.samples.resize(request.rows.size());
  out.facts.completions.resize(request.rows.size());
  if (!items[0].empty()) place_part(out, model_->make(parts[0]), items[0]);
  if (!items[1].empty()) place_part(out, others_->make(parts[1]), items[1]);
  return out;
}

}  // namespace hone::train
