#include "train/reward_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/error.h"
#include "model/explicit_pass.h"

namespace hone::train {

namespace {

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

std::vector<double> margins_of(const data::RewardPairs& data, const std::vector<std::int64_t>& rows) {
  std::vector<double> out;
  if (data.margins.empty()) return out;
  for (const std::int64_t row : rows) out.push_back(data.margins.at(static_cast<std::size_t>(row)));
  return out;
}

at::Tensor index_tensor(const std::vector<std::int64_t>& values) {
  at::Tensor out = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), out.mutable_data_ptr<std::int64_t>());
  return out;
}

// The context's last and the rest's first tokens.
data::PreferenceSide ending(const data::PreferenceSide& side, std::size_t context, std::size_t scored) {
  data::PreferenceSide out = side;
  if (out.context.size() > context) {
    out.context.erase(out.context.begin(), out.context.end() - static_cast<std::ptrdiff_t>(context));
  }
  if (out.scored.size() > scored) out.scored.resize(scored);
  out.completion = static_cast<std::int64_t>(out.scored.size());
  return out;
}

// A pass with what its forward needs by reference.
struct Run {
  Run(const RewardPass& pass, const PassKey& key)
      : rows(pass.batch.ids.size()),
        last(index_tensor(pass.last)),
        context{.training = key.training,
                .adapters_on = key.adapters_on,
                .seed = key.seed,
                .step = key.step,
                .token_row = &rows,
                .token_position = &pass.batch.positions} {
    for (const data::Segment& segment : pass.batch.segments)
      std::fill(rows.begin() + segment.begin, rows.begin() + segment.end, segment.row);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  std::vector<std::int64_t> rows;
  at::Tensor last;
  ops::PassContext context;
};

}  // namespace

RewardPass make_reward_pass(const std::vector<data::PreferencePair>& pairs,
                            const std::vector<std::int64_t>& rows, bool share_prompt, std::int64_t row_base) {
  RewardPass out;
  data::Batch& batch = out.batch;
  const auto append = [&](const std::vector<std::int32_t>& ids, std::int64_t position) {
    for (const std::int32_t id : ids) {
      batch.ids.push_back(id);
      batch.positions.push_back(position++);
    }
  };
  const auto close = [&](std::int64_t begin, std::int64_t row, std::int64_t prefix) {
    const auto end = static_cast<std::int64_t>(batch.ids.size());
    batch.segments.push_back({.begin = begin, .end = end, .row = row, .prefix = prefix});
    return static_cast<std::int64_t>(batch.segments.size()) - 1;
  };
  for (const std::int64_t row : rows) {
    const data::PreferencePair& pair = pairs.at(static_cast<std::size_t>(row));
    const bool shared = share_prompt && pair.shares_context() && !pair.chosen.context.empty();
    std::int64_t prefix = data::kNoPrefix;
    if (shared) {
      const auto begin = static_cast<std::int64_t>(batch.ids.size());
      append(pair.chosen.context, 0);
      prefix = close(begin, row_base + static_cast<std::int64_t>(out.last.size()), data::kNoPrefix);
    }
    for (const data::PreferenceSide* side : {&pair.chosen, &pair.rejected}) {
      const auto begin = static_cast<std::int64_t>(batch.ids.size());
      const auto length = static_cast<std::int64_t>(side->context.size());
      if (!shared) append(side->context, 0);
      append(side->scored, length);
      close(begin, row_base + static_cast<std::int64_t>(out.last.size()), prefix);
      out.last.push_back(static_cast<std::int64_t>(batch.ids.size()) - 1);
    }
    out.tokens += data::pair_tokens(pair);
  }
  batch.labels.assign(batch.ids.size(), data::kIgnore);
  return out;
}

at::Tensor score_rewards(const model::CausalLm& model, const RewardPass& pass, const PassKey& key,
                         const PassForm& form) {
  const at::NoGradGuard no_grad;
  const Run run(pass, key);
  at::Tensor hidden;
  if (form.is_explicit) {
    hidden = model::ExplicitPass(model, pass.batch, run.context).forward(run.last, std::nullopt);
  } else {
    hidden = model.hidden(pass.batch, run.context).index_select(0, run.last);
  }
  return at::linear(hidden.to(at::kFloat), model.score_head()).squeeze(1);
}

RewardModelMethod::RewardModelMethod(RewardModelParts parts)
    : parts_(std::move(parts)),
      order_(order_options(parts_.plan, parts_.train.pairs.size())),
      total_steps_(data::total_steps(order_, parts_.plan.num_train_epochs, parts_.plan.max_steps)) {
  base::require(parts_.model.score_head().defined(), "RewardModelMethod", "a model with a score head");
}

learn::RewardGradient RewardModelMethod::loss_of(const at::Tensor& scores,
                                                 const std::vector<double>& margins) const {
  return learn::reward_gradient(scores, margins, parts_.plan.reward.center_rewards_coefficient);
}

learn::RewardGradient RewardModelMethod::train_pass(const RewardPass& pass, const PassKey& key,
                                                    const std::vector<double>& margins, double share) {
  const Run run(pass, key);
  const at::Tensor& score = parts_.model.score_head();
  if (!parts_.form.is_explicit) {
    const at::AutoGradMode with_grad(true);
    const at::Tensor hidden = parts_.model.hidden(pass.batch, run.context).index_select(0, run.last);
    const at::Tensor scores = at::linear(hidden.to(at::kFloat), score).squeeze(1);
    learn::RewardGradient found = loss_of(scores, margins);
    scores.backward((found.d_score * share).to(scores.device(), at::kFloat));
    return found;
  }
  const at::NoGradGuard no_grad;
  model::ExplicitPass explicit_pass(parts_.model, pass.batch, run.context);
  const at::Tensor hidden = explicit_pass.forward(run.last, parts_.form.recompute).to(at::kFloat);
  learn::RewardGradient found = loss_of(at::linear(hidden, score).squeeze(1), margins);
  const at::Tensor d = (found.d_score * share).to(hidden.device(), at::kFloat).unsqueeze(1);  // [2B, 1]
  at::Tensor head = score.grad();
  head.addmm_(d.t(), hidden);
  explicit_pass.backward(d * score);
  return found;
}

PassKey RewardModelMethod::training_key(std::int64_t step) const {
  return {.training = !parts_.plan.reward.disable_dropout,
          .seed = static_cast<std::uint64_t>(parts_.plan.seed),
          .step = static_cast<std::uint64_t>(step)};
}

StepLoss RewardModelMethod::backward(std::int64_t step) {
  const data::StepRows micro_batches = order_.step_rows(step);
  const PassKey key = training_key(step);
  const double share = 1.0 / static_cast<double>(micro_batches.size());
  StepLoss out;
  std::int64_t row_base = 0;
  for (const std::vector<std::int64_t>& rows : micro_batches) {
    const RewardPass pass = make_reward_pass(parts_.train.pairs, rows, shares(), row_base);
    row_base += 2 * static_cast<std::int64_t>(rows.size());
    const learn::RewardGradient found = train_pass(pass, key, margins_of(parts_.train, rows), share);
    out.loss += found.loss * share;
    out.tokens += pass.tokens;
    out.metrics.insert(out.metrics.end(), found.metrics.begin(), found.metrics.end());
  }
  return out;
}

// transformers' evaluation: each batch's own loss, repeated for its rows, then the mean over rows; metrics
// are TRL's, the mean over batches.
EvalFacts RewardModelMethod::evaluate() {
  const auto start = std::chrono::steady_clock::now();
  const data::RewardPairs& data = *parts_.eval;
  const auto count = static_cast<std::int64_t>(data.pairs.size());
  EvalFacts out;
  MetricMeans means;
  double loss = 0;
  for (std::int64_t begin = 0; begin < count; begin += parts_.plan.per_device_eval_batch_size) {
    const std::vector<std::int64_t> rows =
        some_rows(begin, std::min(begin + parts_.plan.per_device_eval_batch_size, count));
    const RewardPass pass = make_reward_pass(data.pairs, rows, shares());
    const learn::RewardGradient found =
        loss_of(score_rewards(parts_.model, pass, {}, parts_.form), margins_of(data, rows));
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

double RewardModelMethod::epoch_after(std::int64_t step) const {
  return data::epoch_at(order_, step);
}

Rehearsal RewardModelMethod::rehearse(const RehearsalRequest& request) {
  const auto count = parts_.train.pairs.size();
  const auto first = static_cast<std::size_t>(std::max<std::int64_t>(0, request.index)) % count;
  const auto room = static_cast<std::size_t>(std::max<std::int64_t>(8, request.max_tokens));
  std::size_t row = first;
  Pairs pairs;
  do {  // a pair whose two sides are still two after the cut: equal ones have no gradient
    const data::PreferencePair& pair = parts_.train.pairs[row];
    pairs = {{.row = pair.row,
              .chosen = ending(pair.chosen, room / 2, room / 4),
              .rejected = ending(pair.rejected, room / 2, room / 4)}};
    row = (row + 1) % count;
  } while (pairs[0].chosen.scored == pairs[0].rejected.scored && row != first);
  const RewardPass pass = make_reward_pass(pairs, {0}, shares());
  Rehearsal out{.tokens = static_cast<std::int64_t>(pass.batch.ids.size()),
                .scored = static_cast<std::int64_t>(pass.last.size())};
  const PassKey key = {
      .training = request.training && request.adapters_on && !parts_.plan.reward.disable_dropout,
      .seed = static_cast<std::uint64_t>(parts_.plan.seed),
      .step = static_cast<std::uint64_t>(request.index),
      .adapters_on = request.adapters_on};
  const learn::RewardGradient found = request.backward && request.adapters_on
                                          ? train_pass(pass, key, {}, 1)
                                          : loss_of(score_rewards(parts_.model, pass, key, parts_.form), {});
  out.loss = found.loss;
  out.nll = found.loss;
  return out;
}

void RewardModelMethod::replay_samples(std::int64_t step,
                                       const std::function<bool(const ReplayedSample&)>& see) {
  for (const std::vector<std::int64_t>& rows : order_.step_rows(step)) {
    for (const std::int64_t row : rows) {
      const RewardPass pass = make_reward_pass(parts_.train.pairs, {row}, shares());
      const learn::RewardGradient found =
          train_pass(pass, training_key(step), margins_of(parts_.train, {row}), 1);
      const std::int64_t line = parts_.train.pairs[static_cast<std::size_t>(row)].row + 1;
      if (!see({.name = "line " + std::to_string(line) + " of " + parts_.plan.dataset_name,
                .loss = found.loss})) {
        return;
      }
    }
  }
}

}  // namespace hone::train
