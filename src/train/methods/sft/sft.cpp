#include "train/methods/sft/sft.h"

#include <algorithm>
#include <numeric>

#include "model/layers/embedding_noise.h"
#include "ops/head/linear_logprob.h"
#include "train/methods/router_factor.h"

namespace hone::train::sft {

namespace {

constexpr std::int64_t kMaxTries = 64;  // micro-batches, until one has a target

double at_least_one(std::int64_t count) {
  return static_cast<double>(std::max<std::int64_t>(1, count));
}

// The last target's index; 0: none (the first token never is one).
std::int64_t last_target(const data::RecordView& example) {
  auto last = static_cast<std::int64_t>(example.ids.size()) - 1;
  while (last > 0 && example.supervised[static_cast<std::size_t>(last)] == 0) last -= 1;
  return last;
}

// `room` (2 or more) tokens, the last of them the last target.
data::Record ending(const data::RecordView& example, std::int64_t room) {
  const std::int64_t end = last_target(example) + 1;
  const auto from = static_cast<std::ptrdiff_t>(std::max<std::int64_t>(0, end - room));
  const auto to = static_cast<std::ptrdiff_t>(end);
  data::Record out = {.row = example.row,
                      .ids = {example.ids.begin() + from, example.ids.begin() + to},
                      .supervised = {example.supervised.begin() + from, example.supervised.begin() + to}};
  if (!example.labels.empty()) out.labels = {example.labels.begin() + from, example.labels.begin() + to};
  return out;
}

ScoredLoss scored_loss(const config::Plan& plan, const model::CausalLm& model) {
  ScoredLoss out;
  out.balance = router_factor(plan, model.config());
  if (plan.sft.loss_type == "dft") out.loss.type = learn::SftLossType::kDft;
  out.loss.label_smoothing = plan.sft.label_smoothing_factor;
  if (out.loss.smooths()) out.mean_row = ops::mean_row(model.head());
  return out;
}

}  // namespace

Sft::Sft(RecordParts parts) : RowMethod(std::move(parts)), loss_(scored_loss(plan_, parts_.model)) {}

// NEFTune's L is the length that TRL gives a batch: bfd's rows are concatenated, others padded to the longest.
double Sft::noise_bound(const data::Batch& batch) const {
  auto tokens = static_cast<std::int64_t>(batch.ids.size());
  if (!plan_.packing || plan_.packing_strategy == config::PackingStrategy::kWrapped) {
    tokens = 0;
    for (const data::Segment& segment : batch.segments)
      tokens = std::max(tokens, segment.end - segment.begin);
  }
  return model::embedding_noise_bound(plan_.sft.neftune_noise_alpha, tokens,
                                      parts_.model.config().hidden_size);
}

ScoredFacts Sft::run_batch(const data::Batch& batch, RngKey key, bool backward, double denominator,
                           double balance) const {
  if (key.training && !batch.ids.empty()) key.embedding_noise = noise_bound(batch);
  ScoredLoss loss = loss_;
  loss.balance = balance;
  return backward ? score_and_backward(parts_.model, batch, key, denominator, parts_.form, loss)
                  : score_batch(parts_.model, batch, key, parts_.form, loss);
}

BatchLoss Sft::run(const MicroBatch& batch) {
  const RecordData& data = data_of(batch.split);
  const double tokens = batch.backward ? batch.backward->tokens : 1;
  // TRL's label smoother knows nothing of the routers: their loss is only logged then.
  const double factor = loss_.loss.smooths() ? 0 : loss_.balance;
  const double balance = factor / (batch.backward ? batch.backward->count : 1);
  const ScoredFacts facts =
      run_batch(data.batch(batch.rows), batch.key, batch.backward.has_value(), tokens, balance);
  const double scored = at_least_one(facts.scored);
  BatchLoss out{.divisor = batch.backward ? tokens : scored, .tokens = facts.tokens};
  out.loss = facts.loss_sum + balance * facts.balance * out.divisor;
  out.metrics = {{"entropy", facts.entropy_sum / scored},
                 {"mean_token_accuracy", static_cast<double>(facts.correct) / scored}};
  if (loss_.balance != 0) out.metrics.emplace_back("aux_loss", facts.balance);
  return out;
}

Denominators Sft::denominators(const data::StepRows& micro_batches) const {
  std::int64_t tokens = 0;
  for (const Rows& rows : micro_batches) tokens += scored_tokens(parts_.train.batch(rows));
  return {.tokens = at_least_one(tokens), .count = static_cast<double>(micro_batches.size())};
}

Rehearsal Sft::rehearse(const RehearsalRequest& request) {
  const auto steps = std::max<std::int64_t>(1, order_.steps_per_epoch());
  std::vector<data::Record> cut;
  std::int64_t left = request.max_tokens;
  for (std::int64_t tried = 0; cut.empty() && tried < std::min(steps, kMaxTries); ++tried) {
    const auto micro_batches = order_.step_rows((request.index + tried) % steps);
    for (const std::int64_t at : micro_batches.front()) {
      for (const data::RecordView& whole : parts_.train.members(at)) {
        if (left < 2 || last_target(whole) == 0) continue;
        cut.push_back(ending(whole, left));
        left -= static_cast<std::int64_t>(cut.back().ids.size());
      }
    }
  }
  if (cut.empty()) return {};  // check_data says so
  std::vector<std::int64_t> row(cut.size());
  std::iota(row.begin(), row.end(), 0);
  const data::Batch batch = data::make_batch(cut, data::PackedRows({row}), {0});
  RngKey key = pass_key(plan_, request.index, request.training && request.adapters_on);
  key.adapters_on = request.adapters_on;
  const double n = at_least_one(scored_tokens(batch));
  const ScoredFacts facts = run_batch(batch, key, request.backward && request.adapters_on, n, 0);
  return {
      .loss = facts.loss_sum / n, .nll = facts.nll_sum / n, .tokens = facts.tokens, .scored = facts.scored};
}

void Sft::replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) {
  for (const auto& rows : order_.step_rows(step)) {
    for (const std::int64_t row : rows) {
      for (const data::RecordView& member : parts_.train.members(row)) {
        const data::Records alone = {data::copy_of(member)};
        const data::Batch batch = data::make_batch(alone, data::no_packing(alone), {0});
        const double n = at_least_one(scored_tokens(batch));
        const ScoredFacts facts = run_batch(batch, training_key(step), /*backward=*/true, n, 0);
        if (!see({.name = name_of(data::file_row(member.row)), .loss = facts.loss_sum / n})) return;
      }
    }
  }
}

}  // namespace hone::train::sft
