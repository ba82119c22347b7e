// The reference model of a run that trains an adapter: the base alone, or with the values that a continued
// adapter began with.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "adapters/lora.h"
#include "train/open_run.h"
#include "train/run_setup.h"

namespace hone::train {

// Attaches the run's adapter and what lies below it (open_adapter), and gives its reference, as
// Adapter::flat() holds values: TRL's of a continued adapter is that adapter as it began (PEFT's "ref"), also
// in a resumed run; a PiSSA adapter took its beginning out of the base, so that beginning is its reference.
// Undefined: the base alone, as for any other new adapter, with base_adapters if there are any, or where
// `wanted` is false.
inline at::Tensor open_adapter_and_reference(OpenedRun& run, bool wanted = true) {
  at::Tensor continued;  // before the run's own is attached: the model holds one at a time
  if (wanted && !run.plan.adapter_name_or_path.empty()) {
    continued = adapters::Adapter::load(*run.model, run.plan.adapter_name_or_path).flat().clone();
  }
  const adapters::Adapter& adapter = run.adapter.emplace(open_adapter(*run.model, run.plan, run.place));
  return wanted && adapter.beginning().defined() ? adapter.beginning() : continued;
}

// The same in words, of the plan.
inline std::string reference_words(const config::Plan& plan) {
  if (!plan.adapter_name_or_path.empty()) return "the adapter as it is in " + plan.adapter_name_or_path;
  return plan.base_adapters.empty() ? "the base without the adapter"
                                    : "the base with base_adapters, without the adapter";
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
