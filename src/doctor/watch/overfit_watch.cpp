#include "doctor/watch/overfit_watch.h"

#include <cmath>

#include "doctor/number_format.h"
#include "doctor/watch/watch_limits.h"

namespace hone::doctor {

using base::Level;

namespace {

bool is_evaluation(const std::string& name) {
  return name.starts_with("eval_") && name.ends_with("_loss");
}

}  // namespace

Findings OverfitWatch::see(std::int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  Findings out;
  bool evaluated = false;
  for (const auto& [name, value] : values) {
    if (name == "loss" && std::isfinite(value)) {
      sum_ += value;
      count_ += 1;
    } else if (is_evaluation(name) && std::isfinite(value)) {
      see_evaluation(name, value, step, out);
      evaluated = true;
    }
  }
  if (evaluated) {
    sum_ = 0;
    count_ = 0;
  }
  return out;
}

void OverfitWatch::see_evaluation(const std::string& name, double loss, std::int64_t step, Findings& out) {
  Set& set = sets_[name];
  const double training = count_ > 0 ? sum_ / static_cast<double>(count_) : set.training;
  if (set.lowest_step < 0 || loss < set.lowest) {
    set = {.lowest = loss, .last = loss, .training = training, .lowest_step = step, .rising = 0};
    return;
  }
  set.rising = loss > set.last ? set.rising + 1 : 0;
  set.last = loss;
  const bool worse = loss > set.lowest + limits::kOverfitRise * std::abs(set.lowest);
  if (!worse || set.rising < limits::kOverfitEvaluations || !(training < set.training)) return;
  base::Verdict found{.code = "NUM-11", .level = Level::kWarn};
  found.what = name + " rises while the training loss falls: " + short_number(set.lowest) + " at step " +
               std::to_string(set.lowest_step) + ", now " + short_number(loss);
  found.evidence = std::to_string(set.rising) +
                   " evaluations in a row, each above the one before; the training loss fell from " +
                   short_number(set.training) + " to " + short_number(training);
  found.cause = "overfitting: the training rows are learned by heart";
  found.not_this = "divergence: the training loss would rise too";
  found.fix = "the checkpoint of step " + std::to_string(set.lowest_step) +
              " is the best; load_best_model_at_end: true, fewer epochs, or a lower rank or rate";
  found.cost = "every further step makes the model worse on rows that it has not seen";
  add_finding(out, std::move(found), name);
}

void OverfitWatch::recall(const base::Json& log_history) {
  if (!log_history.is_array()) return;
  for (const base::Json& record : log_history) {
    std::vector<std::pair<std::string, double>> values;
    for (const auto& [name, value] : record.items()) {
      if (value.is_number()) values.emplace_back(name, value.get<double>());
    }
    const auto step = record.find("step");
    see(step != record.end() && step->is_number_integer() ? step->get<std::int64_t>() : 0, values);
  }
}

}  // namespace hone::doctor
