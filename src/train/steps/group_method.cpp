#include "train/steps/group_method.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"
#include "base/step_progress.h"
#include "base/stopwatch.h"
#include "train/methods/router_factor.h"
#include "train/steps/group_filter.h"

namespace hone::train {

namespace {

using base::Clock;
using base::Json;
using base::seconds_since;

constexpr const char* kCurrentRollouts = "rollouts.json";
constexpr double kNoAdvantage = 1e-9;  // equal rewards less their mean are a rounding error
constexpr const char* kEntropyFile = "entropy_ctrl_state.json";  // TRL's name and keys

// In order of their numbers: by group.
std::vector<std::size_t> concat(const std::vector<std::vector<std::size_t>>& slices) {
  std::vector<std::size_t> out;
  for (const auto& slice : slices) out.insert(out.end(), slice.begin(), slice.end());
  std::sort(out.begin(), out.end());
  return out;
}

// Tokens that a pass reads, a shared prompt once.
std::int64_t cost_of(const RolloutBatch& batch, const std::vector<std::size_t>& samples) {
  std::size_t tokens = 0, prompt = batch.prompts.size();
  for (const std::size_t i : samples) {
    const RolloutSample& sample = batch.samples[i];
    if (sample.prompt != prompt) tokens += batch.prompts[sample.prompt].ids.size();
    prompt = sample.prompt;
    tokens += sample.ids.size();
  }
  return static_cast<std::int64_t>(tokens);
}

Costs costs_of(const RolloutBatch& batch, const std::vector<std::vector<std::size_t>>& passes) {
  Costs out;
  for (const auto& samples : passes) out.push_back(cost_of(batch, samples));
  return out;
}

std::vector<float> floats_of(const at::Tensor& values) {
  const at::Tensor here = values.cpu().contiguous();
  const float* const first = here.const_data_ptr<float>();
  return {first, first + here.numel()};
}

// Samples [begin, end), whole groups, as a batch of their own. Prompts stand in the order of the samples.
RolloutBatch part_of(const RolloutBatch& all, std::size_t begin, std::size_t end) {
  RolloutBatch out{
      .generation = all.generation, .reward_names = all.reward_names, .has_tools = all.has_tools};
  const std::size_t first = all.samples[begin].prompt, last = all.samples[end - 1].prompt;
  out.prompts.assign(all.prompts.begin() + static_cast<std::ptrdiff_t>(first),
                     all.prompts.begin() + static_cast<std::ptrdiff_t>(last + 1));
  for (std::size_t i = begin; i < end; ++i) {
    out.samples.push_back(all.samples[i]);
    out.samples.back().prompt -= first;
  }
  return out;
}

}  // namespace

GroupMethod::GroupMethod(SamplingParts parts, const GroupLoss& loss, PolicyOrder order,
                         const std::map<std::string, std::string>& state_files)
    : SamplingMethod(std::move(parts)),
      loss_(loss),
      order_(std::move(order)),
      options_(loss.options(parts_.plan.policy)),
      balance_(router_factor(parts_.plan, parts_.model.config())) {
  total_steps_ = order_.total_steps(parts_.plan.num_train_epochs, parts_.plan.max_steps);
  entropy_.coef = parts_.plan.policy.entropy_coef;
  if (const auto found = state_files.find(kEntropyFile); found != state_files.end()) {
    const std::string where = std::string(kEntropyFile) + " of the checkpoint";
    const Json json = base::parse_json(found->second, where);
    entropy_.coef = real_number(json, "entropy_coef", where);
    if (!std::isfinite(entropy_.coef)) {
      throw BadState({.where = where + " entropy_coef",
                      .expected = "a finite number",
                      .found = base::dump_json(json["entropy_coef"]),
                      .cause = "the file was edited",
                      .fix = "resume from another checkpoint-N folder"});
    }
    const double last = real_number(json, "last_world_entropy", where);
    if (!std::isnan(last)) entropy_.last_entropy = last;
  }
  next_entropy_ = entropy_;
  if (const auto found = state_files.find(kCurrentRollouts); found != state_files.end()) {
    RolloutBatch batch =
        rollout_batch_from_json(base::parse_json(found->second, kCurrentRollouts), kCurrentRollouts);
    require_fitting(batch, std::string(kCurrentRollouts) + " of the checkpoint");
    current_ = std::make_shared<ScoredRollouts>(score(std::move(batch), parts_.plan.policy.num_generations));
  }
}

bool GroupMethod::uses_old_logprobs() const {
  return !order_.on_policy() || options_.loss_type == learn::PolicyLossType::kRloo ||
         options_.sampling_correction != learn::SamplingCorrection::kNone;
}

bool GroupMethod::scores_before() const {
  if (!uses_old_logprobs()) return false;
  if (parts_.source.lacks_scores()) return true;
  return !parts_.source.has_the_trainers_scores() &&
         (!order_.on_policy() || options_.sampling_correction != learn::SamplingCorrection::kNone);
}

learn::PolicyTokens GroupMethod::tokens_of(const ScoredRollouts& rollouts,
                                           std::span<const std::size_t> samples,
                                           const TokenScores& scores) const {
  learn::PolicyTokens out = policy_tokens(rollouts, samples, scores, uses_old_logprobs(), parts_.plan.policy);
  // The weights have not moved since the batch was drawn: the old ones are the step's own, and the ratio is exactly 1.
  if (out.old_logprob.defined() && order_.on_policy() && !parts_.source.has_the_trainers_scores())
    out.old_logprob = out.logprob;
  return out;
}

StateFiles GroupMethod::state_files() const {
  StateFiles out;
  if (current_ && !order_.is_last_use(current_->batch.generation, last_step_)) {
    out.emplace_back(kCurrentRollouts, base::dump_json(to_json(current_->batch)) + "\n");
  }
  if (parts_.plan.policy.use_adaptive_entropy) {
    const double last = entropy_.last_entropy;
    const Json json = {{"entropy_coef", entropy_.coef},
                       {"last_world_entropy", std::isfinite(last) ? Json(last) : Json()}};
    out.emplace_back(kEntropyFile, base::dump_json(json) + "\n");
  }
  return out;
}

std::int64_t GroupMethod::next_generation(std::int64_t steps) const {
  const std::int64_t first = order_.step_slices(steps).front().generation;
  return current_ && current_->batch.generation == first ? first + 1 : first;
}

// ---- generation

void GroupMethod::add_reference(RolloutBatch& batch) {
  const auto passes = compose_passes(batch, all_of(batch.samples.size()), pass_limit());
  parts_.reference.score(parts_.model, [&](const model::CausalLm& model, bool adapters_on) {
    const auto found = work().each<std::vector<float>>(
        costs_of(batch, passes),
        [&](std::size_t i) {
          const PolicyPass pass = make_policy_pass(batch, passes[i], shares());
          return floats_of(
              score_policy(model, pass, {.adapters_on = adapters_on}, parts_.form, head_options()).logprob);
        },
        "reference log-probabilities");
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const float* at_token = found[i].data();
      for (const std::size_t at : make_policy_pass(batch, passes[i], shares()).samples) {
        RolloutSample& sample = batch.samples[at];
        sample.ref_logprobs.assign(at_token, at_token + sample.drawn());
        at_token += sample.drawn();
      }
    }
  });
}

// TRL's old log-probabilities: those of the trained model before it is updated.
void GroupMethod::add_scores(RolloutBatch& batch, Found* gaps) {
  const auto passes = compose_passes(batch, all_of(batch.samples.size()), pass_limit());
  const auto found = work().each<std::vector<float>>(
      costs_of(batch, passes),
      [&](std::size_t i) {
        const at::NoGradGuard no_grad;
        const PolicyPass pass = make_policy_pass(batch, passes[i], shares());
        const TokenScores scores = score_policy(parts_.model, pass, {}, parts_.form, head_options());
        return floats_of(at::cat({scores.logprob, scores.entropy}));
      },
      "old log-probabilities");
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const float* logprob = found[i].data();
    const float* entropy = logprob + found[i].size() / 2;
    for (const std::size_t at : make_policy_pass(batch, passes[i], shares()).samples) {
      RolloutSample& sample = batch.samples[at];
      for (std::size_t t = 0; gaps != nullptr && t < sample.old_logprobs.size(); ++t) {
        const double gap = std::abs(static_cast<double>(logprob[t]) - sample.old_logprobs[t]);
        gaps->see_gaps(gap, gap, 1);
      }
      sample.old_logprobs.assign(logprob, logprob + sample.drawn());
      sample.entropies.assign(entropy, entropy + sample.drawn());
      logprob += sample.drawn();
      entropy += sample.drawn();
    }
  }
}

ScoredRollouts GroupMethod::score(RolloutBatch batch, std::int64_t group) {
  return score_rollouts(std::move(batch), parts_.plan.policy, loss_, group,
                        [this](RolloutBatch& one) { add_reference(one); });
}

std::shared_ptr<ScoredRollouts> GroupMethod::generate(std::int64_t generation, std::int64_t step,
                                                      Found& found) {
  const RolloutRequest request{.generation = generation,
                               .rows = order_.prompts(generation),
                               .num_generations = parts_.plan.policy.num_generations,
                               .trainer_state = state_of(step)};
  const bool filters =
      parts_.plan.policy.filter_groups && parts_.plan.policy.replay.empty() && !parts_.plan.dataset_streaming;
  SourcedRollouts made =
      filters ? sample_live_groups(source(), request, parts_.plan.policy,
                                   static_cast<std::uint64_t>(parts_.plan.seed), parts_.prompts)
              : source().make(request);
  if (scores_before()) add_scores(made.batch, &found);
  require_fitting(made.batch, "generation batch " + std::to_string(generation));
  auto out =
      std::make_shared<ScoredRollouts>(score(std::move(made.batch), parts_.plan.policy.num_generations));
  found.rollout_seconds += made.rollout_seconds;
  found.reward_seconds += made.reward_seconds;
  found.loss.tokens += out->tokens;
  found.loss.metrics.insert(found.loss.metrics.end(), out->metrics.begin(), out->metrics.end());
  found.loss.metrics.insert(found.loss.metrics.end(), made.metrics.begin(), made.metrics.end());
  add_counts(found.loss.counts, made.counts);
  for (std::size_t i = 0; i < out->batch.samples.size(); ++i) {
    made.facts.completions[i].advantage = out->batch.samples[i].advantage;
  }
  tell(made.facts, out->batch, step, out->unscorable,
       " completions have no score from any reward function: their advantage is 0",
       out->unscorable == static_cast<std::int64_t>(out->batch.samples.size()));
  return out;
}

// Those that the file names. Else per_device_train_batch_size samples in order, of a random order when a
// generation batch feeds several optimizer steps: each then sees samples of all prompts, as TRL's do (its own
// shuffle is torch's).
std::vector<std::vector<std::size_t>> GroupMethod::slices_of(const RolloutBatch& batch) const {
  if (!batch.slices.empty()) return batch.slices;
  const PolicyOrderOptions& order = order_.options();
  std::vector<std::size_t> samples = all_of(batch.samples.size());
  if (order.accumulation % order.steps_per_generation != 0) {
    const base::Stream random(static_cast<std::uint64_t>(parts_.plan.seed), base::Purpose::kOrder,
                              static_cast<std::uint64_t>(batch.generation));
    for (std::size_t i = samples.size(); i-- > 1;) std::swap(samples[i], samples[random.bits(i) % (i + 1)]);
  }
  const auto size = static_cast<std::size_t>(parts_.plan.per_device_train_batch_size);
  std::vector<std::vector<std::size_t>> out(samples.size() / size);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto begin = samples.begin() + static_cast<std::ptrdiff_t>(i * size);
    out[i].assign(begin, begin + static_cast<std::ptrdiff_t>(size));
  }
  return out;
}

// Also of a batch that a checkpoint kept: the options may be others now.
void GroupMethod::require_fitting(const RolloutBatch& batch, const std::string& where) const {
  const config::PolicyPlan& policy = parts_.plan.policy;
  const auto expected = static_cast<std::size_t>(policy.generation_batch_size);
  const auto size = static_cast<std::size_t>(parts_.plan.per_device_train_batch_size);
  const bool olds = std::all_of(batch.samples.begin(), batch.samples.end(), [](const RolloutSample& one) {
    return one.old_logprobs.size() == one.drawn();
  });
  const bool sliced =
      batch.slices.empty() || (batch.slices.size() == static_cast<std::size_t>(policy.steps_per_generation) &&
                               std::all_of(batch.slices.begin(), batch.slices.end(),
                                           [&](const auto& one) { return one.size() == size; }));
  if (batch.samples.size() != expected || (uses_old_logprobs() && !olds) || !sliced ||
      batch.reward_names != parts_.source.reward_names()) {
    throw base::UserError(
        {.where = where,
         .expected = std::to_string(expected) + " samples (generation_batch_size)" +
                     (uses_old_logprobs() ? " with old_logprobs" : "") + ", in slices, if any, of " +
                     std::to_string(size) + ", with the rewards of this run",
         .found = std::to_string(batch.samples.size()) + " samples" + (olds ? "" : ", some without") + ", " +
                  std::to_string(batch.slices.size()) + " slices",
         .cause = "what replay or the checkpoint holds was recorded with other options",
         .fix = "set num_generations, reward_funcs and generation_batch_size, or what makes it "
                "(per_device_train_batch_size, gradient_accumulation_steps, steps_per_generation), as in the "
                "run that wrote it"});
  }
  check_rollouts(batch, policy.num_generations, parts_.model.config().vocab_size, where);
}

PassLimit GroupMethod::pass_limit() const {
  return {.sequences = parts_.plan.per_device_train_batch_size, .tokens = parts_.pass_tokens};
}

double GroupMethod::applied_entropy_coef() const {
  const config::PolicyPlan& policy = parts_.plan.policy;
  if (!policy.use_adaptive_entropy) return policy.entropy_coef;
  return entropy_.last_entropy <= policy.entropy_target ? entropy_.coef : 0.0;
}

std::vector<GroupMethod::Part> GroupMethod::load(std::int64_t step, Found& found) {
  std::vector<Part> out;
  for (const PolicySlice& one : order_.step_slices(step)) {
    const bool is_known = current_ && current_->batch.generation == one.generation;
    const bool fresh = !is_known || (!out.empty() && out.back().fresh);
    if (!is_known) current_ = generate(one.generation, step, found);
    if (out.empty() || out.back().rollouts != current_ || out.back().iteration != one.iteration) {
      const std::int64_t row_base =
          static_cast<std::int64_t>(out.size()) * parts_.plan.policy.generation_batch_size;
      out.push_back({.rollouts = current_,
                     .iteration = one.iteration,
                     .row_base = row_base,
                     .fresh = fresh,
                     .slices = {}});
    }
    out.back().slices.push_back(slices_of(current_->batch).at(static_cast<std::size_t>(one.slice)));
  }
  return out;
}

// ---- training

StepLoss GroupMethod::backward(std::int64_t step) {
  const std::shared_ptr<ScoredRollouts> before = current_;
  const std::int64_t last = last_step_;
  try {
    return make_step(step);
  } catch (...) {  // a checkpoint of the steps before is saved then
    current_ = before;
    last_step_ = last;
    throw;
  }
}

StepLoss GroupMethod::make_step(std::int64_t step) {
  Found found;
  const std::vector<Part> parts = load(step, found);
  last_step_ = step;
  const auto start = Clock::now();
  const RngKey key = training_key(step);
  const bool by_slice = !parts.front().rollouts->batch.slices.empty();
  options_.span = by_slice ? learn::Span::kMicroBatch : learn::Span::kStep;
  options_.entropy_coef = applied_entropy_coef();
  learn::StepTotals totals;
  totals.micro_batches = 0;
  std::int64_t live = 0;
  for (const Part& part : parts) {
    const std::vector<std::size_t> samples = concat(part.slices);
    totals.sequences += static_cast<double>(samples.size());
    live += std::count_if(samples.begin(), samples.end(), [&part](std::size_t i) {
      return std::abs(part.rollouts->batch.samples[i].advantage) > kNoAdvantage;
    });
    totals.tokens += scored_tokens(part.rollouts->batch, samples, parts_.plan.policy);
    totals.micro_batches += static_cast<double>(part.slices.size());
  }
  found.loss.live_rows = live;
  if (!by_slice) find_entropy_threshold(parts, totals, key);
  train(passes_of(parts, by_slice, totals, found), totals, key, found);
  add_metrics(found, by_slice);
  found.loss.timings = {
      {"rollout", found.rollout_seconds}, {"reward", found.reward_seconds}, {"train", seconds_since(start)}};
  return std::move(found.loss);
}

// TRL's threshold is a micro-batch's; the step's is found before its first backward, by a pass of its own:
// the entropies that the masks are made of must be the same bits.
void GroupMethod::find_entropy_threshold(const std::vector<Part>& parts, learn::StepTotals& totals,
                                         const RngKey& key) {
  if (options_.top_entropy_quantile >= 1 || options_.loss_type == learn::PolicyLossType::kRloo) return;
  std::vector<at::Tensor> entropies, masks;
  for (const Part& part : parts) {
    const RolloutBatch& batch = part.rollouts->batch;
    const auto passes = compose_passes(batch, concat(part.slices), pass_limit());
    const auto found = work().each<std::vector<float>>(
        costs_of(batch, passes),
        [&](std::size_t i) {
          const PolicyPass pass = make_policy_pass(batch, passes[i], shares());
          return floats_of(score_policy(parts_.model, pass, key, parts_.form, head_options()).entropy);
        },
        "entropies");
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const PolicyPass pass = make_policy_pass(batch, passes[i], shares());
      TokenScores scores;
      scores.entropy = at::tensor(found[i], at::kFloat);
      scores.logprob = scores.entropy;  // not read; any [n]
      masks.push_back(learn::scored_tokens(
          policy_tokens(*part.rollouts, pass.samples, scores, false, parts_.plan.policy), options_));
      entropies.push_back(scores.entropy);
    }
  }
  std::tie(totals.entropy_threshold, totals.high_entropy_tokens) =
      learn::top_entropy(at::cat(entropies), at::cat(masks), options_.top_entropy_quantile);
}

learn::StepTotals GroupMethod::totals_of(const Part& part, learn::StepTotals totals) {
  totals.generation_sequences = static_cast<double>(part.rollouts->batch.samples.size());
  totals.generation_tokens = part.rollouts->generation_tokens;
  return totals;
}

std::vector<GroupMethod::Pass> GroupMethod::passes_of(const std::vector<Part>& parts, bool by_slice,
                                                      const learn::StepTotals& totals, Found& found) const {
  std::vector<Pass> out;
  std::size_t slice = 0;
  for (const Part& part : parts) {
    if (balance_ != 0) {  // every sample of a slice counts in its routers' loss
      for (const std::vector<std::size_t>& all : part.slices) {
        const auto passes = by_slice ? std::vector<std::vector<std::size_t>>{all}
                                     : compose_passes(part.rollouts->batch, concat({all}), pass_limit());
        for (const std::vector<std::size_t>& samples : passes) {
          const double share = static_cast<double>(samples.size()) / static_cast<double>(all.size());
          out.push_back({.part = &part, .samples = samples, .slice = slice, .share = share});
        }
        slice += 1;
      }
      continue;
    }
    std::vector<std::vector<std::size_t>> passes = part.slices;
    if (!by_slice) {
      const auto left = without_gradient(part, concat(part.slices), totals_of(part, totals), found);
      passes = compose_passes(part.rollouts->batch, left, pass_limit());
    }
    for (auto& samples : passes) out.push_back({.part = &part, .samples = std::move(samples)});
  }
  return out;
}

void GroupMethod::train(const std::vector<Pass>& passes, const learn::StepTotals& totals, const RngKey& key,
                        Found& found) {
  Costs costs;
  for (const Pass& one : passes) costs.push_back(cost_of(one.part->rollouts->batch, one.samples));
  base::begin_part("training", "passes", static_cast<std::int64_t>(passes.size()));
  const auto facts = work().add_gradients<PassFacts>(costs, [&](std::size_t i) {
    const PassFacts one = train_pass(passes[i], totals_of(*passes[i].part, totals), key);
    base::advance_part();
    return one;
  });
  std::vector<NamedValue> balance;  // of each slice
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const PassFacts& one = facts[i];
    found.loss.loss += one.loss;
    found.metrics.push_back(one.metrics);
    found.see_gaps(one.ratio_gap, one.gap_sum, one.gap_tokens);
    balance.resize(std::max(balance.size(), passes[i].slice + 1), {"aux_loss", 0});
    balance[passes[i].slice].second += passes[i].share * one.balance;
  }
  if (balance_ != 0) found.loss.metrics.insert(found.loss.metrics.end(), balance.begin(), balance.end());
}

RouterTokens GroupMethod::routers() const {
  if (balance_ == 0) return RouterTokens::kNone;
  return parts_.plan.policy.mask_truncated_completions ? RouterTokens::kWithoutTruncated : RouterTokens::kAll;
}

// Takes the samples whose gradient is exactly 0 out, and their loss and metrics from the sampler's record.
std::vector<std::size_t> GroupMethod::without_gradient(const Part& part, std::span<const std::size_t> samples,
                                                       const learn::StepTotals& totals, Found& found) const {
  const RolloutBatch& batch = part.rollouts->batch;
  const TokenScores recorded = recorded_scores(batch, samples);
  if (!recorded.logprob.defined() || !recorded.entropy.defined()) return {samples.begin(), samples.end()};
  const at::Tensor none =
      learn::sequences_without_gradient(tokens_of(*part.rollouts, samples, recorded), options_);
  std::vector<std::size_t> left, skipped;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    (none.const_data_ptr<bool>()[i] ? skipped : left).push_back(samples[i]);
  }
  if (skipped.empty()) return left;
  const learn::PolicyGradient gone = learn::policy_gradient(
      tokens_of(*part.rollouts, skipped, recorded_scores(batch, skipped)), options_, totals);
  found.loss.loss += gone.loss;
  found.metrics.push_back(gone.metrics);
  found.skipped += static_cast<std::int64_t>(skipped.size());
  return left;
}

GroupMethod::PassFacts GroupMethod::train_pass(const Pass& one, const learn::StepTotals& totals,
                                               const RngKey& key) const {
  const Part& part = *one.part;
  PassFacts out;
  const PolicyPass pass =
      make_policy_pass(part.rollouts->batch, one.samples, shares(), part.row_base, routers());
  const double balance = balance_ * one.share / totals.micro_batches;  // a mean over the step's slices
  const learn::PolicyGradient gradient = train_policy(
      parts_.model, pass, key, parts_.form, head_options(),
      [&](const TokenScores& scores) {
        out.balance = scores.balance;
        const TokenScores recorded = recorded_scores(part.rollouts->batch, pass.samples);
        if (part.fresh && !parts_.dropout && (!scores_before() || parts_.source.lacks_scores()) &&
            recorded.logprob.defined()) {
          const at::Tensor gaps = (scores.logprob - recorded.logprob).abs();
          out.ratio_gap = std::max(out.ratio_gap, gaps.max().item<double>());
          out.gap_sum += gaps.sum().item<double>();
          out.gap_tokens += static_cast<double>(gaps.numel());
        }
        return learn::policy_gradient(tokens_of(*part.rollouts, pass.samples, scores), options_, totals);
      },
      balance);
  out.loss = gradient.loss + balance * out.balance;
  out.metrics = gradient.metrics;
  return out;
}

void GroupMethod::add_metrics(Found& found, bool by_slice) {
  learn::PolicyMetrics pooled;
  for (const learn::PolicyMetrics& one : found.metrics) pooled.add(one);
  if (!by_slice) found.metrics = {pooled};
  for (const learn::PolicyMetrics& one : found.metrics) {
    for (auto& value : one.named()) found.loss.metrics.push_back(std::move(value));
  }
  const config::PolicyPlan& policy = parts_.plan.policy;
  next_entropy_ = entropy_;
  if (policy.use_adaptive_entropy) {
    const double world = pooled.high_entropy.value();
    next_entropy_.coef = world <= policy.entropy_target
                             ? std::min(entropy_.coef + policy.entropy_coef_delta, policy.entropy_coef_max)
                             : std::max(entropy_.coef - policy.entropy_coef_delta, policy.entropy_coef_min);
    next_entropy_.last_entropy = world;
  }
  if (options_.entropy_bonus) {
    found.loss.metrics.emplace_back("entropy_coef", next_entropy_.coef);
  }
  found.loss.metrics.emplace_back("skipped_rows", static_cast<double>(found.skipped));
  if (found.ratio_gap >= 0) found.loss.metrics.emplace_back("ratio_gap", found.ratio_gap);
  if (found.gap_tokens > 0 && !parts_.source.has_the_trainers_scores())
    found.loss.metrics.emplace_back("ratio_gap_mean", found.gap_sum / found.gap_tokens);
}

void GroupMethod::on_step(std::int64_t /*step*/) {
  entropy_ = next_entropy_;
}

// ---- evaluation

// The routers' loss of a batch is not recorded with its samples.
double GroupMethod::eval_balance(const RolloutBatch& batch) const {
  if (balance_ == 0) return 0;
  const std::vector<std::size_t> all = all_of(batch.samples.size());
  double out = 0;
  for (const std::vector<std::size_t>& samples : compose_passes(batch, all, pass_limit())) {
    const PolicyPass pass = make_policy_pass(batch, samples, shares(), 0, routers());
    const double share = static_cast<double>(samples.size()) / static_cast<double>(all.size());
    out += share * score_policy(parts_.model, pass, {}, parts_.form, head_options(), balance_).balance;
  }
  return out;
}

// As TRL: each batch of per_device_eval_batch_size completions has its own metrics and loss; then plain
// means. The policy of now drew the completions, so what was recorded is what a forward would find.
EvalFacts GroupMethod::evaluate() {
  const auto start = Clock::now();
  const std::int64_t group = parts_.plan.policy.num_generations_eval;
  SourcedRollouts made = sample_evaluation(group);
  if (parts_.evaluation->lacks_scores()) add_scores(made.batch);
  EvalFacts out;
  MetricMeans means;
  const auto prompts =
      static_cast<std::size_t>(std::max<std::int64_t>(1, parts_.plan.per_device_eval_batch_size / group));
  learn::PolicyLossOptions options = options_;
  options.span = learn::Span::kStep;
  options.entropy_coef = applied_entropy_coef();
  const std::size_t at_once = prompts * static_cast<std::size_t>(group);
  for (std::size_t begin = 0; begin < made.batch.samples.size(); begin += at_once) {
    const std::size_t end = std::min(begin + at_once, made.batch.samples.size());
    const ScoredRollouts scored = score(part_of(made.batch, begin, end), group);
    const std::vector<std::size_t> all = all_of(scored.batch.samples.size());
    const learn::PolicyTokens tokens = policy_tokens(scored, all, recorded_scores(scored.batch, all),
                                                     uses_old_logprobs(), parts_.plan.policy);
    const learn::PolicyGradient found =
        learn::policy_gradient(tokens, options, learn::totals_of(tokens, options));
    const double balance = eval_balance(scored.batch);
    means.add("loss", found.loss + balance_ * balance);
    if (balance_ != 0) means.add("aux_loss", balance);
    for (const auto& [name, value] : scored.metrics) means.add(name, value);
    for (const auto& [name, value] : found.metrics.named()) means.add(name, value);
    out.batches += 1;
    out.rows += static_cast<std::int64_t>(all.size());
  }
  for (const auto& [name, value] : made.metrics) means.add(name, value);
  out.metrics = means.values();
  out.seconds = seconds_since(start);
  return out;
}

}  // namespace hone::train
