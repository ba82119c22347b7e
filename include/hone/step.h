// Training steps of an adapter, one at a time: gradients of some examples, then AdamW.
//
//   hone::Step step(adapter);
//   for (const hone::Example& example : batch) step.add(example, loss);
//   step.take(1e-4);
//
// An example is a pass of its own, and gradients are added in the order of the calls.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hone/adapter.h"
#include "hone/data.h"
#include "hone/loss.h"

namespace hone {

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  double max_grad_norm = 1;  // of all parameters together; 0: gradients are not clipped
};

struct Scored {
  double loss = 0;
  std::vector<float> logprobs;  // [N], of the targets
};

struct StepReport {
  std::int64_t step = 0;  // 1 after the first
  double grad_norm = 0;   // before clipping
};

class Step {
 public:
  // The adapter must outlive it.
  explicit Step(Adapter& adapter, const AdamOptions& options = {});
  Step(Step&&) noexcept;
  Step& operator=(Step&&) noexcept;
  ~Step();

  // Adds the gradient of the loss of this example, times `scale`. UserError for an example that is empty,
  // longer than the model's context, or has an id outside the vocabulary, and for a derivative that is not
  // finite: nothing is added then.
  Scored add(const Example& example, const Loss& loss, double scale = 1);
  // The loss and log-probabilities alone.
  Scored score(const Example& example, const Loss& loss) const;
  // Clips the gradient and updates the adapter; the gradient is 0 afterwards. UserError if nothing was added,
  // and for a gradient that is not finite, which is dropped.
  StepReport take(double learning_rate);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace hone
