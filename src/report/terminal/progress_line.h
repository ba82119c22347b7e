// One line per step: rewritten in place in a terminal, printed at each logging step in a log.
#pragma once

#include <cstdint>
#include <string>

#include "report/terminal/terminal.h"
#include "train/facts/step_facts.h"

namespace hone::report {

class ProgressLine {
 public:
  explicit ProgressLine(Terminal terminal) : terminal_(terminal) {}

  // "step  12/80  epoch 0.38  loss 1.2345  grad 0.812  lr 2.0e-04  acc 0.61  930 tok/s  left 1 min 05 s"
  // and, where the metrics hold "reward",
  // "step 12/80  reward 0.531 ±0.42  dead 25%  cut 3%  len 14  entropy 0.91  kl 0.003  gap 2e-7  loss 0.0001
  //  grad 0.213  rollout 1.9s reward 0.0s train 2.1s  left 5 min"
  // without values that are absent or NaN. If the line is wider than the terminal, or 160 columns, the least
  // important values are dropped: the loss first (see doctor/watch/loss_table.h), step and reward last.
  //   dead  share of groups whose rewards are all equal, without training signal (dead_groups)
  //   cut   share of completions without an end (completions/clipped_ratio);  len  their mean tokens
  //   gap   the largest |sampler - trainer| log-probability (ratio_gap)
  std::string text(const train::StepFacts& facts, std::int64_t total_steps);
  const Terminal& terminal() const { return terminal_; }

 private:
  Terminal terminal_;
  double seconds_per_step_ = 0;  // moving average
};

}  // namespace hone::report
