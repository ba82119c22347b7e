#include "train/methods/online_dpo/online_dpo.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/step_progress.h"
#include "base/stopwatch.h"
#include "train/batches/kl_by_depth.h"
#include "train/steps/pair_method.h"

namespace hone::train::online_dpo {

namespace {

using base::Clock;
using base::seconds_since;

std::vector<std::int64_t> concat(const data::StepRows& micro_batches) {
  std::vector<std::int64_t> out;
  for (const auto& rows : micro_batches) out.insert(out.end(), rows.begin(), rows.end());
  return out;
}

// What completions/ and the doctor's watch see: 1 the better, -1 the worse, 0 of a tie or without a score.
void add_advantages(const std::vector<std::vector<OnlinePair>>& micro_batches, RolloutFacts& facts) {
  for (const auto& pairs : micro_batches) {
    for (const OnlinePair& one : pairs) {
      const double value = one.is_scored && !one.is_tie ? 1 : 0;
      facts.completions[one.chosen].advantage = value;
      facts.completions[one.rejected].advantage = -value;
    }
  }
}

std::int64_t without_score(const std::vector<std::vector<OnlinePair>>& micro_batches) {
  std::int64_t out = 0;
  for (const auto& pairs : micro_batches)
    out += std::count_if(pairs.begin(), pairs.end(), [](const OnlinePair& one) { return !one.is_scored; });
  return out;
}

// TRL's of the pass's sequences, [2B] each.
std::vector<NamedValue> objective_metrics(const at::Tensor& logps, const at::Tensor& reference,
                                          std::span<const OnlinePair> pairs, double beta, bool judged) {
  const at::Tensor kl = logps - reference;
  const double mean_kl = kl.mean().item<double>();
  std::vector<NamedValue> out = {{"objective/kl", mean_kl},
                                 {"objective/entropy", -logps.mean().item<double>()},
                                 {"objective/non_score_reward", -beta * mean_kl}};
  if (judged) return out;
  double scores = 0;
  for (const OnlinePair& one : pairs) scores += one.score_chosen + one.score_rejected;
  out.emplace_back("objective/rlhf_reward", scores / static_cast<double>(2 * pairs.size()) - beta * mean_kl);
  return out;
}

// Largest |trainer - sampler| log-probability, where the two are of the same distribution and text.
double ratio_gap(const TokenScores& scores, std::span<const OnlinePair> pairs, const RolloutBatch& batch) {
  std::vector<float> recorded;
  for (const OnlinePair& one : pairs) {
    const std::size_t prompt = batch.prompts[batch.samples[one.chosen].prompt].ids.size();
    if (data::view(one.record).sequence(data::Part::kChosen).context.size() != prompt) return -1;
    for (const std::size_t i : {one.chosen, one.rejected}) {
      const RolloutSample& sample = batch.samples[i];
      if (sample.old_logprobs.size() != sample.ids.size()) return -1;
      recorded.insert(recorded.end(), sample.old_logprobs.begin(), sample.old_logprobs.end());
    }
  }
  return (scores.logprob.cpu() - at::tensor(recorded, at::kFloat)).abs().max().item<double>();
}

// Of the completions, one after another: `scored` tokens each.
KlByDepth kl_of(const at::Tensor& policy, const at::Tensor& reference,
                const std::vector<std::int64_t>& scored) {
  const at::Tensor of_policy = policy.detach().cpu().to(at::kFloat).contiguous();
  const at::Tensor of_reference = reference.detach().cpu().to(at::kFloat).contiguous();
  const auto tokens = [](const at::Tensor& all, std::int64_t begin, std::int64_t count) {
    return std::span(all.const_data_ptr<float>() + begin, static_cast<std::size_t>(count));
  };
  KlByDepth out;
  std::int64_t begin = 0;
  for (const std::int64_t count : scored) {
    add_completion(out, tokens(of_policy, begin, count), tokens(of_reference, begin, count));
    begin += count;
  }
  return out;
}

data::OrderOptions order_of(const SamplingParts& parts) {
  data::OrderOptions out = order_options(parts.plan, static_cast<std::size_t>(parts.prompts));
  out.streamed = parts.streamed;
  return out;
}

}  // namespace

OnlineDpo::OnlineDpo(SamplingParts parts) : SamplingMethod(std::move(parts)), order_(order_of(parts_)) {
  total_steps_ = data::total_steps(order_, parts_.plan.num_train_epochs, parts_.plan.max_steps);
}

double OnlineDpo::beta_at(std::int64_t step) const {
  const std::vector<double>& betas = parts_.plan.online.beta;
  const auto epoch = static_cast<std::size_t>(step / order_.steps_per_epoch());
  return betas[std::min(epoch, betas.size() - 1)];
}

// ---- generation

std::vector<std::vector<OnlinePair>> OnlineDpo::generate(std::int64_t step, RolloutBatch& batch,
                                                         StepLoss& out) {
  SourcedRollouts made = source().make({.generation = step,
                                        .rows = concat(order_.step_rows(step)),
                                        .num_generations = 2,
                                        .trainer_state = state_of(step)});
  auto micro_batches = online_pairs(made.batch, parts_.plan, parts_.model.config().vocab_size,
                                    "generation batch " + std::to_string(step));
  out.timings = {{"rollout", made.rollout_seconds}, {"reward", made.reward_seconds}};
  out.metrics = made.metrics;
  out.counts = made.counts;
  for (const RolloutSample& sample : made.batch.samples) {
    out.tokens += static_cast<std::int64_t>(made.batch.prompts[sample.prompt].ids.size() + sample.ids.size());
  }
  add_advantages(micro_batches, made.facts);
  const std::int64_t left_out = without_score(micro_batches);
  tell(made.facts, made.batch, step, left_out, " pairs have a completion without a score: they are left out",
       2 * left_out == static_cast<std::int64_t>(made.batch.samples.size()));
  batch = std::move(made.batch);
  return micro_batches;
}

// ---- passes

PairPass OnlineDpo::pass_of(std::span<const OnlinePair> pairs, std::int64_t row_base) const {
  std::vector<data::RecordView> records;
  for (const OnlinePair& one : pairs) records.push_back(data::view(one.record));
  PairPass out = make_pair_pass(records, {.share_prompt = shares(), .row_base = row_base});
  // learn/'s ipo divides by these; Online DPO's is of sums.
  std::fill(out.completion.begin(), out.completion.end(), 1);
  return out;
}

// [n] fp32.
at::Tensor OnlineDpo::reference_of(const PairPass& one) const {
  const auto score = [&](const model::CausalLm& model, bool adapters_on) {
    return score_policy(model, one.pass, {.adapters_on = adapters_on}, parts_.form).logprob;
  };
  return parts_.reference.score(parts_.model, score);
}

learn::PreferenceGradient OnlineDpo::loss_of(const PairPass& one, const TokenScores& scores,
                                             const at::Tensor& reference, double beta) const {
  learn::PreferenceTokens tokens = preference_tokens(one, scores, reference);
  tokens.entropy = at::Tensor();  // DPO's metric of that name; TRL's objective/entropy is another number
  learn::PreferenceLossOptions options;
  options.terms = {{.type = learn::preference_loss_type(parts_.plan.online.loss_type), .weight = 1}};
  options.beta = beta;
  return learn::preference_gradient(tokens, options);
}

OnlineDpo::Found OnlineDpo::run_pairs(std::span<const OnlinePair> pairs, const RolloutBatch& batch,
                                      const RngKey& key, double beta, double backward_scale,
                                      std::int64_t row_base) const {
  const PairPass one = pass_of(pairs, row_base);
  const at::Tensor reference_tokens = reference_of(one);
  const at::Tensor reference = learn::sum_logps(reference_tokens, one.scored, std::nullopt);  // [2B] fp64
  Found out;
  const auto see = [&](const TokenScores& scores) {
    learn::PreferenceGradient found = loss_of(one, scores, reference, beta);
    out.loss = found.loss;
    out.metrics = objective_metrics(learn::sum_logps(scores.logprob, one.scored, std::nullopt), reference,
                                    pairs, beta, !parts_.plan.online.judge.empty());
    out.metrics.insert(out.metrics.end(), found.metrics.begin(), found.metrics.end());
    if (!parts_.dropout && parts_.plan.policy.temperature == HeadOptions().temperature) {
      out.ratio_gap = ratio_gap(scores, pairs, batch);
    }
    if (backward_scale != 0) out.kl = kl_of(scores.logprob, reference_tokens, one.scored);
    learn::PolicyGradient gradient;
    gradient.loss = found.loss;
    gradient.d_logprob = found.d_logprob.mul_(backward_scale);
    return gradient;
  };
  if (backward_scale == 0) {
    see(score_policy(parts_.model, one.pass, key, parts_.form));
  } else {
    train_policy(parts_.model, one.pass, key, parts_.form, {}, see);
  }
  return out;
}

// ---- training

StepLoss OnlineDpo::backward(std::int64_t step) {
  StepLoss out;
  const auto micro_batches = generate(step, newest_, out);
  last_step_ = step;
  newest_pairs_.clear();
  const auto start = Clock::now();
  const RngKey key = training_key(step);
  const double beta = beta_at(step);
  struct Share {
    std::vector<OnlinePair> pairs;
    double loss_scale = 0;
    std::int64_t row_base = 0;
  };
  std::vector<Share> shares;
  Costs costs;
  std::int64_t row_base = 0;
  for (const std::vector<OnlinePair>& pairs : micro_batches) {
    Share one{.pairs = trained_pairs(pairs, parts_.plan), .row_base = row_base};
    // Those that are left out count as pairs without a gradient.
    one.loss_scale = static_cast<double>(one.pairs.size()) / static_cast<double>(pairs.size()) /
                     static_cast<double>(micro_batches.size());
    newest_pairs_.insert(newest_pairs_.end(), one.pairs.begin(), one.pairs.end());
    row_base += 2 * static_cast<std::int64_t>(pairs.size());
    costs.push_back(0);
    for (const OnlinePair& pair : one.pairs) costs.back() += std::ssize(pair.record.ids);
    shares.push_back(std::move(one));
  }
  base::begin_part("training", "micro-batches", static_cast<std::int64_t>(shares.size()));
  const auto found = work().add_gradients<Found>(costs, [&](std::size_t i) {
    const Share& one = shares[i];
    Found facts;
    if (!one.pairs.empty()) facts = run_pairs(one.pairs, newest_, key, beta, one.loss_scale, one.row_base);
    base::advance_part();
    return facts;
  });
  double gap = -1;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto join = [&out](const std::vector<NamedValue>& more) {
      out.metrics.insert(out.metrics.end(), more.begin(), more.end());
    };
    join(score_metrics(newest_, micro_batches[i], parts_.plan));
    out.metrics.emplace_back("beta", beta);
    out.loss += found[i].loss * shares[i].loss_scale;
    gap = std::max(gap, found[i].ratio_gap);
    for (std::size_t part = 0; part < KlByDepth::kParts; ++part) out.kl.sums[part] += found[i].kl.sums[part];
    out.kl.tokens += found[i].kl.tokens;
    join(found[i].metrics);
  }
  if (gap >= 0) out.metrics.emplace_back("ratio_gap", gap);
  out.timings.emplace_back("train", seconds_since(start));
  return out;
}

// Each batch of per_device_eval_batch_size prompts has its own metrics and loss; then plain means.
EvalFacts OnlineDpo::evaluate() {
  const auto start = Clock::now();
  const SourcedRollouts made = sample_evaluation(2);
  config::Plan plan = parts_.plan;
  plan.per_device_train_batch_size = plan.per_device_eval_batch_size;  // how online_pairs cuts
  EvalFacts out;
  MetricMeans means;
  means.add("loss", std::numeric_limits<double>::quiet_NaN());  // the first name, also where no pair counts
  for (const std::vector<OnlinePair>& pairs :
       online_pairs(made.batch, plan, parts_.model.config().vocab_size, "the evaluation")) {
    const std::vector<OnlinePair> trained = trained_pairs(pairs, plan);
    if (!trained.empty()) {
      const Found found = run_pairs(trained, made.batch, {}, beta_at(std::max<std::int64_t>(0, last_step_)),
                                    /*backward_scale=*/0, 0);
      means.add("loss", found.loss);
      for (const auto& [name, value] : found.metrics) means.add(name, value);
    }
    for (const auto& [name, value] : score_metrics(made.batch, pairs, plan)) means.add(name, value);
    out.batches += 1;
    out.rows += static_cast<std::int64_t>(pairs.size());
  }
  for (const auto& [name, value] : made.metrics) means.add(name, value);
  out.metrics = means.values();
  out.seconds = seconds_since(start);
  return out;
}

}  // namespace hone::train::online_dpo
