#include "report/loss_words.h"

#include <fmt/format.h>

#include <cmath>

#include "report/named_values.h"

namespace hone::report {

namespace {

constexpr double kNearZero = 1e-3;  // of a loss: it shows as 0.00
constexpr double kAllDead = 0.999;  // of shares, which are means of steps

std::string no_signal(double loss, double reward) {
  return fmt::format(
      "note      loss {:.4f} and no gradient: no signal. In every group all rewards are equal (mean {:.3g}), "
      "so that "
      "all advantages are 0; take prompts that succeed sometimes, or a reward with more steps",
      four_decimals(loss), reward);
}

}  // namespace

std::string loss_words(const train::LogRecord& record) {
  const auto loss = finite_value(record.values, "loss");
  const auto norm = finite_value(record.values, "grad_norm");
  const auto reward = finite_value(record.values, "reward");
  if (!loss || !norm || !reward) return "";
  auto dead = finite_value(record.values, "dead_groups");
  if (!dead) dead = finite_value(record.values, "frac_reward_zero_std");
  if (*norm == 0) {
    if (dead.value_or(0) >= kAllDead) return no_signal(*loss, *reward);
    return fmt::format(
        "note      loss {:.4f} and no gradient: every completion that could teach something was masked "
        "(truncated, or "
        "outside the clipping range)",
        four_decimals(*loss));
  }
  if (std::abs(*loss) < kNearZero) {
    return fmt::format(
        "note      loss {:.4f} is expected here: the advantages of a group sum to 0; the gradient, of norm "
        "{:.3g}, is "
        "what moves the adapter",
        four_decimals(*loss), *norm);
  }
  return fmt::format(
      "note      loss {:.4f} is no measure of progress: the advantages of a group sum to 0, what is left "
      "comes of "
      "lengths and of the loss type; watch the reward",
      four_decimals(*loss));
}

}  // namespace hone::report
