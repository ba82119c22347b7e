#include "doctor/exam_time.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/stopwatch.h"
#include "doctor/probes/probe_state.h"

namespace hone::doctor {

namespace {

constexpr double kBackward = 3;  // a forward and its backward, in forwards
constexpr double kRehearsal = 256;
constexpr double kStaticSeconds = 1;
constexpr double kResumeSteps = 4, kOtherForwards = 24;
constexpr double kSampledPrompts = 32, kSamplingLimit = 90;  // seconds (probe_rollout.cpp)
constexpr double kDecode = 2;                                // a sampled token, in tokens of a forward

double seconds_per_token(const train::RunView& run) {
  const at::NoGradGuard no_grad;
  const train::RehearsalRequest request = {.max_tokens = 128, .backward = false, .training = false};
  run.method->rehearse(request);  // warms up
  const auto start = base::Clock::now();
  const train::Rehearsal done = run.method->rehearse(request);
  const double seconds = base::seconds_since(start);
  return seconds / static_cast<double>(std::max<std::int64_t>(1, done.tokens));
}

// Tokens of an optimizer step, about.
double step_tokens(const train::RunView& run) {
  const config::Plan& plan = run.plan;
  const auto sequences =
      static_cast<double>(plan.per_device_train_batch_size * plan.gradient_accumulation_steps);
  if (!run.samples()) return sequences * run.start.mean_length;
  return sequences * static_cast<double>(plan.policy.max_completion_length);
}

double sampled_tokens(const train::RunView& run) {
  if (!run.samples()) return 0;
  const config::PolicyPlan& policy = run.plan.policy;
  return kSampledPrompts * static_cast<double>(policy.num_generations * policy.max_completion_length);
}

}  // namespace

double deep_seconds(const train::RunView& run) {
  const double token = seconds_per_token(run);
  const double rehearsed =
      kBackward * static_cast<double>(kOverfitSteps * kOverfitTokens) + kOtherForwards * kRehearsal;
  const double resumed = kBackward * kResumeSteps * step_tokens(run);
  const double sampling = std::min(kSamplingLimit, kDecode * token * sampled_tokens(run));
  return kStaticSeconds + token * (rehearsed + resumed) + sampling;
}

}  // namespace hone::doctor
