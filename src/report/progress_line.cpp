#include "report/progress_line.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

namespace hone::report {

namespace {

double value_of(const std::vector<train::NamedValue>& values, std::string_view name) {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  return 0;
}

}  // namespace

std::string ProgressLine::text(const train::StepFacts& facts, std::int64_t total_steps) {
  constexpr double kWeightOfNew = 0.2;
  seconds_per_step_ = seconds_per_step_ == 0
                          ? facts.seconds
                          : (1 - kWeightOfNew) * seconds_per_step_ + kWeightOfNew * facts.seconds;
  const double rate = facts.seconds > 0 ? static_cast<double>(facts.tokens_this_step) / facts.seconds : 0;
  const double left = seconds_per_step_ * static_cast<double>(total_steps - facts.step);
  const auto width = std::to_string(total_steps).size();
  return fmt::format(
      "step {:>{}}/{}  epoch {:.2f}  loss {:.4f}  grad {:.3g}  lr {:.2e}  acc {:.3f}  {:.0f} tok/s  left {}",
      facts.step, width, total_steps, facts.epoch, facts.loss, facts.grad_norm, facts.learning_rate,
      value_of(facts.metrics, "mean_token_accuracy"), rate, human_seconds(left));
}

}  // namespace hone::report
