// NUM-10: settings that hold every update down, or drown it; ENV-02: threads.
#include <cmath>

#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "train/facts/machine.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr double kDecayWarn = 1e-3, kDecayFail = 0.5;  // of a weight, in one step at the peak rate
constexpr double kDropoutWarn = 0.8;
constexpr double kEpsilonShare =
    0.1;  // of Adam's denominator that epsilon may be, at the clipped gradient's size
constexpr double kUsualEpsilon = 1e-8, kUsualClip = 1.0;

// AdamW takes rate x weight_decay of each weight in a step, whatever its gradient.
void judge_decay(const config::Plan& plan, Verdicts& out) {
  const double share = plan.learning_rate * plan.weight_decay;
  if (share < kDecayWarn) return;
  const double half = std::log(0.5) / std::log1p(-std::min(share, 0.999999));
  Verdict one{.code = "NUM-10", .level = share >= kDecayFail ? Level::kFail : Level::kWarn};
  one.what = "weight_decay " + format::number(plan.weight_decay) + " takes " + format::percent(share, 1) +
             " of every trained weight in each step";
  one.evidence = "learning_rate " + format::number(plan.learning_rate) +
                 " x weight_decay; without a gradient a weight is halved in " +
                 format::number(std::max(1.0, half)) + (half <= 1.5 ? " step" : " steps");
  one.cause = "weight_decay is not of the usual size";
  one.not_this = "learning_rate: decay takes its part at any rate that learns";
  one.fix = "weight_decay: 0.01";
  one.cost = "an adapter that is pulled to 0 faster than it learns";
  out.push_back(one);
}

// Adam divides by sqrt(v) + epsilon. Clipped to norm c, P values have a root mean square of at most c / sqrt(P).
void judge_epsilon(const train::RunView& run, Verdicts& out) {
  const config::Plan& plan = run.plan;
  using Kind = learn::OptimizerKind;
  if (plan.optim != Kind::kAdamW && plan.optim != Kind::kAdamW8bit) return;
  const auto count = static_cast<double>(std::max<std::int64_t>(1, run.adapter->flat().numel()));
  const double clip = plan.max_grad_norm > 0 ? std::min(plan.max_grad_norm, kUsualClip) : kUsualClip;
  const double size = clip / std::sqrt(count);
  if (!(plan.adam_epsilon > size / kEpsilonShare)) return;
  // Which of the two is unusual: with the other at its default, would an update have its size?
  const bool by_clip = kUsualEpsilon > size / kEpsilonShare;
  const bool by_epsilon = plan.adam_epsilon > kUsualClip / std::sqrt(count) / kEpsilonShare;
  Verdict one{.code = "NUM-10", .level = Level::kWarn};
  one.what = by_epsilon ? "adam_epsilon " + format::number(plan.adam_epsilon) +
                              " is larger than the gradients that it is added to"
                        : "max_grad_norm " + format::number(plan.max_grad_norm) +
                              " leaves gradients below adam_epsilon " + format::number(plan.adam_epsilon);
  one.evidence = "clipped to a norm of " + format::number(clip) + ", a gradient of " +
                 format::counted(static_cast<std::int64_t>(count), "value") + " has a size of at most " +
                 format::number(size) + ": an update is " +
                 format::number(plan.learning_rate * size / plan.adam_epsilon) +
                 " at most, and learning_rate " + format::number(plan.learning_rate) + " without epsilon";
  one.cause = by_epsilon && by_clip ? "adam_epsilon and max_grad_norm are both far from the usual"
              : by_epsilon          ? "adam_epsilon is not of the usual size"
                                    : "max_grad_norm clips every gradient to almost nothing";
  one.not_this = by_epsilon ? "max_grad_norm: without it the gradient would not be larger than epsilon either"
                            : "adam_epsilon: with gradients of the usual size it would not count";
  one.fix = by_epsilon ? "adam_epsilon: 1e-8" : "max_grad_norm: 1.0";
  if (by_epsilon && by_clip) one.fix = "adam_epsilon: 1e-8, max_grad_norm: 1.0", one.not_this = "";
  one.cost = "updates that are smaller than learning_rate says, by a factor of " +
             format::number(plan.adam_epsilon / size);
  out.push_back(one);
}

void judge_dropout(const train::RunView& run, Verdicts& out) {
  const double dropout = run.adapter->config().dropout;
  if (dropout < kDropoutWarn || run.plan.disable_dropout) return;
  Verdict one{.code = "NUM-10", .level = Level::kWarn};
  one.what = "lora_dropout " + format::number(dropout) + " drops " + format::percent(dropout, 1) +
             " of what an adapter reads";
  one.evidence = "what is left is multiplied by " + format::number(1 / (1 - std::min(dropout, 0.999999)));
  one.cause = "lora_dropout is the share that is dropped, not the one that is kept";
  one.fix = "lora_dropout: 0.05";
  one.cost = "gradients that are mostly noise";
  out.push_back(one);
}

}  // namespace

Verdicts check_optimizer(const train::RunView& run) {
  Verdicts out;
  judge_decay(run.plan, out);
  judge_epsilon(run, out);
  judge_dropout(run, out);
  if (out.empty()) {
    out.push_back({.code = "NUM-10",
                   .what = "weight_decay " + format::number(run.plan.weight_decay) + ", adam_epsilon " +
                           format::number(run.plan.adam_epsilon) + ", max_grad_norm " +
                           format::number(run.plan.max_grad_norm) + " leave an update its size"});
  }
  const std::int64_t has = train::threads_or_default(0), asked = train::threads_or_default(run.plan.threads);
  Verdict threads{.code = "ENV-02"};
  threads.what = format::counted(asked, "thread") + " on " + format::counted(has, "processor");
  if (asked > has) {
    threads.level = Level::kWarn;
    threads.evidence = "this process may use " + format::counted(has, "processor");
    threads.cause = "threads is from another machine, or this process has fewer processors than the machine";
    threads.not_this = "hone's own choice: without the option it takes what it may use";
    threads.fix = "remove threads, or threads: " + std::to_string(has);
    threads.cost = "threads that wait for each other: steps take several times as long";
  }
  out.push_back(threads);
  return out;
}

}  // namespace hone::doctor
