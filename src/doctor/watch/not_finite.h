// NUM-02: the first value that is not finite, by tensor, layer and sample.
#pragma once

#include <cstdint>

#include "base/verdict.h"
#include "train/open_run.h"

namespace hone::doctor {

// Loss or gradient of step `step` (1-based) is not finite. Checks the base's weights and the adapter's values
// and gradients, and runs the step's samples again one by one until two bad ones are found; the adapter's
// gradients are lost.
base::Verdict diagnose_not_finite(train::OpenedRun& run, std::int64_t step, double loss, double grad_norm);

// A failure when the adapter itself has such values; else kOk.
base::Verdict check_adapter_finite(const adapters::Adapter& adapter);

}  // namespace hone::doctor
