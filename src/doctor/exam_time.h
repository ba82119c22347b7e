// How long a deep examination will take, before it begins.
#pragma once

#include "train/open_run.h"

namespace hone::doctor {

// Seconds, from one small forward pass that is timed now: right within a factor of two or so. Leaves the run
// as it is.
double deep_seconds(train::OpenedRun& run);

}  // namespace hone::doctor
