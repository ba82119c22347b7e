// SftMethod::rehearse: one micro-batch of the run's own rows, short enough to cost a second; and
// replay_samples.
#include <algorithm>

#include "train/sft.h"

namespace hone::train {

namespace {

constexpr std::int64_t kMostTries = 64;  // micro-batches, until one has a target

// The last target's index; 0: none (the first token never is one).
std::int64_t last_target(const data::Example& example) {
  auto last = static_cast<std::int64_t>(example.ids.size()) - 1;
  while (last > 0 && example.supervised[static_cast<std::size_t>(last)] == 0) last -= 1;
  return last;
}

// `room` (2 or more) tokens, the last of them the last target.
data::Example ending(const data::Example& example, std::int64_t room) {
  const std::int64_t end = last_target(example) + 1;
  const auto from = static_cast<std::ptrdiff_t>(std::max<std::int64_t>(0, end - room));
  const auto to = static_cast<std::ptrdiff_t>(end);
  return {.row = example.row,
          .ids = {example.ids.begin() + from, example.ids.begin() + to},
          .supervised = {example.supervised.begin() + from, example.supervised.begin() + to}};
}

}  // namespace

Rehearsal SftMethod::rehearse(const RehearsalRequest& request) {
  const auto steps = std::max<std::int64_t>(1, order_.steps_per_epoch());
  std::vector<data::Example> examples;
  data::PackedRow row;
  std::int64_t left = request.max_tokens;
  for (std::int64_t tried = 0; examples.empty() && tried < std::min(steps, kMostTries); ++tried) {
    const auto micro_batches = order_.step_rows((request.index + tried) % steps);
    for (const std::int64_t at : micro_batches.front()) {
      for (const std::int64_t member : train_.rows[static_cast<std::size_t>(at)].members) {
        const data::Example& whole = train_.examples[static_cast<std::size_t>(member)];
        if (left < 2 || last_target(whole) == 0) continue;
        row.members.push_back(static_cast<std::int64_t>(examples.size()));
        examples.push_back(ending(whole, left));
        left -= static_cast<std::int64_t>(examples.back().ids.size());
      }
    }
  }
  if (examples.empty()) return {};  // check_data says so
  const data::Batch batch = data::make_batch(examples, {row}, {0});
  const PassKey key = {.training = request.training && request.adapters_on,
                       .seed = static_cast<std::uint64_t>(plan_.seed),
                       .step = static_cast<std::uint64_t>(request.index),
                       .adapters_on = request.adapters_on};
  const auto n = static_cast<double>(std::max<std::int64_t>(1, scored_tokens(batch)));
  const bool backward = request.backward && request.adapters_on;
  const ScoredFacts facts =
      backward ? score_and_backward(model_, batch, key, n, form_) : score_batch(model_, batch, key, form_);
  const double nll = facts.nll_sum / n;
  return {.loss = nll, .nll = nll, .tokens = facts.tokens, .scored = facts.scored};
}

void SftMethod::replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) {
  const PassKey key = {.training = true,
                       .seed = static_cast<std::uint64_t>(plan_.seed),
                       .step = static_cast<std::uint64_t>(step)};
  for (const auto& rows : order_.step_rows(step)) {
    for (const std::int64_t row : rows) {
      for (const std::int64_t member : train_.rows[static_cast<std::size_t>(row)].members) {
        const data::PackedRow alone = {.members = {member}};
        const data::Batch batch = data::make_batch(train_.examples, {alone}, {0});
        const auto n = static_cast<double>(std::max<std::int64_t>(1, scored_tokens(batch)));
        const ScoredFacts facts = score_and_backward(model_, batch, key, n, form_);
        const std::int64_t line = train_.examples[static_cast<std::size_t>(member)].row + 1;
        if (!see({.name = "line " + std::to_string(line) + " of " + plan_.dataset_name,
                  .loss = facts.nll_sum / n})) {
          return;
        }
      }
    }
  }
}

}  // namespace hone::train
