// Estimates the duration of a deep examination.
#pragma once

#include "train/open_run.h"

namespace hone::doctor {

// Seconds, estimated from one small forward pass to a factor of about two. Does not change the run.
double deep_seconds(train::OpenedRun& run);

}  // namespace hone::doctor
