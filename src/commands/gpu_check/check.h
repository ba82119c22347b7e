// hone gpu-check.
#pragma once

#include "config/commands/gpu_check_plan.h"

namespace hone::commands {

// Runs the stages, each in a child process of this program, and appends a line of JSON to plan.output after each. Prints a
// line a stage, and "N passed, N failed, N not run" last. Returns 0, or 1 where a stage failed.
int check_gpu(const config::GpuCheckPlan& plan);

}  // namespace hone::commands
