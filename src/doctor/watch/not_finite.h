// NUM-02: which value was the first that is not a number, by tensor, layer and sample.
#pragma once

#include <cstdint>

#include "base/verdict.h"
#include "train/open_run.h"

namespace hone::doctor {

// Loss or gradient of step `step` (1-based) is not finite. Looks at the base's weights, at the adapter's
// values and gradients, and runs the step's samples again one by one until two of them are found bad; the
// adapter's gradients are lost.
base::Verdict diagnose_not_finite(train::OpenedRun& run, std::int64_t step, double loss, double grad_norm);

// A failure when the adapter itself holds such values; kOk otherwise.
base::Verdict check_adapter_finite(const adapters::Adapter& adapter);

}  // namespace hone::doctor
