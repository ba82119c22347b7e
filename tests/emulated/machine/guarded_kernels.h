// A table of kernels between guards: each call gets its tensors in guarded memory (guarded_memory.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "ops/backend/cuda/kernels/kernels.h"

namespace hone::emulated {

using ops::cuda::kernels::Kernels;

// hone's own kernels as the emulator runs them.
const Kernels& emulated_kernels();

// Opens the memory to which a call's words point, until what it returns is gone: for tensors that the host
// may not touch. The call is a struct of kernels.h.
using Opener = std::shared_ptr<void> (*)(const void* call, std::size_t bytes);

// `kernels`, which must outlive the table's use, between guards; one at a time. Without `open` all memory is the host's.
const Kernels& guarded(const Kernels& kernels, Opener open = nullptr);

// Calls of the guarded table so far; and of each of its functions by their names, which are 0 for those that nobody called.
std::int64_t guarded_calls();
std::map<std::string, std::int64_t> guarded_calls_by_name();

}  // namespace hone::emulated
