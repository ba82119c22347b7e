// What the steps of a run add up to: the facts of each, the means since the last log, and where the time went.
#pragma once

#include <string_view>
#include <vector>

#include "train/loop/step_strategy.h"
#include "train/saves/run_state.h"

namespace hone::train {

class StepAccount {
 public:
  // Counts in `state`, which must outlive it.
  explicit StepAccount(RunState& state) : state_(state) {}

  // Adds a step that was done, which took `seconds`. Everything but StepFacts::epoch is filled in.
  StepFacts add(const StepResult& done, double learning_rate, double seconds);
  // Time besides the steps: "evaluation", "save".
  void spend(std::string_view part, double seconds);

  // The record of the steps since the last one, which begins the next. `memory_peak`: bytes.
  LogRecord log(const StepFacts& facts, double memory_peak);
  // Adds what the steps after the last log measured, as TRL's trainers have it in a run's last record. The
  // loss is in train_loss.
  void add_unlogged(LogRecord& entry) const;

 private:
  std::vector<NamedValue> performance(double memory_peak);

  RunState& state_;
  // Since the last log: what metrics.jsonl calls performance.
  double seconds_ = 0;
  std::int64_t steps_ = 0, tokens_ = 0;
  std::vector<NamedValue> parts_;   // rollout, reward, train; evaluation, save
  std::vector<NamedValue> counts_;  // StepLoss::counts
};

}  // namespace hone::train
