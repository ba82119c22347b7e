// The reference model of a run: only the base, or the base with the initial values of a continued adapter. In full
// fine-tuning the base is the model as it was read, which stays in memory beside the trained one.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <string>

#include "config/plan.h"

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

struct Reference {
  at::Tensor parameters;  // Adapter::flat() [P]
  at::Tensor values;      // [P], which replace `parameters`; undefined: only the base

  // score(adapters_on) with the reference's weights, without gradients.
  template <typename Score>
  auto score(const Score& score_with) const {
    const at::NoGradGuard no_grad;
    if (!values.defined()) return score_with(false);
    const ScopedParameterSwap swap(parameters, values);
    return score_with(true);
  }
};

// A description of the plan's reference.
inline std::string describe_reference(const config::Plan& plan) {
  if (!plan.use_peft) return "the model as the run began, a second copy";
  if (!plan.adapter_name_or_path.empty()) return "the adapter as it is in " + plan.adapter_name_or_path;
  return plan.base_adapters.empty() ? "the base without the adapter"
                                    : "the base with base_adapters, without the adapter";
}

}  // namespace hone::train
