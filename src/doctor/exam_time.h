// Estimates the duration of a deep examination.
#pragma once

#include "train/opening/run_view.h"

namespace hone::doctor {

// Seconds, estimated from one small forward pass to a factor of about two. Does not change the run.
double deep_seconds(const train::RunView& run);

}  // namespace hone::doctor
