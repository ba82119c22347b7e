// This counts what hone's own kernels load and store; their source is compiled once more, with a call at each
// access.
#pragma once

#include <cstdint>

#include "emulated/machine/guarded_kernels.h"

namespace hone::emulated {

// hone's own kernels, whose loads and stores of tensors are counted while they are called between guards.
const Kernels& counted_kernels();

struct Traffic {
  std::int64_t loaded = 0, stored = 0;                    // bytes, however often
  std::int64_t distinct_loaded = 0, distinct_stored = 0;  // bytes that were loaded at least once, or stored
};

// Returns the traffic of all calls since the last one of this.
Traffic take_traffic();

}  // namespace hone::emulated
