// NUM-12: a run whose best step nobody will know, or whose best step is not among its checkpoints.
#include <algorithm>
#include <cmath>

#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;
using config::IntervalStrategy;

namespace {

constexpr double kManyEpochs = 3;
constexpr std::int64_t kManySteps = 10'000, kTrialSteps = 200;
constexpr std::int64_t kFewEvaluations = 4;

// The steps of an interval: a share of all steps where it is below 1.
std::int64_t interval(double steps, std::int64_t total) {
  const double out = steps < 1 ? std::ceil(steps * static_cast<double>(total)) : steps;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(out));
}

// After how many steps something is due; 0: never.
std::int64_t every(IntervalStrategy strategy, double steps, const train::StartFacts& start) {
  if (strategy == IntervalStrategy::kEpoch) return std::max<std::int64_t>(1, start.steps_per_epoch);
  return strategy == IntervalStrategy::kSteps ? interval(steps, start.total_steps) : 0;
}

Verdict judge_no_evaluation(const train::RunView& run) {
  const std::int64_t total = run.start.total_steps,
                     epoch = std::max<std::int64_t>(1, run.start.steps_per_epoch);
  const double epochs = static_cast<double>(total) / static_cast<double>(epoch);
  Verdict out{.code = "NUM-12", .what = "no evaluation: the run has " + format::number(epochs) + " epochs"};
  if (epochs <= kManyEpochs && total <= kManySteps) return out;
  const bool trial = total < 5 * kTrialSteps;
  out.level = trial ? Level::kNote : Level::kWarn;
  out.evidence = format::counted(total, "step") + ", and nothing says which of them is the best";
  out.cause = run.plan.eval_rows.files().empty() ? "there is no set to evaluate" : "eval_strategy is no";
  out.fix = run.plan.eval_rows.files().empty() ? "test_split_size: 0.05, eval_strategy: steps"
                                               : "eval_strategy: steps";
  out.cost = "over-fitting that nobody sees";
  return out;
}

// Of the evaluations before the end, those whose step is saved too.
std::int64_t saved_evaluations(std::int64_t eval, std::int64_t save, std::int64_t total) {
  std::int64_t out = 0;
  for (std::int64_t step = eval; step < total; step += eval) out += save > 0 && step % save == 0 ? 1 : 0;
  return out;
}

Verdict judge_best_step(const train::RunView& run, std::int64_t eval) {
  const config::Plan& plan = run.plan;
  const std::int64_t total = run.start.total_steps, planned = total / eval;
  const std::int64_t save = every(plan.save_strategy, plan.save_steps, run.start);
  const std::int64_t saved = saved_evaluations(eval, save, total);
  Verdict out{.code = "NUM-12"};
  out.what = format::counted(planned, "evaluation") + ", of which " + std::to_string(saved) +
             " before the end have a checkpoint";
  const bool ranked = plan.save_strategy == IntervalStrategy::kBest || plan.load_best_model_at_end;
  if (ranked || planned < kFewEvaluations || total < kTrialSteps) return out;
  const bool forgets = saved > 0 && plan.save_total_limit > 0 && 2 * plan.save_total_limit <= saved;
  if (saved > 0 && !forgets) return out;
  out.level = Level::kWarn;
  if (forgets) {
    out.what = "the best checkpoint may be deleted: " + std::to_string(plan.save_total_limit) + " of " +
               format::counted(saved, "checkpoint") + " are kept, the newest ones";
    out.cause = "save_total_limit without load_best_model_at_end keeps no best one";
    out.fix = "load_best_model_at_end: true, or a higher save_total_limit";
  } else {
    out.what = "no step that is evaluated has a checkpoint, but the last one";
    out.cause = save == 0 ? "save_strategy is no" : "save_steps is no multiple of eval_steps within the run";
    out.fix = "save_strategy: best, or save_strategy and save_steps as those of the evaluation";
  }
  out.evidence = format::counted(planned, "evaluation") + ", every " + format::counted(eval, "step") +
                 "; a checkpoint " + (save == 0 ? "never" : "every " + format::counted(save, "step")) + "; " +
                 format::counted(total, "step");
  out.not_this = "the end of the run: its state is saved in any case";
  out.cost = "the best step is known, and cannot be had";
  return out;
}

}  // namespace

Verdicts check_saves(const train::RunView& run) {
  if (run.samples() || run.start.total_steps <= 0) return {};
  const config::Plan& plan = run.plan;
  const bool evaluates = plan.eval_strategy != IntervalStrategy::kNo && run.start.overlap.rows > 0;
  if (!evaluates) return {judge_no_evaluation(run)};
  const double steps = plan.eval_steps > 0 ? plan.eval_steps : plan.logging_steps;
  const std::int64_t eval = every(plan.eval_strategy, steps, run.start), total = run.start.total_steps;
  if (eval <= 0) return {};
  Verdicts out = {judge_best_step(run, eval)};
  const std::int64_t planned = total / eval;
  if (planned >= kFewEvaluations || total < kTrialSteps) return out;
  const bool never = planned == 0 && !plan.eval_on_start;
  Verdict few{.code = "NUM-12", .level = never ? Level::kWarn : Level::kNote};
  few.what = never ? "not one evaluation will be made"
                   : "only " + format::counted(planned, "evaluation") + " in all";
  few.evidence =
      "one every " + format::counted(eval, "step") + ", and the run has " + format::counted(total, "step");
  few.cause = "eval_steps, or eval_strategy epoch, against the length of the run";
  few.fix = "eval_steps: " + std::to_string(std::max<std::int64_t>(1, total / 10));
  few.cost = "too few points to see the evaluation turn";
  out.push_back(std::move(few));
  return out;
}

}  // namespace hone::doctor
