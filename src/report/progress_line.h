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
  std::string text(const train::StepFacts& facts, std::int64_t total_steps);
  const Terminal& terminal() const { return terminal_; }

 private:
  Terminal terminal_;
  double seconds_per_step_ = 0;  // moving average
};

}  // namespace hone::report
