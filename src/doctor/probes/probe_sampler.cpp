// Probe P7 (docs/design.md): the sampler is the trainer, with the adapter as it is, perturbed, off, and
// after an update.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "doctor/examination.h"
#include "doctor/excluded.h"
#include "doctor/probes/probe_state.h"
#include "doctor/watch/watch_limits.h"
#include "train/loop/step_strategy.h"

namespace hone::doctor {

namespace {

using base::Level;
using base::Verdict;

constexpr double kInvestigate = 0.05;  // exp |d log p| of 1.05 (RL-10)
constexpr std::int64_t kSampledTokens = 64;

// Largest |sampler's - trainer's| log-probability that arithmetic may make.
double bound_of(const train::RunView& run) {
  if (run.model->dtypes().linear == at::kFloat) return limits::kGapFp32;
  return has_exact_kernels(run) ? limits::kGapBf16 : limits::kGapBf16Elsewhere;
}

Level level_of(double gap, double bound) {
  if (gap <= bound) return Level::kOk;  // false for NaN
  return gap <= std::max(kInvestigate, 10 * bound) ? Level::kWarn : Level::kFail;
}

base::Verdict verdict_of(std::string code, Level level, std::string what, std::string evidence,
                         std::string cause) {
  base::Verdict out = {
      .code = std::move(code), .level = level, .what = std::move(what), .evidence = std::move(evidence)};
  if (level == Level::kOk) return out;
  out.cause = std::move(cause);
  ask_to_report(
      out,
      Excluded()
          .add("the reward and learning_rate", "neither was used")
          .add("temperature and top_p", "both sides read the same options, and full log-probabilities"),
      "importance_sampling_correction: true corrects a small gap");
  out.cost = "the gradient would be that of completions that the model did not sample";
  return out;
}

// What the comparisons share.
struct SamplerTrial {
  const train::RunView& run;
  double bound;
  std::string limit;  // for messages
  train::RehearsalRequest look = {.max_tokens = kSampledTokens, .backward = false, .training = false};
};

// RL-10: the sampler with the adapter as it is. `gap` is the largest |d log p|.
Verdict judge_kernels(const SamplerTrial& with, double gap, std::int64_t scored) {
  return verdict_of("RL-10", level_of(gap, with.bound),
                    gap <= with.bound ? "the sampler's log-probabilities equal the trainer's"
                                      : "sampler and trainer disagree about the same tokens",
                    "largest |d log p| " + number(gap) + " over " + grouped(scored) + " tokens" + with.limit,
                    "the two use different kernels, temperatures or weights");
}

// RL-11, with lora_B moved: nothing when the trainer uses the adapter, but disagreed with the sampler before.
std::optional<Verdict> judge_adapter(const SamplerTrial& with, StateGuard& guard, bool agree) {
  perturb(*with.run.adapter, kPerturbation, 1);
  const train::Rehearsal with_b = with.run.method->rehearse(with.look);
  const double moved = with_b.sampler_gap.value_or(0), on = with_b.nll;
  train::RehearsalRequest alone = with.look;
  alone.adapters_on = false;
  const double off = with.run.method->rehearse(alone).nll;
  guard.restore_parameters();
  if (on == off)
    return verdict_of("RL-11", Level::kFail, "the trainer does not use the adapter",
                      "loss " + number(on) + " with lora_B moved by " + number(kPerturbation) +
                          ", bit for bit the same with the adapter off",
                      "the adapter is not attached to the model that is trained");
  if (!agree) return std::nullopt;
  const Level level = level_of(moved, with.bound);
  return verdict_of("RL-11", level,
                    level == Level::kOk ? "rollouts come from the trained adapter"
                                        : "rollouts come from weights other than the trained ones",
                    "with another lora_B the gap is " + number(moved) + with.limit + "; the loss is " +
                        number(on) + " with that adapter, " + number(off) + " without",
                    "the sampler uses the base, or older weights");
}

// RL-12, after an update with the gradient that the adapter holds.
std::optional<Verdict> judge_update(const SamplerTrial& with) {
  const train::RunView& run = with.run;
  // Adam's first step, without its moments. At a usual rate it is too small to tell new weights from old ones.
  const double rate = std::max(run.plan.learning_rate, kPerturbation);
  const auto update = [&](const at::Tensor& parameters, const at::Tensor& gradients, double learning_rate) {
    const at::NoGradGuard no_grad;
    std::int64_t offset = 0;
    for (const adapters::TrainableTensor& tensor : run.adapter->tensors()) {
      const auto part = [&](const at::Tensor& flat) { return flat.narrow(0, offset, tensor.value.numel()); };
      const at::Tensor gradient = part(gradients);
      part(parameters).sub_(gradient / (gradient.abs() + run.plan.adam_epsilon), learning_rate);
      offset += tensor.value.numel();
    }
    parameters.unsafeGetTensorImpl()->bump_version();
  };
  const train::StepResult done =
      train::WholeStep(*run.adapter, run.plan.max_grad_norm, update).step({}, rate);
  if (!(done.grad_norm > 0) || !done.is_finite()) return std::nullopt;
  const double after = run.method->rehearse(with.look).sampler_gap.value_or(0);
  const Level level = level_of(after, with.bound);
  return verdict_of("RL-12", level,
                    level == Level::kOk ? "after an update, the same prompt is computed with the new weights"
                                        : "after an update the sampler still uses older values",
                    "gap " + number(after) + " one step later" + with.limit,
                    "keys and values of a prompt were kept across an update");
}

Verdict judge_base(const std::string& changed) {
  if (changed.empty())
    return {
        .code = "NUM-06",
        .what = "nothing is merged into the base: it is bit-identical after sampling with three adapters"};
  return verdict_of("NUM-06", Level::kFail, "sampling changed the frozen base", "first in " + changed,
                    "an adapter was merged in place");
}

}  // namespace

Verdicts probe_sampler(const train::RunView& run) {
  if (!run.samples()) return {};
  StateGuard guard(run);
  const std::vector<PartFingerprint> before = base_fingerprint(*run.model);
  const double bound = bound_of(run);
  const SamplerTrial with = {.run = run, .bound = bound, .limit = ", bound " + number(bound)};

  // Once with gradients: they make the update below.
  train::RehearsalRequest learn = with.look;
  learn.backward = true;
  const train::Rehearsal as_is = run.method->rehearse(learn);
  if (!as_is.sampler_gap) return {};
  Verdicts out = {judge_kernels(with, *as_is.sampler_gap, as_is.scored)};
  const bool agree = out.back().level != Level::kFail;

  const std::optional<Verdict> adapter = judge_adapter(with, guard, agree);
  if (adapter) out.push_back(*adapter);
  if (agree && adapter && adapter->level == Level::kOk)
    if (const std::optional<Verdict> update = judge_update(with)) out.push_back(*update);
  out.push_back(judge_base(first_change(before, base_fingerprint(*run.model))));
  return out;
}

}  // namespace hone::doctor
