// A table of kernels between guards: each call gets its tensors in guarded memory (guarded_memory.h).
#pragma once

#include "ops/backend/cuda/kernels/kernels.h"

namespace hone::emulated {

using ops::cuda::kernels::Kernels;

// hone's own kernels as the emulator runs them.
const Kernels& emulated_kernels();

// `kernels`, which must outlive the table's use, between guards; one at a time.
const Kernels& guarded(const Kernels& kernels);

// Calls of the guarded table so far.
std::int64_t guarded_calls();

}  // namespace hone::emulated
