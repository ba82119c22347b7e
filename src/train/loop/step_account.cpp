#include "train/loop/step_account.h"

#include <algorithm>
#include <string>
#include <utility>

namespace hone::train {

namespace {

void add_to(std::vector<NamedValue>& sums, std::string_view name, double value) {
  for (auto& [known, sum] : sums) {
    if (known == name) {
      sum += value;
      return;
    }
  }
  sums.emplace_back(name, value);
}

}  // namespace

StepFacts StepAccount::add(const StepResult& done, double learning_rate, double seconds) {
  const StepLoss& loss = done.loss;
  StepFacts facts;
  MetricMeans this_step;
  for (const auto& [name, value] : loss.metrics) {
    this_step.add(name, value);
    state_.metrics.add(name, value);
  }
  facts.metrics = this_step.values();
  facts.timings = loss.timings;
  state_.step += 1;
  state_.num_tokens += loss.tokens;
  state_.total_loss += loss.loss;
  state_.loss_sum += loss.loss;
  state_.steps_since_log += 1;
  facts.step = state_.step;
  facts.loss = loss.loss;
  facts.grad_norm = done.grad_norm;
  facts.learning_rate = learning_rate;
  facts.num_tokens = state_.num_tokens;
  facts.tokens_this_step = loss.tokens;
  facts.seconds = seconds;
  seconds_ += seconds;
  steps_ += 1;
  tokens_ += loss.tokens;
  for (const auto& [name, value] : facts.timings) spend(name, value);
  for (const auto& [name, value] : loss.counts) add_to(counts_, name, value);
  if (facts.timings.empty()) spend("train", seconds);
  return facts;
}

void StepAccount::spend(std::string_view part, double seconds) {
  add_to(parts_, part, seconds);
}

std::vector<NamedValue> StepAccount::performance(double memory_peak) {
  std::vector<NamedValue> out = {
      {"seconds", seconds_},
      {"steps", static_cast<double>(steps_)},
      {"tokens_per_second", static_cast<double>(tokens_) / std::max(seconds_, 1e-9)},
      {"memory_peak", memory_peak}};
  for (const auto& [name, value] : parts_) out.emplace_back(name + "_seconds", value);
  out.insert(out.end(), counts_.begin(), counts_.end());
  double accepted = 0, passes = 0;
  for (const auto& [name, value] : counts_) {
    if (name == "spec/accepted") accepted = value;
    if (name == "spec/passes") passes = value;
  }
  if (passes > 0) out.emplace_back("spec/accepted_per_pass", accepted / passes);
  seconds_ = 0;
  steps_ = tokens_ = 0;
  parts_.clear();
  counts_.clear();
  return out;
}

LogRecord StepAccount::log(const StepFacts& facts, double memory_peak) {
  LogRecord entry{.step = state_.step, .epoch = facts.epoch, .values = {}};
  entry.values = {{"loss", state_.loss_sum / static_cast<double>(state_.steps_since_log)},
                  {"grad_norm", facts.grad_norm},
                  {"learning_rate", facts.learning_rate},
                  {"num_tokens", static_cast<double>(state_.num_tokens)}};
  for (auto& value : state_.metrics.values()) entry.values.push_back(std::move(value));
  state_.loss_sum = 0;
  state_.steps_since_log = 0;
  state_.metrics.clear();
  entry.performance = performance(memory_peak);
  return entry;
}

void StepAccount::add_unlogged(LogRecord& entry) const {
  if (state_.steps_since_log == 0) return;
  for (const auto& [name, value] : state_.metrics.values()) entry.values.emplace_back(name, value);
  entry.values.emplace_back("num_tokens", static_cast<double>(state_.num_tokens));
}

}  // namespace hone::train
