// ENV-03 during a run: steps that take far longer than earlier ones of the same size. Methods that do not sample: the
// time of rollouts depends on what the model says.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include "doctor/watch/finding.h"
#include "train/facts/step_facts.h"

namespace hone::doctor {

// Concerns one process: a resumed run starts without this state.
class PaceWatch {
 public:
  // `products`: as before step 1; `measure`: GFLOP/s of the same products now, called only when steps are slow.
  PaceWatch(train::ProductFacts products, std::function<double()> measure)
      : products_(std::move(products)), measure_(std::move(measure)) {}
  Findings see(const train::StepFacts& step);

 private:
  train::ProductFacts products_;
  std::function<double()> measure_;
  std::deque<double> paces_;  // tokens a second of the newest steps
  double best_ = 0;           // median of the fastest window so far
  bool told_ = false;
};

}  // namespace hone::doctor
