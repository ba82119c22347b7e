#include "doctor/probes/sampled_rollouts.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/stopwatch.h"
#include "doctor/probes/drawn_rows.h"
#include "doctor/probes/rewards/reward_answers.h"
#include "train/batches/rollout_source.h"

namespace hone::doctor {

namespace {

using base::Clock;

constexpr std::int64_t kFirstGeneration = 0xFFFFFD00;  // randomness apart from every training batch's
constexpr std::size_t kPromptsAtOnce = 4;

// The run's own reward, lent to a queue of ours.
class Lent final : public rewards::Reward {
 public:
  explicit Lent(rewards::Reward& reward) : reward_(reward) {}
  const std::string& name() const override { return reward_.name(); }
  rewards::Scores score(const rewards::Request& request) override { return reward_.score(request); }
  int parallel_calls() const override { return reward_.parallel_calls(); }
  bool takes_batch() const override { return reward_.takes_batch(); }

 private:
  rewards::Reward& reward_;
};

double total_of(const std::vector<double>& rewards, const std::vector<double>& weights) {
  double out = 0;
  bool any = false;
  for (std::size_t k = 0; k < rewards.size(); ++k) {
    if (std::isnan(rewards[k])) continue;
    any = true;
    out += rewards[k] * (k < weights.size() ? weights[k] : 1);
  }
  return any ? out : rewards::kNone;
}

}  // namespace

double dead_share(double p, std::int64_t size) {
  const auto n = static_cast<double>(size);
  return std::pow(p, n) + std::pow(1 - p, n);
}

SampledRollouts sample_rollouts(const train::RunView& run, const RolloutLimits& limits) {
  const auto start = Clock::now();
  const train::PolicyPrompts& prompts = run.sampled().train_prompts;
  std::vector<std::unique_ptr<rewards::Reward>> rewards;
  for (const auto& one : run.sampled().rewards) {
    if (limits.scored) rewards.push_back(std::make_unique<Lent>(*one));
  }
  rollout::GenerateOptions options =
      train::sampling_options(run.plan, run.model->config(), run.text->tokenizer);
  if (limits.max_new_tokens > 0) options.max_new_tokens = limits.max_new_tokens;
  train::LiveRollouts source(options, *run.model, prompts, run.text->tokenizer, rewards, /*by_group=*/false,
                             run.sampled().tools.get());

  SampledRollouts out;
  out.group = limits.samples > 0 ? limits.samples : run.plan.policy.num_generations;
  out.reward_names = source.reward_names();
  const auto all = static_cast<std::int64_t>(prompts.rows.size());
  const std::int64_t count = std::min(all, limits.prompts);
  const std::vector<std::size_t> drawn = draw_rows(prompts, static_cast<std::size_t>(count));
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    rows.push_back(static_cast<std::int64_t>(drawn[static_cast<std::size_t>(i)]));
    if (rows.size() < kPromptsAtOnce && i + 1 < count) continue;
    const train::SourcedRollouts made = source.make({.generation = kFirstGeneration + i,
                                                     .rows = rows,
                                                     .num_generations = out.group,
                                                     .trainer_state = first_state(run)});
    rows.clear();
    out.completions.insert(out.completions.end(), made.batch.samples.begin(), made.batch.samples.end());
    out.warnings.insert(out.warnings.end(), made.facts.warnings.begin(), made.facts.warnings.end());
    out.rollout_seconds += made.rollout_seconds;
    out.reward_seconds += made.reward_seconds;
    if (std::chrono::duration<double>(Clock::now() - start).count() > limits.seconds) break;
  }
  for (const train::RolloutSample& one : out.completions) {
    out.tokens += static_cast<std::int64_t>(one.ids.size());
    out.totals.push_back(total_of(one.rewards, run.plan.policy.reward_weights));
  }
  return out;
}

}  // namespace hone::doctor
