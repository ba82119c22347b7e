#include "train/methods/distill/distill.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/step_progress.h"
#include "base/stopwatch.h"
#include "train/batches/mixed_rollouts.h"
#include "train/steps/policy_step.h"

namespace hone::train::distill {

namespace {

using base::Clock;
using base::seconds_since;
using Samples = std::vector<std::size_t>;

PolicyOrder order_of(const SamplingParts& parts) {
  const config::Plan& plan = parts.plan;
  return PolicyOrder({.prompts = parts.prompts,
                      .prompts_per_generation = plan.policy.generation_batch_size,
                      .steps_per_generation = plan.policy.steps_per_generation,
                      .num_iterations = 1,
                      .accumulation = plan.accumulation(),
                      .seed = static_cast<std::uint64_t>(plan.seed),
                      .shuffle = plan.shuffle_dataset,
                      .streamed = parts.streamed});
}

// Samples in order, `size` at a time.
std::vector<Samples> cut(std::size_t count, std::int64_t size) {
  std::vector<Samples> out;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % static_cast<std::size_t>(size) == 0) out.emplace_back();
    out.back().push_back(i);
  }
  return out;
}

std::int64_t tokens_of(const RolloutBatch& batch, std::span<const std::size_t> samples) {
  std::int64_t out = 0;
  for (const std::size_t i : samples)
    out += std::ssize(batch.prompts[batch.samples[i].prompt].ids) + std::ssize(batch.samples[i].ids);
  return out;
}

// As TRL counts num_tokens: prompts, and what the model has drawn.
std::int64_t counted_tokens(const RolloutBatch& batch) {
  std::int64_t out = 0;
  for (const RolloutSample& sample : batch.samples)
    out += std::ssize(batch.prompts[sample.prompt].ids) + static_cast<std::int64_t>(sample.drawn());
  return out;
}

double drawn_tokens(const RolloutBatch& batch) {
  double out = 0;
  for (const RolloutSample& sample : batch.samples) out += static_cast<double>(sample.drawn());
  return out;
}

template <typename Archive>
void fields_of(Archive& archive, DivergenceFacts& facts) {
  archive(facts.divergence, facts.entropy, facts.teacher_kl, facts.tokens);
}

// DivergenceFacts on their way between ranks.
struct Found : DivergenceFacts {
  template <typename Archive>
  friend void fields(Archive& archive, Found& facts) {
    fields_of(archive, facts);
  }
};

double per_token(double sum, std::int64_t tokens) {
  return tokens == 0 ? 0 : sum / static_cast<double>(tokens);
}

}  // namespace

Distill::Distill(SamplingParts parts)
    : SamplingMethod(std::move(parts)),
      order_(order_of(parts_)),
      options_{.beta = parts_.plan.distill.beta,
               .temperature = parts_.plan.distill.loss_temperature.value_or(parts_.plan.policy.temperature)} {
  total_steps_ = order_.total_steps(parts_.plan.num_train_epochs, parts_.plan.max_steps);
}

void Distill::require_fitting(const RolloutBatch& batch, const std::string& where) const {
  const auto expected = static_cast<std::size_t>(parts_.plan.policy.generation_batch_size);
  std::size_t sliced = 0;
  for (const Samples& slice : batch.slices) sliced += slice.size();
  if (batch.samples.size() != expected || (!batch.slices.empty() && sliced != expected)) {
    throw base::UserError(
        {.where = where,
         .expected = std::to_string(expected) + " completions, one a prompt, each in one slice",
         .found = std::to_string(batch.samples.size()) + " completions",
         .cause = "recorded by a run of another method or other batch sizes",
         .fix = "replay a file that `hone distill --dump_rollouts` wrote with these options"});
  }
  check_rollouts(batch, 1, parts_.model.config().vocab_size, where);
}

std::vector<Samples> Distill::slices_of(const RolloutBatch& batch) const {
  return batch.slices.empty() ? cut(batch.samples.size(), parts_.plan.per_device_train_batch_size)
                              : batch.slices;
}

// sampled_fraction: the share of micro-batches whose completions the model has sampled.
void Distill::add_mix_metric(std::vector<NamedValue>& metrics, std::int64_t step,
                             std::size_t micro_batches) const {
  if (!mixes(parts_.plan)) return;
  double count = 0;
  for (std::size_t i = 0; i < micro_batches; ++i)
    count += is_sampled(mix_options(parts_.plan), step, static_cast<std::int64_t>(i)) ? 1 : 0;
  metrics.emplace_back("sampled_fraction", count / static_cast<double>(micro_batches));
}

DivergenceFacts Distill::run_samples(const RolloutBatch& batch, std::span<const std::size_t> samples,
                                     const RngKey& key, double factor) const {
  const PolicyPass pass = make_policy_pass(batch, samples, /*share_prompt=*/false);
  if (parts_.plan.distill.loss_type == "sampled")
    return run_sampled(batch, pass, batch_tokens(batch, pass.samples).old_logprob, key, factor);
  if (parts_.plan.distill.loss_type == "top_k") return run_top_k(batch, pass, key, factor);
  const TeacherRows teacher =
      parts_.reference.score(parts_.model, [&](const model::CausalLm& model, bool adapters_on) {
        return teacher_rows(model, adapters_on, pass, parts_.form);
      });
  return run_divergence(parts_.model, teacher, pass, key, parts_.form, options_, factor);
}

StepLoss Distill::backward(std::int64_t step) {
  StepLoss out;
  SourcedRollouts made = source().make({.generation = step,
                                        .rows = order_.prompts(step),
                                        .num_generations = 1,
                                        .trainer_state = state_of(step)});
  require_fitting(made.batch, "generation batch " + std::to_string(step));
  out.metrics = made.metrics;
  out.counts = made.counts;
  out.tokens = counted_tokens(made.batch);
  add_length_metrics(made.batch, all_of(made.batch.samples.size()), out.metrics);
  add_tool_metrics(made.batch, all_of(made.batch.samples.size()), out.metrics);
  tell(made.facts, made.batch, step, 0, "", /*nothing_scored=*/false);
  newest_ = std::move(made.batch);
  last_step_ = step;

  const auto start = Clock::now();
  const RngKey key = training_key(step);
  const std::vector<Samples> slices = slices_of(newest_);
  const double tokens = std::max(1.0, drawn_tokens(newest_));
  Costs costs;
  for (const Samples& slice : slices) costs.push_back(tokens_of(newest_, slice));
  base::begin_part("training", "micro-batches", std::ssize(slices));
  const auto found = work().add_gradients<Found>(costs, [&](std::size_t i) {
    Found one{run_samples(newest_, slices[i], key, 1 / tokens)};
    base::advance_part();
    return one;
  });
  const bool sampled = parts_.plan.distill.loss_type == "sampled";
  double teacher_kl = 0;
  for (const Found& one : found) {
    out.loss += one.divergence / tokens;
    teacher_kl += one.teacher_kl / tokens;
    out.metrics.emplace_back("entropy", per_token(one.entropy, one.tokens));
  }
  if (sampled) out.metrics.emplace_back("teacher_kl", teacher_kl);
  add_mix_metric(out.metrics, step, slices.size());
  out.timings = {
      {"rollout", made.rollout_seconds}, {"reward", made.reward_seconds}, {"train", seconds_since(start)}};
  return out;
}

EvalFacts Distill::evaluate() {
  const auto start = Clock::now();
  const SourcedRollouts made = sample_evaluation(1);
  const auto batches = cut(made.batch.samples.size(), parts_.plan.per_device_eval_batch_size);
  Costs costs;
  for (const Samples& samples : batches) costs.push_back(tokens_of(made.batch, samples));
  base::begin_part("evaluating", "batches", std::ssize(batches));
  const auto found = work().each<Found>(
      costs,
      [&](std::size_t i) {
        const Found one{run_samples(made.batch, batches[i], {}, /*factor=*/0)};
        base::advance_part();
        return one;
      },
      "evaluation");
  EvalFacts out{.metrics = {{"loss", 0}}};
  MetricMeans means;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    out.metrics.front().second += per_token(found[i].divergence, found[i].tokens) *
                                  static_cast<double>(batches[i].size()) /
                                  static_cast<double>(made.batch.samples.size());
    std::vector<NamedValue> metrics = {{"entropy", per_token(found[i].entropy, found[i].tokens)}};
    if (parts_.plan.distill.loss_type == "sampled")
      metrics.emplace_back("teacher_kl", per_token(found[i].teacher_kl, found[i].tokens));
    add_length_metrics(made.batch, batches[i], metrics);
    add_tool_metrics(made.batch, batches[i], metrics);
    for (const auto& [name, value] : metrics) means.add(name, value);
    out.batches += 1;
    out.rows += std::ssize(batches[i]);
  }
  for (const NamedValue& one : means.values()) out.metrics.push_back(one);
  out.seconds = seconds_since(start);
  return out;
}

}  // namespace hone::train::distill
