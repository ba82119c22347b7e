// This says whether a run's loss includes the load-balancing loss of a model with experts
// (model/layers/moe.h), and with which factor.
#pragma once

#include "config/plan.h"
#include "model/config/model_config.h"
#include "train/methods/methods.h"

namespace hone::train {

// router_aux_loss_coef, or the model's own. 0: a model without experts, or a method in which TRL has no such loss for it.
inline double router_factor(const config::Plan& plan, const model::ModelConfig& model) {
  if (model.experts.count == 0) return 0;
  switch (method_opening(plan.method).experts_balance) {
    case ExpertsBalance::kByOption:
      return plan.router_aux_loss_coef.value_or(model.experts.balance);
    case ExpertsBalance::kByModel:
      return model.experts.wants_balance ? model.experts.balance : 0;
    case ExpertsBalance::kNever:
      break;
  }
  return 0;
}

}  // namespace hone::train
