#include "train/steps/policy_step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "train/steps/micro_batches.h"

namespace hone::train {

namespace {

using config::PolicyPlan;

learn::SamplingCorrection correction(const PolicyPlan& policy) {
  using enum learn::SamplingCorrection;
  if (!policy.importance_sampling_correction) return kNone;
  static const std::map<std::string, learn::SamplingCorrection> modes = {
      {"token_mask", kTokenMask},
      {"token_truncate", kTokenTruncate},
      {"sequence_mask", kSequenceMask},
      {"sequence_truncate", kSequenceTruncate}};
  return modes.at(policy.importance_sampling_mode);
}

// One field of the samples end to end, or undefined when one of them lacks it.
at::Tensor field_of(const RolloutBatch& batch, std::span<const std::size_t> samples,
                    std::vector<float> RolloutSample::* field) {
  std::vector<float> values;
  for (const std::size_t i : samples) {
    const std::vector<float>& one = batch.samples[i].*field;
    if (one.size() != batch.samples[i].drawn()) return {};
    values.insert(values.end(), one.begin(), one.end());
  }
  return at::tensor(values, at::kFloat);
}

at::Tensor truncated(const RolloutBatch& batch, std::span<const std::size_t> samples) {
  at::Tensor out = at::zeros({static_cast<std::int64_t>(samples.size())}, at::kBool);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    out.mutable_data_ptr<bool>()[i] = batch.samples[samples[i]].truncated;
  }
  return out;
}

at::Tensor sequence_of_tokens(const RolloutBatch& batch, std::span<const std::size_t> samples) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    out.insert(out.end(), batch.samples[samples[i]].drawn(), static_cast<std::int64_t>(i));
  }
  return at::tensor(out, at::kLong);
}

void add_reward_metrics(const learn::Advantages& found, const RolloutBatch& batch, std::int64_t group,
                        std::vector<NamedValue>& metrics) {
  for (std::size_t k = 0; k < batch.reward_names.size(); ++k) {
    const std::string name = "rewards/" + batch.reward_names[k];
    metrics.emplace_back(name + "/mean", found.function_mean[k]);
    metrics.emplace_back(name + "/std", found.function_std[k]);
  }
  metrics.emplace_back("reward", found.reward);
  metrics.emplace_back("reward_std", found.reward_std);
  metrics.emplace_back("frac_reward_zero_std", found.frac_reward_zero_std);
  const auto groups = static_cast<double>(batch.samples.size()) / static_cast<double>(group);
  metrics.emplace_back("dead_groups", static_cast<double>(found.dead_groups) / groups);
}

void add_sampling_ratio(ScoredRollouts& out, const learn::PolicyLossOptions& options) {
  const std::vector<std::size_t> all = all_of(out.batch.samples.size());
  const learn::PolicyTokens tokens = batch_tokens(out.batch, all);
  if (!tokens.old_logprob.defined() || !tokens.sampling_logprob.defined()) {
    throw base::UserError(
        {.where = "vllm_importance_sampling_correction",
         .expected = "sampling_logprobs and old_logprobs of every sample",
         .found = "a rollout without them",
         .cause = "the file of --replay does not have them, or the rollout function gives None as logprobs",
         .fix = "leave the correction off"});
  }
  const learn::SamplingRatio found = learn::sampling_ratio(tokens, options);
  const bool by_sequence = found.ratio.numel() == static_cast<std::int64_t>(all.size()) &&
                           options.sampling_correction != learn::SamplingCorrection::kTokenMask &&
                           options.sampling_correction != learn::SamplingCorrection::kTokenTruncate;
  std::int64_t at_token = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto size = static_cast<std::int64_t>(out.batch.samples[i].drawn());
    out.sampling_ratio.push_back(by_sequence ? found.ratio.narrow(0, static_cast<std::int64_t>(i), 1)
                                             : found.ratio.narrow(0, at_token, size));
    at_token += size;
  }
  out.metrics.insert(out.metrics.end(),
                     {{"sampling/sampling_logp_difference/mean", found.logp_difference_mean},
                      {"sampling/sampling_logp_difference/max", found.logp_difference_max},
                      {"sampling/importance_sampling_ratio/min", found.ratio_min},
                      {"sampling/importance_sampling_ratio/mean", found.ratio_mean},
                      {"sampling/importance_sampling_ratio/max", found.ratio_max}});
}

learn::RewardTable reward_table(const RolloutBatch& batch, const PolicyPlan& policy, std::int64_t group,
                                std::vector<double>& rewards, std::vector<double>& weights) {
  for (const RolloutSample& sample : batch.samples) {
    rewards.insert(rewards.end(), sample.rewards.begin(), sample.rewards.end());
  }
  // The rewards of environments come last and have no weight of their own: 1, as in TRL.
  weights = policy.reward_weights;
  if (!weights.empty()) weights.resize(batch.reward_names.size(), 1);
  return {.rewards = rewards,
          .functions = static_cast<std::int64_t>(batch.reward_names.size()),
          .group_size = group,
          .weights = weights};
}

}  // namespace

void add_tool_metrics(const RolloutBatch& batch, std::span<const std::size_t> samples,
                      std::vector<NamedValue>& metrics) {
  if (!batch.has_tools) return;
  double calls = 0, failed = 0;
  for (const std::size_t i : samples) {
    for (const ToolCall& one : batch.samples[i].calls) {
      calls += 1;
      failed += one.failed ? 1 : 0;
    }
  }
  metrics.emplace_back("tools/call_frequency", calls / static_cast<double>(samples.size()));
  metrics.emplace_back("tools/failure_frequency", calls == 0 ? 0 : failed / calls);
}

void add_length_metrics(const RolloutBatch& batch, std::span<const std::size_t> samples,
                        std::vector<NamedValue>& metrics) {
  std::vector<double> all, terminated;
  for (const std::size_t i : samples) {
    const RolloutSample& sample = batch.samples[i];
    const auto length = static_cast<double>(sample.drawn());
    all.push_back(length);
    if (!sample.truncated) terminated.push_back(length);
  }
  const double cut = static_cast<double>(all.size() - terminated.size()) / static_cast<double>(all.size());
  if (terminated.empty()) terminated.push_back(0);  // as TRL
  const auto add = [&](const char* kind, const std::vector<double>& values) {
    const std::string name = std::string("completions/");
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    metrics.emplace_back(name + "mean_" + kind, sum / static_cast<double>(values.size()));
    metrics.emplace_back(name + "min_" + kind, *std::min_element(values.begin(), values.end()));
    metrics.emplace_back(name + "max_" + kind, *std::max_element(values.begin(), values.end()));
  };
  add("length", all);
  metrics.emplace_back("completions/clipped_ratio", cut);
  add("terminated_length", terminated);
}

learn::PolicyTokens batch_tokens(const RolloutBatch& batch, std::span<const std::size_t> samples) {
  learn::PolicyTokens out;
  out.old_logprob = field_of(batch, samples, &RolloutSample::old_logprobs);
  out.logprob = out.old_logprob;
  out.ref_logprob = field_of(batch, samples, &RolloutSample::ref_logprobs);
  out.sampling_logprob = field_of(batch, samples, &RolloutSample::sampling_logprobs);
  out.sequence = sequence_of_tokens(batch, samples);
  out.truncated = truncated(batch, samples);
  std::vector<double> advantages;
  for (const std::size_t i : samples) advantages.push_back(batch.samples[i].advantage);
  out.advantages = at::tensor(advantages, at::kDouble);
  return out;
}

learn::PolicyLossOptions policy_loss_options(const PolicyPlan& p) {
  learn::PolicyLossOptions out{p};
  out.importance_level = p.importance_sampling_level == "sequence" ? learn::ImportanceLevel::kSequence
                                                                   : learn::ImportanceLevel::kToken;
  out.sampling_correction = correction(p);
  out.entropy_bonus = p.entropy_coef != 0 || p.use_adaptive_entropy;
  out.max_completion_length = static_cast<double>(p.max_completion_length);
  return out;
}

ScoredRollouts score_rollouts(RolloutBatch batch, const PolicyPlan& policy, const GroupLoss& loss,
                              std::int64_t group, const std::function<void(RolloutBatch&)>& reference) {
  const learn::PolicyLossOptions options = loss.options(policy);
  ScoredRollouts out;
  out.batch = std::move(batch);
  const bool known =
      std::all_of(out.batch.samples.begin(), out.batch.samples.end(),
                  [](const RolloutSample& one) { return one.ref_logprobs.size() == one.drawn(); });
  if (policy.beta != 0 && !known) reference(out.batch);
  add_length_metrics(out.batch, all_of(out.batch.samples.size()), out.metrics);
  add_tool_metrics(out.batch, all_of(out.batch.samples.size()), out.metrics);
  std::vector<double> rewards, weights;
  const learn::Advantages found = loss.advantages(
      out.batch, reward_table(out.batch, policy, group, rewards, weights), policy, out.metrics);
  out.unscorable = found.unscorable_rows;
  add_reward_metrics(found, out.batch, group, out.metrics);
  for (std::size_t i = 0; i < out.batch.samples.size(); ++i)
    out.batch.samples[i].advantage = found.advantages[i];
  if (options.sampling_correction != learn::SamplingCorrection::kNone) add_sampling_ratio(out, options);
  for (const RolloutSample& sample : out.batch.samples) {
    out.tokens += static_cast<std::int64_t>(out.batch.prompts[sample.prompt].ids.size() + sample.drawn());
  }
  out.generation_tokens = scored_tokens(out.batch, all_of(out.batch.samples.size()), policy);
  return out;
}

learn::PolicyTokens policy_tokens(const ScoredRollouts& rollouts, std::span<const std::size_t> samples,
                                  const TokenScores& scores, bool with_old, const PolicyPlan& policy) {
  learn::PolicyTokens out = batch_tokens(rollouts.batch, samples);
  out.logprob = scores.logprob;
  out.entropy = scores.entropy;
  // TRL knows the sampler's own distribution under its correction alone; else the old one stands for it.
  if (!policy.importance_sampling_correction) out.sampling_logprob.reset();
  if (!with_old) out.old_logprob.reset();
  if (policy.beta == 0) out.ref_logprob.reset();
  if (!rollouts.sampling_ratio.empty()) {
    std::vector<at::Tensor> ratios;
    for (const std::size_t i : samples) ratios.push_back(rollouts.sampling_ratio[i]);
    out.sampling_ratio = at::cat(ratios);
  }
  return out;
}

TokenScores recorded_scores(const RolloutBatch& batch, std::span<const std::size_t> samples) {
  return {.logprob = field_of(batch, samples, &RolloutSample::old_logprobs),
          .entropy = field_of(batch, samples, &RolloutSample::entropies)};
}

double scored_tokens(const RolloutBatch& batch, std::span<const std::size_t> samples,
                     const PolicyPlan& policy) {
  double out = 0;
  for (const std::size_t i : samples) {
    const RolloutSample& sample = batch.samples[i];
    if (policy.mask_truncated_completions && sample.truncated) continue;
    out += static_cast<double>(sample.drawn());
  }
  return out;
}

}  // namespace hone::train
