// Probes P1 and P2 with the optimizer's step as a parameter: tests pass a broken one.
#pragma once

#include <functional>

#include "doctor/examination.h"
#include "learn/optimizer.h"

namespace hone::doctor {

// As learn::Optimizer::step.
using OptimizerStep = std::function<void(learn::Optimizer&, const at::Tensor& parameters,
                                         const at::Tensor& gradient, double learning_rate)>;

// Rehearses optimizer steps at the peak learning rate until every trainable tensor has had a gradient: two,
// because that of lora_A is exactly 0 while B is 0; up to five where layers of the base are zero. Tensors
// that still have none are reported by layer. Checks
//   GRAD-04  the trainable elements against sum r (in + out) of the adapted linears
//   NUM-02   the base and the adapter before the first step, loss and gradients of each
//   GRAD-01  no tensor gets a gradient; GRAD-02: some do not
//   GRAD-05  tensors that do not change while the optimizer's buffer does; NUM-06: a frozen tensor that
//            changed
//   GRAD-08  the stored update against the same formula in fp64; NUM-01: it is rounded away
//   NUM-08   |dW| / |W| of one step at the peak
Verdicts examine_gradient(const train::RunView& run, const OptimizerStep& take_step);

}  // namespace hone::doctor
