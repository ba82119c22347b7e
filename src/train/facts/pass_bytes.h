// The bytes that a pass over the longest micro-batch holds beside the weights, in either form of the layers.
// memory_plan.h makes segments of them.
#pragma once

#include <cstdint>

#include "config/plan.h"
#include "train/facts/memory_plan.h"

namespace hone::train {

struct PassBytes {
  std::int64_t taped_layers = 0;
  std::int64_t tape = 0;     // from the forward to the backward
  std::int64_t scratch = 0;  // the most that one layer holds beyond the tape
  std::int64_t head = 0;     // ... and the head, when no layer runs
  std::int64_t kept = 0;     // of threads and stacked experts, from the first pass on
  std::int64_t batch = 0;
  std::int64_t ends = 0;  // of embedding and head that are trained
};

// `level` is not kAuto; only the fused form reads it.
PassBytes pass_bytes(const MemoryInputs& inputs, bool fused_layer, config::RecomputeMode level);

// Returns what is held beside MemoryInputs::sampling: what stays from the first pass on, and DoRA's norms,
// which the first sampled token after a step makes.
std::int64_t beside_sampling(const MemoryInputs& inputs);

}  // namespace hone::train
