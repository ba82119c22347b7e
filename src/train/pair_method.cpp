#include "train/pair_method.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "train/router_factor.h"

namespace hone::train {

namespace {

// The context's last and the scored tokens' first.
data::PreferenceSequence ending(const data::PreferenceSequence& side, std::size_t context,
                                std::size_t scored) {
  data::PreferenceSequence out = side;
  if (out.context.size() > context) {
    out.context.erase(out.context.begin(), out.context.end() - static_cast<std::ptrdiff_t>(context));
  }
  if (out.scored.size() > scored) out.scored.resize(scored);
  out.completion = static_cast<std::int64_t>(out.scored.size());
  return out;
}

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::int64_t tokens_of(const PairData& data, const Rows& rows) {
  std::int64_t tokens = 0;
  for (const std::int64_t row : rows)
    tokens += data.pairs.at(static_cast<std::size_t>(row)).tokens(/*share=*/false);
  return tokens;
}

}  // namespace

PairReference split_sums(const at::Tensor& sums) {
  PairReference out;
  const double* const values = sums.const_data_ptr<double>();
  for (std::int64_t i = 0; i < sums.numel(); ++i)
    (i % 2 == 0 ? out.chosen : out.rejected).push_back(values[i]);
  return out;
}

at::Tensor joined_sums(const PairReference& reference) {
  std::vector<double> out;
  for (std::size_t i = 0; i < reference.chosen.size(); ++i) {
    out.insert(out.end(), {reference.chosen[i], reference.rejected[i]});
  }
  return at::tensor(out, at::kDouble);
}

PairMethod::PairMethod(PairParts parts)
    : RowMethod(parts.plan, order_options(parts.plan, parts.train.pairs.size()),
                parts.eval ? parts.eval->sets : std::vector<EvalRange>()),
      parts_(std::move(parts)),
      balance_(router_factor(parts_.plan, parts_.model.config())) {}

// ---- the reference

PairReference PairMethod::score_reference(const PairData& /*data*/, const Rows& /*rows*/) const {
  throw base::InternalError(
      {.where = "score_reference", .expected = "a method with a reference", .found = "another"});
}

at::Tensor PairMethod::reference_logprobs(const PolicyPass& pass) const {
  return parts_.reference.score([&](bool adapters_on) {
    return score_policy(parts_.model, pass, {.adapters_on = adapters_on}, parts_.form).logprob;
  });
}

PairReference PairMethod::precompute(const PairData& data, std::int64_t batch_size) {
  PairReference out;
  const auto count = static_cast<std::int64_t>(data.pairs.size());
  std::vector<Rows> batches;
  for (std::int64_t begin = 0; begin < count; begin += batch_size)
    batches.push_back(row_range(begin, std::min(begin + batch_size, count)));
  Costs costs;
  for (const Rows& rows : batches) costs.push_back(tokens_of(data, rows));
  const auto found = work().each<PairReference>(
      costs, [&](std::size_t i) { return score_reference(data, batches[i]); }, "reference log-probabilities");
  for (const PairReference& one : found) {
    append(out.chosen, one.chosen);
    append(out.rejected, one.rejected);
  }
  return out;
}

std::int64_t PairMethod::cost_of(const Rows& rows, Split split) const {
  return tokens_of(split == Split::kTrain ? parts_.train : *parts_.eval, rows);
}

// A resumed run computes the same again.
void PairMethod::before_first_pass() {
  if (!plan_.precompute_ref_log_probs || !train_reference_.chosen.empty()) return;
  const auto size = [&](std::int64_t batch) { return plan_.precompute_ref_batch_size.value_or(batch); };
  train_reference_ = precompute(parts_.train, size(plan_.per_device_train_batch_size));
  if (parts_.eval) eval_reference_ = precompute(*parts_.eval, size(plan_.per_device_eval_batch_size));
}

PairReference PairMethod::reference_of(const PairBatch& batch) const {
  if (batch.reference == nullptr || batch.reference->chosen.empty())
    return score_reference(batch.data, batch.rows);
  PairReference out;
  for (const std::int64_t row : batch.rows) {
    const auto at = static_cast<std::size_t>(row);
    out.chosen.push_back(batch.reference->chosen.at(at));
    if (!batch.reference->rejected.empty()) out.rejected.push_back(batch.reference->rejected.at(at));
  }
  return out;
}

// ---- micro-batches

BatchLoss PairMethod::run(const MicroBatch& batch) {
  const bool trains = batch.split == Split::kTrain;
  PairBatch pairs{.data = trains ? parts_.train : *parts_.eval,
                  .rows = batch.rows,
                  .key = batch.key,
                  .row_base = batch.row_base,
                  .reference = trains ? &train_reference_ : &eval_reference_,
                  .balances = true};
  if (batch.backward) pairs.loss_scale = batch.backward->loss_scale();
  return run_pairs(pairs);
}

PairData PairMethod::cut_pair(const RehearsalRequest& request) const {
  const auto count = parts_.train.pairs.size();
  const auto first = static_cast<std::size_t>(std::max<std::int64_t>(0, request.index)) % count;
  const auto room = static_cast<std::size_t>(std::max<std::int64_t>(8, request.max_tokens));
  std::size_t row = first;
  PairData out;
  do {  // where sides are compared, a pair whose two are still different after the cut
    const data::PreferencePair& pair = parts_.train.pairs[row];
    out.pairs = {{.row = pair.row,
                  .chosen = ending(pair.chosen, room / 2, room / 4),
                  .rejected = ending(pair.rejected, room / 2, room / 4)}};
    if (!parts_.train.desirable.empty()) out.desirable = {parts_.train.desirable[row]};
    row = (row + 1) % count;
  } while (compares_sides() && out.pairs[0].chosen.scored == out.pairs[0].rejected.scored && row != first);
  return out;
}

Rehearsal PairMethod::rehearse(const RehearsalRequest& request) {
  const PairData one = cut_pair(request);
  RngKey key =
      pass_key(plan_, request.index, request.training && request.adapters_on && !plan_.disable_dropout);
  key.adapters_on = request.adapters_on;
  PairBatch batch{.data = one, .rows = {0}, .key = key};
  if (request.backward && request.adapters_on) batch.loss_scale = 1;
  const BatchLoss found = run_pairs(batch);
  return {.loss = found.loss,
          .nll = found.nll,
          .tokens = found.passed,
          .scored = found.scored,
          .cost = tokens_of(one, batch.rows)};
}

void PairMethod::replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) {
  for (const Rows& rows : order_.step_rows(step)) {
    for (const std::int64_t row : rows) {
      const BatchLoss found = run_pairs({.data = parts_.train,
                                         .rows = {row},
                                         .key = training_key(step),
                                         .loss_scale = 1,
                                         .reference = &train_reference_});
      const std::int64_t file_row = parts_.train.pairs[static_cast<std::size_t>(row)].row;
      if (!see({.name = name_of(file_row), .loss = found.loss})) return;
    }
  }
}

}  // namespace hone::train
