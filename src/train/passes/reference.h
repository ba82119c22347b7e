// The reference model of a run: only the base, or the base with the initial values of a continued adapter. In full
// fine-tuning the base is the model as it was read, which stays in memory beside the trained one. Or another model
// (ref_model), or one that follows the policy (sync_ref_model).
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "config/plan.h"
#include "model/causal_lm.h"
#include "train/passes/moving_reference.h"

namespace hone::train {

// Replaces `parameters` by `values` while it lives.
class ScopedParameterSwap {
 public:
  ScopedParameterSwap(at::Tensor parameters, const at::Tensor& values)
      : parameters_(std::move(parameters)), kept_(parameters_.clone()) {
    parameters_.copy_(values);
  }
  ~ScopedParameterSwap() { parameters_.copy_(kept_); }
  ScopedParameterSwap(const ScopedParameterSwap&) = delete;
  ScopedParameterSwap& operator=(const ScopedParameterSwap&) = delete;

 private:
  at::Tensor parameters_, kept_;
};

// Exchanges policy and reference while it lives.
class ScopedExchange {
 public:
  explicit ScopedExchange(const MovingReference& moving) : moving_(moving) { moving_.exchange(); }
  ~ScopedExchange() { moving_.exchange(); }
  ScopedExchange(const ScopedExchange&) = delete;
  ScopedExchange& operator=(const ScopedExchange&) = delete;

 private:
  const MovingReference& moving_;
};

struct Reference {
  at::Tensor parameters;  // Adapter::flat() [P]
  at::Tensor values;      // [P], which replace `parameters`; undefined: only the base
  std::shared_ptr<const model::CausalLm> other =
      nullptr;  // another model; null: none, or release() was called
  std::shared_ptr<const MovingReference> moving = nullptr;  // null: the reference stays
  bool released = false;

  // score(model, adapters_on) with the reference's weights, without gradients. `policy`: the run's model.
  template <typename Score>
  auto score(const model::CausalLm& policy, const Score& score_with) const {
    const at::NoGradGuard no_grad;
    base::require(!released, "Reference::score", "a reference that was not released");
    if (other != nullptr) return score_with(*other, false);
    if (moving != nullptr) {
      const ScopedExchange exchanged(*moving);
      return score_with(policy, true);
    }
    if (!values.defined()) return score_with(policy, false);
    const ScopedParameterSwap swap(parameters, values);
    return score_with(policy, true);
  }

  // Everything that the run needs of the reference was computed: the memory of another model is given back.
  void release() {
    released = other != nullptr;
    other.reset();
  }
};

// A description of the plan's reference.
inline std::string describe_reference(const config::Plan& plan) {
  if (plan.sync_ref_model) {
    return (plan.ref_model.empty() ? "the model as the run began" : plan.ref_model) +
           ", moved towards the policy every " + std::to_string(plan.ref_model_sync_steps) + " steps";
  }
  if (!plan.ref_model.empty()) return plan.ref_model;
  if (!plan.use_peft) return "the model as the run began, a second copy";
  if (!plan.adapter_name_or_path.empty()) return "the adapter as it is in " + plan.adapter_name_or_path;
  return plan.base_adapters.empty() ? "the base without the adapter"
                                    : "the base with base_adapters, without the adapter";
}

}  // namespace hone::train
