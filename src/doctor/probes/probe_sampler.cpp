// Probe P7 (docs/design.md): the sampler is the trainer, with the adapter as it is, perturbed, off, and
// after an update.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "doctor/examination.h"
#include "doctor/probes/probe_state.h"
#include "doctor/watch/watch_limits.h"

namespace hone::doctor {

namespace {

using base::Level;

constexpr double kInvestigate = 0.05;  // exp |d log p| of 1.05 (RL-10)
constexpr std::int64_t kSampledTokens = 64;

// Largest |sampler's - trainer's| log-probability that arithmetic may make.
double bound_of(const train::OpenedRun& run) {
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
  out.not_this = "the reward, the learning rate: neither was used";
  out.fix = "importance_sampling_correction: true corrects a small gap; please report this with `hone env`";
  out.cost = "the gradient would be that of completions that the model did not sample";
  return out;
}

}  // namespace

Verdicts probe_sampler(train::OpenedRun& run) {
  Verdicts out;
  if (!run.samples()) return out;
  StateGuard guard(run);
  const std::vector<PartFingerprint> before = base_fingerprint(*run.model);
  const double bound = bound_of(run);
  const auto limit = ", bound " + number(bound);
  const train::RehearsalRequest look = {.max_tokens = kSampledTokens, .backward = false, .training = false};

  // Once with gradients: they make the update below.
  train::RehearsalRequest learn = look;
  learn.backward = true;
  const train::Rehearsal as_is = run.method->rehearse(learn);
  if (!as_is.sampler_gap) return {};
  const double gap = *as_is.sampler_gap;
  out.push_back(
      verdict_of("RL-10", level_of(gap, bound),
                 gap <= bound ? "the sampler's log-probabilities equal the trainer's"
                              : "sampler and trainer disagree about the same tokens",
                 "largest |d log p| " + number(gap) + " over " + grouped(as_is.scored) + " tokens" + limit,
                 "the two use different kernels, temperatures or weights"));
  const bool agree = out.back().level != Level::kFail;

  perturb(*run.adapter, kPerturbation, 1);
  const double moved = run.method->rehearse(look).sampler_gap.value_or(0);
  train::RehearsalRequest alone = look;
  alone.adapters_on = false;
  const double on = run.method->rehearse(look).nll, off = run.method->rehearse(alone).nll;
  guard.restore_parameters();
  const Level with_another = level_of(moved, bound);
  if (on == off) {
    out.push_back(verdict_of("RL-11", Level::kFail, "the trainer does not use the adapter",
                             "loss " + number(on) + " with lora_B moved by " + number(kPerturbation) +
                                 ", bit for bit the same with the adapter off",
                             "the adapter is not attached to the model that is trained"));
  } else if (agree) {
    out.push_back(verdict_of("RL-11", with_another,
                             with_another == Level::kOk
                                 ? "rollouts come from the trained adapter"
                                 : "rollouts come from weights other than the trained ones",
                             "with another lora_B the gap is " + number(moved) + limit + "; the loss is " +
                                 number(on) + " with that adapter, " + number(off) + " without",
                             "the sampler uses the base, or older weights"));
  }

  const double clipped = learn::clip_gradient(run.adapter->flat_gradient(), run.plan.max_grad_norm);
  if (clipped > 0 && std::isfinite(clipped) && agree && with_another == Level::kOk) {
    learn::AdamWState moments = learn::AdamWState::zeros_like(run.adapter->flat());
    // At a usual rate the first step is too small to tell new weights from old ones.
    learn::adamw_step(run.adapter->flat(), run.adapter->flat_gradient(), moments, adamw_options(run.plan),
                      std::max(run.plan.learning_rate, kPerturbation));
    const double after = run.method->rehearse(look).sampler_gap.value_or(0);
    const Level level = level_of(after, bound);
    out.push_back(verdict_of("RL-12", level,
                             level == Level::kOk
                                 ? "after an update, the same prompt is computed with the new weights"
                                 : "after an update the sampler still uses older values",
                             "gap " + number(after) + " one step later" + limit,
                             "keys and values of a prompt were kept across an update"));
  }

  const std::string changed = first_change(before, base_fingerprint(*run.model));
  if (changed.empty()) {
    out.push_back(
        {.code = "NUM-06",
         .what = "nothing is merged into the base: it is bit-identical after sampling with three adapters"});
  } else {
    out.push_back(verdict_of("NUM-06", Level::kFail, "sampling changed the frozen base",
                             "first in " + changed, "an adapter was merged in place"));
  }
  return out;
}

}  // namespace hone::doctor
