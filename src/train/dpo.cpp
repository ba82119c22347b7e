#include "train/dpo.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/error.h"
#include "ops/linear_logprob.h"
#include "train/pair_pass.h"
#include "train/reference.h"

namespace hone::train {

namespace {

constexpr double kTemperature = 1;

data::OrderOptions order_options(const config::Plan& plan, std::size_t rows) {
  return {.rows = static_cast<std::int64_t>(rows),
          .batch_size = plan.per_device_train_batch_size,
          .accumulation = plan.gradient_accumulation_steps,
          .seed = static_cast<std::uint64_t>(plan.data_seed.value_or(plan.seed)),
          .shuffle = plan.shuffle_rows,
          .drop_last = plan.dataloader_drop_last};
}

std::vector<std::int64_t> some_rows(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

// The last `room` tokens of a side's context and of its scored tokens.
data::PreferenceSide ending(const data::PreferenceSide& side, std::size_t context, std::size_t scored) {
  data::PreferenceSide out = side;
  if (out.context.size() > context) {
    out.context.erase(out.context.begin(), out.context.end() - static_cast<std::ptrdiff_t>(context));
  }
  if (out.scored.size() > scored) out.scored.resize(scored);
  out.completion = static_cast<std::int64_t>(out.scored.size());
  return out;
}

}  // namespace

learn::PreferenceLossOptions preference_loss_options(const config::PreferencePlan& plan) {
  learn::PreferenceLossOptions out;
  out.terms.clear();
  for (std::size_t i = 0; i < plan.loss_type.size(); ++i) {
    const double weight = plan.loss_weights.empty() ? 1.0 : plan.loss_weights.at(i);
    out.terms.push_back({learn::preference_loss_type(plan.loss_type[i]), weight});
  }
  out.beta = plan.beta;
  out.label_smoothing = plan.label_smoothing;
  out.f_divergence = learn::f_divergence(plan.f_divergence_type);
  out.f_alpha_divergence_coef = plan.f_alpha_divergence_coef;
  out.discopop_tau = plan.discopop_tau;
  out.ld_alpha = plan.ld_alpha;
  out.use_weighting = plan.use_weighting;
  return out;
}

DpoMethod::DpoMethod(DpoParts parts)
    : parts_(std::move(parts)),
      order_(order_options(parts_.plan, parts_.train.size())),
      total_steps_(data::total_steps(order_, parts_.plan.num_train_epochs, parts_.plan.max_steps)),
      options_(preference_loss_options(parts_.plan.preference)),
      extra_{.mean_row = ops::mean_row(parts_.model.head()), .squares = options_.use_weighting} {}

// ---- the reference

std::vector<double> DpoMethod::score_reference(const PolicyPass& pass,
                                               const std::vector<std::int64_t>& scored) const {
  const at::NoGradGuard no_grad;
  const auto score = [&](bool adapters_on) {
    return score_policy(parts_.model, pass, {}, kTemperature, parts_.form, adapters_on).logprob;
  };
  at::Tensor logprob;
  if (parts_.reference.defined()) {
    const Swapped swapped(parts_.parameters, parts_.reference);
    logprob = score(true);
  } else {
    logprob = score(false);
  }
  const at::Tensor sums = learn::sum_logps(logprob, scored, options_.ld_alpha);
  const double* first = sums.const_data_ptr<double>();
  return {first, first + sums.numel()};
}

DpoMethod::Reference DpoMethod::precompute(const Pairs& pairs, std::int64_t batch_size) const {
  Reference out;
  const auto count = static_cast<std::int64_t>(pairs.size());
  for (std::int64_t begin = 0; begin < count; begin += batch_size) {
    const PairPass one =
        make_pair_pass(pairs, some_rows(begin, std::min(begin + batch_size, count)), shares());
    const std::vector<double> sums = score_reference(one.pass, one.scored);
    for (std::size_t i = 0; i < sums.size(); ++i) (i % 2 == 0 ? out.chosen : out.rejected).push_back(sums[i]);
  }
  return out;
}

// Before the first pass that trains or evaluates; a resumed run computes the same again.
void DpoMethod::precompute_all() {
  const config::PreferencePlan& plan = parts_.plan.preference;
  if (!plan.precompute_ref_log_probs || !train_reference_.chosen.empty()) return;
  train_reference_ = precompute(
      parts_.train, plan.precompute_ref_batch_size.value_or(parts_.plan.per_device_train_batch_size));
  if (!parts_.eval) return;
  eval_reference_ = precompute(
      *parts_.eval, plan.precompute_ref_batch_size.value_or(parts_.plan.per_device_eval_batch_size));
}

// [2B] fp64.
at::Tensor DpoMethod::reference_of(const Reference& known, const PolicyPass& pass,
                                   const std::vector<std::int64_t>& rows,
                                   const std::vector<std::int64_t>& scored) const {
  std::vector<double> sums;
  if (known.chosen.empty()) {
    sums = score_reference(pass, scored);
  } else {
    for (const std::int64_t row : rows) {
      sums.push_back(known.chosen.at(static_cast<std::size_t>(row)));
      sums.push_back(known.rejected.at(static_cast<std::size_t>(row)));
    }
  }
  at::Tensor out = at::empty({static_cast<std::int64_t>(sums.size())}, at::kDouble);
  std::copy(sums.begin(), sums.end(), out.mutable_data_ptr<double>());
  return out;
}

// ---- training

PassKey DpoMethod::training_key(std::int64_t step) const {
  return {.training = !parts_.plan.preference.disable_dropout,
          .seed = static_cast<std::uint64_t>(parts_.plan.seed),
          .step = static_cast<std::uint64_t>(step)};
}

// Adds the gradients of `share` times their loss.
learn::PreferenceGradient DpoMethod::train_pairs(const PairPass& one, const std::vector<std::int64_t>& rows,
                                                 const PassKey& key, double share) const {
  const at::Tensor reference = reference_of(train_reference_, one.pass, rows, one.scored);
  learn::PreferenceGradient found;
  train_policy(
      parts_.model, one.pass, key, kTemperature, parts_.form,
      [&](const PolicyScores& scores) {
        found = learn::preference_gradient(preference_tokens(one, scores, reference), options_);
        learn::PolicyGradient gradient;
        gradient.loss = found.loss;
        gradient.d_logprob = found.d_logprob.mul_(share);
        return gradient;
      },
      extra_);
  return found;
}

StepLoss DpoMethod::backward(std::int64_t step) {
  precompute_all();
  const data::StepRows micro_batches = order_.step_rows(step);
  const PassKey key = training_key(step);
  const double share = 1.0 / static_cast<double>(micro_batches.size());
  StepLoss out;
  std::int64_t row_base = 0;
  for (const std::vector<std::int64_t>& rows : micro_batches) {
    const PairPass one = make_pair_pass(parts_.train, rows, shares(), row_base);
    row_base += 2 * static_cast<std::int64_t>(rows.size());
    const learn::PreferenceGradient found = train_pairs(one, rows, key, share);
    out.loss += found.loss * share;
    out.tokens += one.tokens;
    out.metrics.insert(out.metrics.end(), found.metrics.begin(), found.metrics.end());
  }
  return out;
}

// transformers' evaluation: each batch's own loss, repeated for its rows, then the mean over rows; metrics
// are TRL's, the mean over batches.
EvalFacts DpoMethod::evaluate() {
  const auto start = std::chrono::steady_clock::now();
  precompute_all();
  const auto count = static_cast<std::int64_t>(parts_.eval->size());
  EvalFacts out;
  MetricMeans means;
  double loss = 0;
  for (std::int64_t begin = 0; begin < count; begin += parts_.plan.per_device_eval_batch_size) {
    const std::vector<std::int64_t> rows =
        some_rows(begin, std::min(begin + parts_.plan.per_device_eval_batch_size, count));
    const PairPass one = make_pair_pass(*parts_.eval, rows, shares());
    const at::Tensor reference = reference_of(eval_reference_, one.pass, rows, one.scored);
    const PolicyScores scores =
        score_policy(parts_.model, one.pass, {}, kTemperature, parts_.form, /*adapters_on=*/true, extra_);
    const learn::PreferenceGradient found =
        learn::preference_gradient(preference_tokens(one, scores, reference), options_);
    loss += found.loss * static_cast<double>(rows.size());
    for (const auto& [name, value] : found.metrics) means.add(name, value);
    out.batches += 1;
  }
  out.rows = count;
  out.metrics = {{"loss", loss / static_cast<double>(count)}};
  for (auto& value : means.values()) out.metrics.push_back(std::move(value));
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

double DpoMethod::epoch_after(std::int64_t step) const {
  return data::epoch_at(order_, step);
}

// ---- rehearsal

Rehearsal DpoMethod::rehearse(const RehearsalRequest& request) {
  const auto count = parts_.train.size();
  const auto first = static_cast<std::size_t>(std::max<std::int64_t>(0, request.index)) % count;
  std::size_t row = first;
  const auto room = static_cast<std::size_t>(std::max<std::int64_t>(8, request.max_tokens));
  Pairs pairs;
  do {  // a pair whose two sides are still two after the cut: equal ones have no gradient
    const data::PreferencePair& pair = parts_.train[row];
    pairs = {{.row = pair.row,
              .chosen = ending(pair.chosen, room / 2, room / 4),
              .rejected = ending(pair.rejected, room / 2, room / 4)}};
    row = (row + 1) % count;
  } while (pairs[0].chosen.scored == pairs[0].rejected.scored && row != first);
  const PairPass one = make_pair_pass(pairs, {0}, shares());
  const std::vector<double> sums = score_reference(one.pass, one.scored);
  const at::Tensor reference = at::tensor(sums, at::kDouble);
  Rehearsal out{.tokens = static_cast<std::int64_t>(one.pass.batch.ids.size()),
                .scored = static_cast<std::int64_t>(one.pass.target.size())};
  const auto loss_of = [&](const PolicyScores& scores) {
    out.nll = -scores.logprob.mean().item<double>();
    learn::PreferenceGradient found =
        learn::preference_gradient(preference_tokens(one, scores, reference), options_);
    out.loss = found.loss;
    learn::PolicyGradient gradient;
    gradient.loss = found.loss;
    gradient.d_logprob = found.d_logprob;
    return gradient;
  };
  PassKey key = {.training = request.training && !parts_.plan.preference.disable_dropout,
                 .seed = static_cast<std::uint64_t>(parts_.plan.seed),
                 .step = static_cast<std::uint64_t>(request.index)};
  if (request.backward && request.adapters_on) {
    train_policy(parts_.model, one.pass, key, kTemperature, parts_.form, loss_of, extra_);
    return out;
  }
  key.training = key.training && request.adapters_on;
  loss_of(score_policy(parts_.model, one.pass, key, kTemperature, parts_.form, request.adapters_on, extra_));
  return out;
}

void DpoMethod::replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) {
  for (const std::vector<std::int64_t>& rows : order_.step_rows(step)) {
    for (const std::int64_t row : rows) {
      const PairPass one = make_pair_pass(parts_.train, {row}, shares());
      const learn::PreferenceGradient found = train_pairs(one, {row}, training_key(step), 1);
      const std::int64_t line = parts_.train[static_cast<std::size_t>(row)].row + 1;
      if (!see({.name = "line " + std::to_string(line) + " of " + parts_.plan.dataset_name,
                .loss = found.loss})) {
        return;
      }
    }
  }
}

}  // namespace hone::train
