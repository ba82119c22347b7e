// NUM-02: the first value that is not finite, by tensor, layer and sample.
#pragma once

#include <cstdint>
#include <string>

#include "base/verdict.h"
#include "train/opening/run_view.h"

namespace hone::doctor {

// Holds what the steps before have shown.
struct RunPast {
  std::string rate_warning;  // what an earlier NUM-08 said; empty: none
  double usual_norm = 0,
         newest = 0;  // of the gradient: the median of the steps before; the newest; 0: unknown
};

// Loss or gradient of step `step` (1-based) is not finite. Checks the base's weights and the adapter's values
// and gradients, and runs the step's samples again one by one until two bad ones are found, with the adapter and
// with lora_B at 0: samples that are finite without it are not the cause. The adapter's gradients are lost.
base::Verdict diagnose_not_finite(const train::RunView& run, std::int64_t step, double loss, double grad_norm,
                                  const RunPast& past = {});

// A failure when the adapter itself has such values; else kOk.
base::Verdict check_adapter_finite(const adapters::Adapter& adapter);

}  // namespace hone::doctor
