// The base that an adapter was trained on, from its run's plan.yaml.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// For an adapter that was trained on a 4-bit or 8-bit base: unless the user set one of them, takes the base's
// options (load_in_4bit, load_in_8bit, bnb_4bit_quant_type, use_bnb_nested_quant, quantize_moe_experts, and dtype, which determines
// the codes) from the plan.yaml in `adapter` or, for a checkpoint, in the run's folder above it, with a note.
// Otherwise the adapter would be used on a base other than its own (CKPT-02). Adapters of other programs have
// no plan: nothing is changed. The same for base_adapters, from the base_adapters.json beside the adapter.
void inherit_base_options(Settings& settings, const std::string& adapter, std::vector<std::string>& notes);

// The same for callers without settings; not quantized unless the plan.yaml says so.
struct TrainedOn {
  QuantizedBase base = QuantizedBase::kNone;
  bool nested = false;
  bool experts = false;  // quantize_moe_experts
  bool operator==(const TrainedOn&) const = default;
};
TrainedOn trained_on(const std::string& adapter);

}  // namespace hone::config
