// The optimizer and the schedule that a plan describes.
#pragma once

#include "adapters/lora.h"
#include "config/plan.h"
#include "learn/optimizer.h"
#include "learn/schedule.h"

namespace hone::train {

// How full fine-tuning divides the optimizer's state among ranks (train/loop/shards.h), and in which folder it lies; as the
// plan says, where it can (config/derived/full_plan.cpp).
struct DividedState {
  int stage = 0, rank = 0, ranks = 1;
  base::fs::path offload = {};
  bool divides() const { return stage > 0 && ranks > 1; }
};

DividedState divided_state(const config::Plan& plan);

// A new one for the adapter's buffer, on its device, with zero state.
learn::Optimizer make_optimizer(const config::OptimizerPlan& plan, const adapters::Adapter& adapter,
                                const DividedState& divided = {});

inline learn::ScheduleSpec schedule_spec(const config::OptimizerPlan& plan, std::int64_t total_steps) {
  return {.type = plan.lr_scheduler_type,
          .warmup_steps = learn::resolve_warmup(plan.warmup_steps, total_steps),
          .total_steps = total_steps,
          .learning_rate = plan.learning_rate,
          .kwargs = plan.lr_scheduler_kwargs};
}

}  // namespace hone::train
