#include "train/loop/run_rate.h"

#include <optional>

#include "base/error.h"
#include "train/loop/optimizer.h"

namespace hone::train {

RunRate::RunRate(const config::Plan& plan, RunState& state, std::int64_t total_steps)
    : plan_(plan), state_(state), schedule_(schedule_spec(plan, total_steps)) {
  std::optional<learn::PlateauState>& plateau = state.plateau;
  if (!learn::follows_metric(schedule_.type)) {
    plateau.reset();
  } else if (!plateau || plateau->initial != plan.learning_rate) {
    plateau = learn::begin_plateau(schedule_.kwargs.plateau, plan.learning_rate);
  }
}

double RunRate::of_step(std::int64_t index) const {
  if (state_.plateau) return state_.plateau->rate;
  return plan_.learning_rate * learn::schedule_factor(schedule_, index);
}

bool RunRate::follow(const std::vector<NamedValue>& metrics) {
  if (plan_.metric_for_best_model.empty()) {
    base::require(!state_.plateau, "train::RunRate", "the metric that the schedule follows");
    return false;
  }
  const double metric = best_metric_of(plan_, metrics);
  if (state_.plateau) {
    const auto step = schedule_.type == learn::Scheduler::kGreedy ? learn::step_greedy : learn::step_plateau;
    step(*state_.plateau, schedule_.kwargs.plateau, metric);
  }
  return see_metric(state_.best, plan_, metric, state_.step);
}

}  // namespace hone::train
