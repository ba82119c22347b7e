#include "train/kto.h"

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

using Rows = std::vector<std::int64_t>;

data::OrderOptions order_options(const config::Plan& plan, std::size_t rows) {
  return {.rows = static_cast<std::int64_t>(rows),
          .batch_size = plan.per_device_train_batch_size,
          .accumulation = plan.gradient_accumulation_steps,
          .seed = static_cast<std::uint64_t>(plan.data_seed.value_or(plan.seed)),
          .shuffle = plan.shuffle_rows,
          .drop_last = plan.dataloader_drop_last};
}

learn::KtoLossOptions loss_options(const config::KtoPlan& plan) {
  return {.type = learn::kto_loss_type(plan.loss_type),
          .beta = plan.beta,
          .desirable_weight = plan.desirable_weight,
          .undesirable_weight = plan.undesirable_weight};
}

Rows some_rows(std::int64_t begin, std::int64_t end) {
  Rows rows(static_cast<std::size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

// The rows' prompts, each with one of its two completions. Rows without a scored token are left out.
enum class Which { kOwn, kExchanged };
struct SidePass {
  PolicyPass pass;
  Rows rows;                         // those that are in it, as given
  std::vector<std::int64_t> scored;  // of each
  std::int64_t tokens = 0;
};
SidePass make_side_pass(const std::vector<data::PreferencePair>& all, const Rows& rows, Which which,
                        std::int64_t row_base) {
  RolloutBatch batch;
  SidePass out;
  for (const std::int64_t row : rows) {
    const data::PreferencePair& pair = all.at(static_cast<std::size_t>(row));
    const data::PreferenceSide& side = which == Which::kOwn ? pair.chosen : pair.rejected;
    if (side.scored.empty()) continue;
    batch.prompts.push_back({.row = pair.row, .ids = side.context});
    batch.samples.push_back({.prompt = batch.prompts.size() - 1, .ids = side.scored});
    out.rows.push_back(row);
    out.scored.push_back(static_cast<std::int64_t>(side.scored.size()));
    out.tokens += side.tokens();
  }
  std::vector<std::size_t> samples(batch.samples.size());
  std::iota(samples.begin(), samples.end(), std::size_t{0});
  out.pass = make_policy_pass(batch, samples, /*share_prompt=*/false, row_base);
  return out;
}

std::vector<double> sums_of(const at::Tensor& logprob, const std::vector<std::int64_t>& scored) {
  const at::Tensor values = logprob.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* at = values.const_data_ptr<double>();
  std::vector<double> out;
  for (const std::int64_t count : scored) {
    out.push_back(std::accumulate(at, at + count, 0.0));
    at += count;
  }
  return out;
}

// The context's last and the completion's first tokens.
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

KtoMethod::KtoMethod(KtoParts parts)
    : parts_(std::move(parts)),
      order_(order_options(parts_.plan, parts_.train.rows.size())),
      total_steps_(data::total_steps(order_, parts_.plan.num_train_epochs, parts_.plan.max_steps)),
      options_(loss_options(parts_.plan.kto)),
      extra_{.mean_row = ops::mean_row(parts_.model.head())} {}

// ---- the reference

at::Tensor KtoMethod::reference_logprobs(const PolicyPass& pass) const {
  const at::NoGradGuard no_grad;
  const auto score = [&](bool adapters_on) {
    return score_policy(parts_.model, pass, {}, kTemperature, parts_.form, adapters_on).logprob;
  };
  if (!parts_.reference.defined()) return score(false);
  const Swapped swapped(parts_.parameters, parts_.reference);
  return score(true);
}

KtoMethod::Reference KtoMethod::score_reference(const data::UnpairedData& data, const Rows& rows) const {
  Reference out;
  const bool whole = std::all_of(rows.begin(), rows.end(), [&](std::int64_t row) {
    return !data.rows.at(static_cast<std::size_t>(row)).rejected.scored.empty();
  });
  if (estimates() && whole) {
    const PairPass both = make_pair_pass(data.rows, rows, parts_.form.is_explicit);
    const std::vector<double> sums = sums_of(reference_logprobs(both.pass), both.scored);
    for (std::size_t i = 0; i < sums.size(); ++i) (i % 2 == 0 ? out.own : out.exchanged).push_back(sums[i]);
    return out;
  }
  const SidePass own = make_side_pass(data.rows, rows, Which::kOwn, 0);
  out.own = sums_of(reference_logprobs(own.pass), own.scored);
  if (!estimates()) return out;
  out.exchanged.assign(rows.size(), 0);
  const SidePass other = make_side_pass(data.rows, rows, Which::kExchanged, 0);
  if (other.rows.empty()) return out;
  const std::vector<double> sums = sums_of(reference_logprobs(other.pass), other.scored);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto place = std::find(rows.begin(), rows.end(), other.rows[i]) - rows.begin();
    out.exchanged[static_cast<std::size_t>(place)] = sums[i];
  }
  return out;
}

KtoMethod::Reference KtoMethod::precompute(const data::UnpairedData& data, std::int64_t batch_size) const {
  Reference out;
  const auto count = static_cast<std::int64_t>(data.rows.size());
  for (std::int64_t begin = 0; begin < count; begin += batch_size) {
    const Reference one = score_reference(data, some_rows(begin, std::min(begin + batch_size, count)));
    out.own.insert(out.own.end(), one.own.begin(), one.own.end());
    out.exchanged.insert(out.exchanged.end(), one.exchanged.begin(), one.exchanged.end());
  }
  return out;
}

// Before the first pass that trains or evaluates; a resumed run computes the same again.
void KtoMethod::precompute_all() {
  const config::KtoPlan& plan = parts_.plan.kto;
  if (!plan.precompute_ref_log_probs || !train_reference_.own.empty()) return;
  train_reference_ = precompute(
      parts_.train, plan.precompute_ref_batch_size.value_or(parts_.plan.per_device_train_batch_size));
  if (!parts_.eval) return;
  eval_reference_ = precompute(
      *parts_.eval, plan.precompute_ref_batch_size.value_or(parts_.plan.per_device_eval_batch_size));
}

KtoMethod::Reference KtoMethod::reference_of(const Reference& known, const data::UnpairedData& data,
                                             const Rows& rows) const {
  if (known.own.empty()) return score_reference(data, rows);
  Reference out;
  for (const std::int64_t row : rows) {
    out.own.push_back(known.own.at(static_cast<std::size_t>(row)));
    if (estimates()) out.exchanged.push_back(known.exchanged.at(static_cast<std::size_t>(row)));
  }
  return out;
}

// ---- training

double KtoMethod::mean_kl(const data::UnpairedData& data, const Rows& rows, const Reference& reference,
                          const PassKey& key, std::int64_t row_base) const {
  if (!estimates()) return 0;
  const SidePass other = make_side_pass(data.rows, rows, Which::kExchanged, row_base);
  if (other.rows.empty()) return 0;
  const at::NoGradGuard no_grad;
  const std::vector<double> sums =
      sums_of(score_policy(parts_.model, other.pass, key, kTemperature, parts_.form, key.adapters_on).logprob,
              other.scored);
  double out = std::accumulate(sums.begin(), sums.end(), 0.0);
  out -= std::accumulate(reference.exchanged.begin(), reference.exchanged.end(), 0.0);
  return out / static_cast<double>(rows.size());
}

learn::KtoGradient KtoMethod::micro_batch(const data::UnpairedData& data, const Rows& rows,
                                          const Reference& known, const PassKey& key, std::int64_t row_base,
                                          std::optional<double> share) const {
  const Reference reference = reference_of(known, data, rows);
  const auto count = static_cast<std::int64_t>(rows.size());
  const SidePass own = make_side_pass(data.rows, rows, Which::kOwn, row_base);
  learn::KtoTokens tokens{.desirable = {},
                          .scored = own.scored,
                          .reference = reference.own,
                          .kl = mean_kl(data, rows, reference, key, row_base + count),
                          .logprob = {},
                          .entropy = {},
                          .mean_logit = {}};
  for (const std::int64_t row : rows)
    tokens.desirable.push_back(data.desirable.at(static_cast<std::size_t>(row)));
  learn::KtoGradient found;
  const auto loss_of = [&](const PolicyScores& scores) {
    tokens.logprob = scores.logprob;
    tokens.entropy = scores.entropy;
    tokens.mean_logit = scores.mean_logit;
    found = learn::kto_gradient(tokens, options_);
    learn::PolicyGradient gradient;
    gradient.loss = found.loss;
    gradient.d_logprob = found.d_logprob * share.value_or(1);
    return gradient;
  };
  if (share) {
    train_policy(parts_.model, own.pass, key, kTemperature, parts_.form, loss_of, extra_);
  } else {
    loss_of(score_policy(parts_.model, own.pass, key, kTemperature, parts_.form, key.adapters_on, extra_));
  }
  return found;
}

PassKey KtoMethod::training_key(std::int64_t step) const {
  return {.training = !parts_.plan.kto.disable_dropout,
          .seed = static_cast<std::uint64_t>(parts_.plan.seed),
          .step = static_cast<std::uint64_t>(step)};
}

StepLoss KtoMethod::backward(std::int64_t step) {
  precompute_all();
  const data::StepRows micro_batches = order_.step_rows(step);
  const PassKey key = training_key(step);
  const double share = 1.0 / static_cast<double>(micro_batches.size());
  StepLoss out;
  std::int64_t row_base = 0;
  for (const Rows& rows : micro_batches) {
    const learn::KtoGradient found = micro_batch(parts_.train, rows, train_reference_, key, row_base, share);
    row_base += 2 * static_cast<std::int64_t>(rows.size());
    out.loss += found.loss * share;
    for (const std::int64_t row : rows)
      out.tokens += parts_.train.rows[static_cast<std::size_t>(row)].chosen.tokens();
    out.metrics.insert(out.metrics.end(), found.metrics.begin(), found.metrics.end());
  }
  return out;
}

// transformers' evaluation: each batch's own loss, repeated for its rows, then the mean over rows; metrics
// are TRL's, the mean over batches.
EvalFacts KtoMethod::evaluate() {
  const auto start = std::chrono::steady_clock::now();
  precompute_all();
  const auto count = static_cast<std::int64_t>(parts_.eval->rows.size());
  EvalFacts out;
  MetricMeans means;
  double loss = 0;
  for (std::int64_t begin = 0; begin < count; begin += parts_.plan.per_device_eval_batch_size) {
    const Rows rows = some_rows(begin, std::min(begin + parts_.plan.per_device_eval_batch_size, count));
    const learn::KtoGradient found = micro_batch(*parts_.eval, rows, eval_reference_, {}, 0, std::nullopt);
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

double KtoMethod::epoch_after(std::int64_t step) const {
  return data::epoch_at(order_, step);
}

// ---- rehearsal

Rehearsal KtoMethod::rehearse(const RehearsalRequest& request) {
  const auto row =
      static_cast<std::size_t>(std::max<std::int64_t>(0, request.index)) % parts_.train.rows.size();
  const auto room = static_cast<std::size_t>(std::max<std::int64_t>(8, request.max_tokens));
  const data::PreferencePair& pair = parts_.train.rows[row];
  data::UnpairedData one;
  one.rows = {{.row = pair.row,
               .chosen = ending(pair.chosen, room / 2, room / 4),
               .rejected = ending(pair.rejected, room / 2, room / 4)}};
  one.desirable = {parts_.train.desirable[row]};
  const PassKey key = {
      .training = request.training && request.adapters_on && !parts_.plan.kto.disable_dropout,
      .seed = static_cast<std::uint64_t>(parts_.plan.seed),
      .step = static_cast<std::uint64_t>(request.index),
      .adapters_on = request.adapters_on};
  const bool trains = request.backward && request.adapters_on;
  const learn::KtoGradient found =
      micro_batch(one, {0}, {}, key, 0, trains ? std::optional<double>(1) : std::nullopt);
  Rehearsal out{.loss = found.loss,
                .tokens = one.rows[0].chosen.tokens() + one.rows[0].rejected.tokens(),
                .scored = static_cast<std::int64_t>(one.rows[0].chosen.scored.size())};
  for (const auto& [name, value] : found.metrics) {
    if (name.starts_with("logps/")) out.nll = -value / static_cast<double>(out.scored);
  }
  return out;
}

void KtoMethod::replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) {
  for (const Rows& rows : order_.step_rows(step)) {
    for (const std::int64_t row : rows) {
      const learn::KtoGradient found =
          micro_batch(parts_.train, {row}, train_reference_, training_key(step), 0, 1.0);
      const std::int64_t line = parts_.train.rows[static_cast<std::size_t>(row)].row + 1;
      if (!see({.name = "line " + std::to_string(line) + " of " + parts_.plan.dataset_name,
                .loss = found.loss})) {
        return;
      }
    }
  }
}

}  // namespace hone::train
