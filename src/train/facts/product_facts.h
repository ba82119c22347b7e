// How fast this machine multiplies for a run: a line of the start page, and what the doctor compares with (ENV-03).
#pragma once

#include "model/causal_lm.h"
#include "train/facts/step_facts.h"

namespace hone::train {

// Products of the run's precision and of the other one, at the model's hidden size, for at most 0.1 s each; less for a
// small model. No kernels on another device than the CPU.
ProductFacts product_facts(const model::CausalLm& model);

// GFLOP/s of the run's own products now.
double product_gflops(const model::CausalLm& model, double seconds);

}  // namespace hone::train
