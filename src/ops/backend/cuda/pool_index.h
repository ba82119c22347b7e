// Which rows of a pool (ops/backend/kv_row_pool.h) the queries of a step read, as FlashAttention-2 is told: for each sequence
// of queries where its keys begin and how many there are. Where keys begin is any number, so that no row is moved and the
// calls of a step do not depend on the number of its sequences.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/attention.h"
#include "ops/backend/kv_pool.h"

namespace hone::ops::cuda {

// Sequences of queries, one call.
struct PoolReads {
  at::Tensor queries;  // [n] int64, which rows of q; undefined: all of them, in order
  // [sequences + 1] and [sequences] int32: begins of queries, begins of keys (the last number is not read), and lengths
  at::Tensor query_begins, key_begins, key_lengths;
  std::int64_t longest_query = 0, longest_keys = 0;
  std::int64_t sequences = 0;
};

struct PoolIndex {
  PoolReads single;   // a row each: it sees all of its keys
  PoolReads several;  // consecutive rows each: causal, and the last one sees all
  PoolReads
      prefixes;  // of all rows: each sees all of its keys, which may be none; no sequences without prefixes
  bool some_without_prefix = false;
};

// The one pool of all the rows' tiles; null: there is none, or the rows do not cover q in order.
backend::KvPool* pool_of(const std::vector<AttentionRows>& rows, std::int64_t queries);

// One staged copy to the device; none where one of the thread's last calls had the same rows, as the layers of a step
// have. Until the next call.
const PoolIndex& pool_index(const std::vector<AttentionRows>& rows, std::int64_t window, at::Device device);

}  // namespace hone::ops::cuda
