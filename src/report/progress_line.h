// One line a step: it rewrites itself in a terminal, and is a plain line at each logging step in a log.
#pragma once

#include <cstdint>
#include <string>

#include "report/terminal.h"
#include "train/step_facts.h"

namespace hone::report {

class ProgressLine {
 public:
  explicit ProgressLine(Terminal terminal) : terminal_(terminal) {}

  // "step  12/80  epoch 0.38  loss 1.2345  grad 0.812  lr 2.0e-04  acc 0.61  930 tok/s  left 1 min 05 s"
  // and, where the metrics hold "reward",
  // "step 12/80  reward 0.531 ±0.42  dead 25%  cut 3%  len 14  entropy 0.91  kl 0.003  gap 2e-7  loss 0.0001
  //  grad 0.213  rollout 1.9s reward 0.0s train 2.1s  left 5 min"
  // of which what is absent or NaN is left out; beyond the terminal's width, or 160 columns, the least
  // important goes: the loss first (doctor/watch/loss_table.h says why), step and reward last.
  //   dead  share of groups whose rewards are all equal: nothing is learned of them (dead_groups)
  //   cut   share of completions without an end (completions/clipped_ratio);  len  their mean tokens
  //   gap   the largest |sampler - trainer| log-probability (ratio_gap)
  std::string text(const train::StepFacts& facts, std::int64_t total_steps);
  const Terminal& terminal() const { return terminal_; }

 private:
  Terminal terminal_;
  double seconds_per_step_ = 0;  // moving average
};

}  // namespace hone::report
