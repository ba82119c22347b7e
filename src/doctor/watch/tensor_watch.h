// Trainable tensors that receive no gradient (GRAD-02), or that have a gradient and do not change (GRAD-05).
#pragma once

#include <cstdint>
#include <vector>

#include "adapters/lora.h"
#include "base/json.h"
#include "doctor/watch/finding.h"

namespace hone::doctor {

class TensorWatch {
 public:
  // Checks the first steps and then every 50th, counted from `first_step`, the number of earlier steps.
  explicit TensorWatch(std::int64_t first_step) : first_step_(first_step) {}

  // The gradients of `step` (1-based), not yet clipped. `had_samples` false: no sample of the step had one,
  // so the step is not checked.
  Findings on_backward(std::int64_t step, const adapters::Adapter& adapter, bool had_samples);
  // After the optimizer.
  Findings on_step(std::int64_t step, const adapters::Adapter& adapter, double learning_rate);

  // Returns the state for the adapter's tensors, by name.
  base::Json state(const adapters::Adapter& adapter) const;
  void restore(const base::Json& state, const adapters::Adapter& adapter);  // BadWatchState (watch_state.h)
  // Resets the counts; the first checks follow `step`.
  void reset_evidence(std::int64_t step);

 private:
  struct Tensor {
    bool looked_at = false;        // has a gradient to check in this step
    std::int64_t before = 0;       // of its bits, before the optimizer
    std::int64_t no_gradient = 0;  // checks in a row
    std::int64_t not_moved = 0;
  };
  bool due(std::int64_t step) const;
  std::int64_t first_step_;
  bool armed_ = false;           // this step is looked at
  std::vector<Tensor> tensors_;  // in the adapter's order
};

// The first few, and how many more.
std::string first_names(const std::vector<std::string>& names);

}  // namespace hone::doctor
