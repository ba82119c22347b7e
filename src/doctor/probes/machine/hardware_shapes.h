// Probe P11 with its shapes, time limit and program as parameters.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <vector>

#include "doctor/examination.h"
#include "doctor/probes/machine/kernel_check.h"

namespace hone::doctor {

// Every matrix product, head and attention of the run, in its dtypes and form: for training and, for methods
// that sample, for prefill and decoding. A product that would take too long is cut only in its first
// dimension.
std::vector<KernelShape> kernel_shapes(const train::RunView& run);

// Each on `device`. Passes `shapes` to `options.program probe-hardware`; earlier results are read from options.cache_dir. A
// shape that kills the child, does not finish within `patience` or gives wrong results is a failure (NUM-07,
// NUM-04), with the other forms that work on this machine; the child continues with the next shape.
Verdicts examine_hardware(const std::vector<KernelShape>& shapes, std::int64_t threads,
                          const ExamOptions& options, std::chrono::milliseconds patience,
                          at::Device device = at::kCPU);

}  // namespace hone::doctor
