// Probe P11 with its shapes, its patience and its machine as parameters.
#pragma once

#include <chrono>
#include <vector>

#include "doctor/examination.h"
#include "doctor/probes/kernel_check.h"

namespace hone::doctor {

// Every matrix product, head and attention that the run will make, in its own numbers and form: training, and
// for methods that sample the prompt and the decoding. A product longer than a probe should take is cut in
// its first dimension only.
std::vector<KernelShape> kernel_shapes(const train::OpenedRun& run);

// Hands `shapes` to `options.program probe-hardware`; what it has shown before is read from
// options.cache_dir. A shape that kills the child, gives no answer within `patience` or wrong numbers is a
// failure (NUM-07, NUM-04) with what other form of it works here; the child goes on with the next.
Verdicts examine_hardware(const std::vector<KernelShape>& shapes, std::int64_t threads,
                          const ExamOptions& options, std::chrono::milliseconds patience);

}  // namespace hone::doctor
