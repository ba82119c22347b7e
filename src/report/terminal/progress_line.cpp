#include "report/terminal/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "report/named_values.h"
#include "report/terminal/text_width.h"

namespace hone::report {

namespace {

constexpr int kMaxColumns = 160;

// A piece of the line; of those that do not fit, the greatest `rank` goes first.
struct Piece {
  int rank = 0;
  std::string text;
};

std::string join_fitting(std::vector<Piece> pieces, int columns) {
  const auto joined = [&pieces] {
    std::string out;
    for (const Piece& piece : pieces) out += (out.empty() ? "" : "  ") + piece.text;
    return out;
  };
  const auto by_rank = [](const Piece& a, const Piece& b) { return a.rank < b.rank; };
  std::string out = joined();
  while (columns_of(out) > columns && pieces.size() > 1) {
    pieces.erase(std::max_element(pieces.begin(), pieces.end(), by_rank));
    out = joined();
  }
  return out;
}

// "2e-7": no zeros in the exponent.
std::string short_power(double value) {
  std::string out = fmt::format("{:.0e}", value);
  const std::size_t exponent = out.find('e') + 2;
  if (out.find('e') != std::string::npos && out[exponent] == '0') out.erase(exponent, 1);
  return out;
}

// In one unit: a line has no room for two.
std::string short_time(double seconds) {
  if (seconds < 60) return human_seconds(seconds);
  if (seconds < 3600) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string timings_text(const std::vector<train::NamedValue>& timings) {
  std::string out;
  for (const auto& [name, seconds] : timings)
    out += fmt::format("{}{} {:.1f}s", out.empty() ? "" : " ", name, seconds);
  return out;
}

std::string reward_text(const train::StepFacts& facts) {
  const auto reward = finite_value(facts.metrics, "reward");
  if (!reward) return "reward none";  // every function returned None
  const auto std = finite_value(facts.metrics, "reward_std");
  return fmt::format("reward {:.3f}", *reward) + (std ? fmt::format(" ±{:.2f}", *std) : "");
}

std::string policy_text(const train::StepFacts& facts, const std::string& step, double left, int columns) {
  std::vector<Piece> pieces = {{0, step}, {1, reward_text(facts)}};
  const auto add = [&](int rank, std::string_view name, auto text) {
    if (const auto value = finite_value(facts.metrics, name)) pieces.push_back({rank, text(*value)});
  };
  add(3, "dead_groups", [](double share) { return fmt::format("dead {:.0f}%", 100 * share); });
  add(6, "completions/clipped_ratio", [](double share) { return fmt::format("cut {:.0f}%", 100 * share); });
  add(7, "completions/mean_length", [](double tokens) { return fmt::format("len {:.0f}", tokens); });
  add(9, "entropy", [](double value) { return fmt::format("entropy {:.2f}", value); });
  add(10, "kl", [](double value) { return fmt::format("kl {:.3g}", value); });
  add(11, "ratio_gap", [](double value) { return "gap " + short_power(value); });
  pieces.push_back({12, fmt::format("loss {:.4f}", four_decimals(facts.loss))});
  pieces.push_back({4, fmt::format("grad {:.3g}", facts.grad_norm)});
  if (!facts.timings.empty()) pieces.push_back({5, timings_text(facts.timings)});
  pieces.push_back({2, "left " + short_time(left)});
  return join_fitting(std::move(pieces), columns);
}

std::string preference_text(const train::StepFacts& facts, const std::string& step, double rate, double left,
                            int columns) {
  std::vector<Piece> pieces = {{0, step}, {1, fmt::format("loss {:.4f}", four_decimals(facts.loss))}};
  const auto add = [&](int rank, std::string_view name, auto text) {
    if (const auto value = finite_value(facts.metrics, name)) pieces.push_back({rank, text(*value)});
  };
  add(1, "objective/scores", [](double value) { return fmt::format("score {:.3f}", value); });  // Online DPO
  add(10, "ties", [](double share) { return fmt::format("ties {:.0f}%", 100 * share); });
  add(11, "val/contain_eos_token",
      [](double share) { return fmt::format("cut {:.0f}%", 100 * (1 - share)); });
  add(3, "rewards/margins", [](double value) { return fmt::format("margin {:.3f}", value); });
  add(4, "rewards/accuracies", [](double share) { return fmt::format("right {:.0f}%", 100 * share); });
  add(10, "kl", [](double value) { return fmt::format("kl {:.3g}", value); });
  add(8, "logps/chosen", [](double value) { return fmt::format("logp {:.1f}", value); });
  add(9, "logps/rejected", [](double value) { return fmt::format("/ {:.1f}", value); });
  pieces.push_back({5, fmt::format("grad {:.3g}", facts.grad_norm)});
  pieces.push_back({7, fmt::format("lr {:.2e}", facts.learning_rate)});
  pieces.push_back(
      {6, facts.timings.empty() ? fmt::format("{:.0f} tok/s", rate) : timings_text(facts.timings)});
  pieces.push_back({2, "left " + short_time(left)});
  return join_fitting(std::move(pieces), columns);
}

std::string reward_model_text(const train::StepFacts& facts, const std::string& step, double rate,
                              double left, int columns) {
  std::vector<Piece> pieces = {{0, step}, {1, fmt::format("loss {:.4f}", four_decimals(facts.loss))}};
  const auto add = [&](int rank, std::string_view name, auto text) {
    if (const auto value = finite_value(facts.metrics, name)) pieces.push_back({rank, text(*value)});
  };
  add(4, "accuracy", [](double share) { return fmt::format("right {:.0f}%", 100 * share); });
  add(3, "margin", [](double value) { return fmt::format("margin {:.3f}", value); });
  add(8, "mean_reward", [](double value) { return fmt::format("mean {:.2f}", value); });
  pieces.push_back({5, fmt::format("grad {:.3g}", facts.grad_norm)});
  pieces.push_back({7, fmt::format("lr {:.2e}", facts.learning_rate)});
  pieces.push_back({6, fmt::format("{:.0f} tok/s", rate)});
  pieces.push_back({2, "left " + short_time(left)});
  return join_fitting(std::move(pieces), columns);
}

}  // namespace

std::string ProgressLine::text(const train::StepFacts& facts, std::int64_t total_steps) {
  constexpr double kWeightOfNew = 0.2;
  seconds_per_step_ = seconds_per_step_ == 0
                          ? facts.seconds
                          : (1 - kWeightOfNew) * seconds_per_step_ + kWeightOfNew * facts.seconds;
  const double left = seconds_per_step_ * static_cast<double>(total_steps - facts.step);
  const auto width = std::to_string(total_steps).size();
  const std::string step = fmt::format("step {:>{}}/{}", facts.step, width, total_steps);
  // A line as wide as the terminal would wrap, and could not be rewritten.
  const int columns = terminal_.columns > 0 ? std::min(kMaxColumns, terminal_.columns - 1) : kMaxColumns;
  if (has_value(facts.metrics, "reward")) return policy_text(facts, step, left, columns);
  const double rate = facts.seconds > 0 ? static_cast<double>(facts.tokens_this_step) / facts.seconds : 0;
  // KTO's micro-batches may hold only one side.
  for (const char* name : {"rewards/margins", "logps/chosen", "logps/rejected", "ties"}) {
    if (has_value(facts.metrics, name)) return preference_text(facts, step, rate, left, columns);
  }
  if (has_value(facts.metrics, "mean_reward")) return reward_model_text(facts, step, rate, left, columns);
  std::vector<Piece> pieces = {{0, step},
                               {7, fmt::format("epoch {:.2f}", facts.epoch)},
                               {1, fmt::format("loss {:.4f}", facts.loss)},
                               {4, fmt::format("grad {:.3g}", facts.grad_norm)},
                               {6, fmt::format("lr {:.2e}", facts.learning_rate)}};
  // Distillation has no accuracy.
  for (const auto& [name, word] :
       {std::pair{"mean_token_accuracy", "acc"}, std::pair{"entropy", "entropy"}}) {
    if (!has_value(facts.metrics, name)) continue;
    pieces.push_back({5, fmt::format("{} {:.3f}", word, value_or_zero(facts.metrics, name))});
    break;
  }
  pieces.push_back({3, fmt::format("{:.0f} tok/s", rate)});
  pieces.push_back({2, "left " + human_seconds(left)});
  return join_fitting(std::move(pieces), columns);
}

}  // namespace hone::report
