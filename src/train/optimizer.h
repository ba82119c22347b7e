// The optimizer that a plan describes.
#pragma once

#include "config/plan.h"
#include "learn/adamw.h"

namespace hone::train {

inline learn::AdamWOptions adamw_options(const config::OptimizerPlan& plan) {
  return {.beta1 = plan.adam_beta1,
          .beta2 = plan.adam_beta2,
          .epsilon = plan.adam_epsilon,
          .weight_decay = plan.weight_decay};
}

}  // namespace hone::train
