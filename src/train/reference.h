// The reference model of a run that trains an adapter: the base alone, or with the values that a continued
// adapter began with.
#pragma once

#include <ATen/core/Tensor.h>

#include "adapters/lora.h"
#include "config/plan.h"
#include "model/causal_lm.h"

namespace hone::train {

// TRL's reference of a continued adapter is that adapter as it began (PEFT's "ref"), also in a resumed run:
// its values, as Adapter::flat() holds them. Undefined for a new adapter: the reference is the base alone.
inline at::Tensor reference_adapter(model::CausalLm& model, const config::Plan& plan) {
  if (plan.adapter_name_or_path.empty()) return {};
  return adapters::Adapter::load(model, plan.adapter_name_or_path).flat().clone();
}

// The same once the run's own adapter is there: a PiSSA adapter took its beginning out of the base, so the
// reference is that beginning.
inline at::Tensor reference_beside(const at::Tensor& continued, const adapters::Adapter& adapter) {
  return adapter.beginning().defined() ? adapter.beginning() : continued;
}

// `values` in the place of `parameters`, as long as this lives.
class Swapped {
 public:
  Swapped(at::Tensor parameters, const at::Tensor& values)
      : parameters_(std::move(parameters)), kept_(parameters_.clone()) {
    parameters_.copy_(values);
  }
  ~Swapped() { parameters_.copy_(kept_); }
  Swapped(const Swapped&) = delete;
  Swapped& operator=(const Swapped&) = delete;

 private:
  at::Tensor parameters_, kept_;
};

}  // namespace hone::train
