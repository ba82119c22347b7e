// What an adapter was trained on, as its run's plan.yaml says.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// Of an adapter that was trained on a base in 4 or 8 bits: the base's options (load_in_4bit, load_in_8bit,
// bnb_4bit_quant_type, use_bnb_nested_quant, and dtype, which the codes depend on) from the plan.yaml in
// `adapter`, or in the run's folder above it for a checkpoint, where the user set none of them; with a note.
// Without them the adapter would lie on another base than its own (CKPT-02). Adapters of other
// programs have no plan: nothing is done.
// So too base_adapters, from the base_adapters.json beside the adapter.
void inherit_base_options(Settings& settings, const std::string& adapter, std::vector<std::string>& notes);

// The same for who has no settings; not quantized: nobody says otherwise.
struct TrainedOn {
  QuantizedBase base = QuantizedBase::kNone;
  bool nested = false;
  bool operator==(const TrainedOn&) const = default;
};
TrainedOn trained_on(const std::string& adapter);

}  // namespace hone::config
