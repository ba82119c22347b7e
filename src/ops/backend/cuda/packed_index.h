// Where the sequences of a packed batch begin, as FlashAttention-2 reads it, on a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/attention.h"

namespace hone::ops::cuda {

// Rows that attend to a prefix, and the prefixes' own rows; each [n] int32 places in the packed batch, in the order of
// the begins. A run of neighbors with one prefix is one sequence of queries, and its prefix one sequence of keys.
struct PrefixIndex {
  at::Tensor queries, keys;
  at::Tensor query_begins, key_begins;  // [runs + 1] int32
  std::int64_t longest_queries = 0, longest_keys = 0;
};

struct PackedIndex {
  at::Tensor begins;  // [segments + 1] int32
  std::int64_t longest = 0;
  PrefixIndex prefixes;  // undefined tensors: no segment has one
};

// One staged copy to the device; none where the thread's last call had the same segments and device, as all layers of a
// pass have.
const PackedIndex& packed_index(const std::vector<AttentionSegment>& segments, at::Device device);

}  // namespace hone::ops::cuda
