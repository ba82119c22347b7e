#include "train/steps/pair_method.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "train/methods/router_factor.h"

namespace hone::train {

namespace {

// The context's last and the scored tokens' first.
data::ScoredSequence ending(const data::ScoredSequence& side, std::size_t context, std::size_t scored) {
  return {.context = side.context.last(std::min(context, side.context.size())),
          .scored = side.scored.first(std::min(scored, side.scored.size()))};
}

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

PairReference split_sums(const at::Tensor& sums) {
  PairReference out;
  const double* const values = sums.const_data_ptr<double>();
  for (std::int64_t i = 0; i < sums.numel(); ++i) (i % 2 == 0 ? out.first : out.second).push_back(values[i]);
  return out;
}

at::Tensor joined_sums(const PairReference& reference) {
  std::vector<double> out;
  for (std::size_t i = 0; i < reference.first.size(); ++i) {
    out.insert(out.end(), {reference.first[i], reference.second[i]});
  }
  return at::tensor(out, at::kDouble);
}

PairMethod::PairMethod(RecordParts parts)
    : RowMethod(std::move(parts)), balance_(router_factor(parts_.plan, parts_.model.config())) {}

// ---- the reference

PairReference PairMethod::score_reference(const std::vector<data::RecordView>& /*records*/) const {
  throw base::InternalError(
      {.where = "score_reference", .expected = "a method with a reference", .found = "another"});
}

at::Tensor PairMethod::reference_logprobs(const PolicyPass& pass) const {
  return parts_.reference.score(parts_.model, [&](const model::CausalLm& model, bool adapters_on) {
    return score_policy(model, pass, {.adapters_on = adapters_on}, parts_.form).logprob;
  });
}

PairReference PairMethod::precompute(const RecordData& data, std::int64_t batch_size) {
  PairReference out;
  const auto count = static_cast<std::int64_t>(data.rows.size());
  std::vector<Rows> batches;
  for (std::int64_t begin = 0; begin < count; begin += batch_size)
    batches.push_back(row_range(begin, std::min(begin + batch_size, count)));
  Costs costs;
  for (const Rows& rows : batches) costs.push_back(data.tokens(rows));
  const auto found = work().each<PairReference>(
      costs,
      [&](std::size_t i) {
        PairReference one = score_reference(data.one_of_each(batches[i]));
        data.release(batches[i]);
        return one;
      },
      "reference log-probabilities");
  for (const PairReference& one : found) {
    append(out.first, one.first);
    append(out.second, one.second);
  }
  return out;
}

// A resumed run computes the same again.
void PairMethod::before_first_pass() {
  if (!plan_.precompute_ref_log_probs || !train_reference_.first.empty()) return;
  const auto size = [&](std::int64_t batch) { return plan_.precompute_ref_batch_size.value_or(batch); };
  train_reference_ = precompute(parts_.train, size(plan_.per_device_train_batch_size));
  if (parts_.eval) eval_reference_ = precompute(*parts_.eval, size(plan_.per_device_eval_batch_size));
  parts_.reference.release();
}

PairReference PairMethod::reference_of(const PairBatch& batch) const {
  if (batch.reference == nullptr || batch.reference->first.empty()) return score_reference(batch.records);
  PairReference out;
  for (const std::int64_t row : *batch.rows) {
    const auto at = static_cast<std::size_t>(row);
    out.first.push_back(batch.reference->first.at(at));
    if (!batch.reference->second.empty()) out.second.push_back(batch.reference->second.at(at));
  }
  return out;
}

// ---- micro-batches

BatchLoss PairMethod::run(const MicroBatch& batch) {
  const RecordData& data = data_of(batch.split);
  PairBatch pairs{.records = data.one_of_each(batch.rows),
                  .key = batch.key,
                  .row_base = batch.row_base,
                  .reference = batch.split == Split::kTrain ? &train_reference_ : &eval_reference_,
                  .rows = &batch.rows,
                  .balances = true};
  if (batch.backward) pairs.loss_scale = batch.backward->loss_scale();
  BatchLoss out = run_pairs(pairs);
  data.release(batch.rows);
  return out;
}

// Of streamed rows one of the first.
data::Record PairMethod::cut_record(const RehearsalRequest& request) const {
  const data::Records& all = parts_.train.records;
  const auto count = all.size();
  const auto begin = static_cast<std::size_t>(std::max<std::int64_t>(0, request.index)) % count;
  const auto room = static_cast<std::size_t>(std::max<std::int64_t>(8, request.max_tokens));
  std::size_t at = begin;
  while (true) {  // where sides are compared, a pair whose two are still different after the cut
    const data::RecordView whole = all[at];
    data::Record out = {.row = whole.row, .ids = {}, .supervised = {}, .desirable = whole.desirable};
    std::array<data::ScoredSequence, 2> cut;
    for (std::size_t i = 0; i < cut.size(); ++i) {
      const data::Part part = whole.sequences[i].part;
      cut[i] = ending(whole.sequence(part), room / 2, room / 4);
      data::add_sequence(out, part, cut[i].context, cut[i].scored);
    }
    at = (at + 1) % count;
    if (!compares_sides() || at == begin || !std::ranges::equal(cut[0].scored, cut[1].scored)) return out;
  }
}

Rehearsal PairMethod::rehearse(const RehearsalRequest& request) {
  const data::Record one = cut_record(request);
  RngKey key =
      pass_key(plan_, request.index, request.training && request.adapters_on && !plan_.disable_dropout);
  key.adapters_on = request.adapters_on;
  PairBatch batch{.records = {data::view(one)}, .key = key};
  if (request.backward && request.adapters_on) batch.loss_scale = 1;
  const BatchLoss found = run_pairs(batch);
  return {.loss = found.loss,
          .nll = found.nll,
          .tokens = found.passed,
          .scored = found.scored,
          .cost = std::ssize(one.ids)};
}

void PairMethod::replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) {
  for (const Rows& rows : order_.step_rows(step)) {
    for (const std::int64_t row : rows) {
      const Rows alone = {row};
      PairBatch batch{.records = parts_.train.one_of_each(alone),
                      .key = training_key(step),
                      .loss_scale = 1,
                      .reference = &train_reference_,
                      .rows = &alone};
      const BatchLoss found = run_pairs(batch);
      if (!see({.name = name_of(batch.records.front().row), .loss = found.loss})) return;
    }
  }
}

}  // namespace hone::train
