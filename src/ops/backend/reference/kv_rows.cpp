// Keys and values of a tile and head as rows [64][D].
#include <ATen/ATen.h>

#include <algorithm>

#include "ops/backend/kv_memory.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops::reference {
namespace {

// [K, tokens, D]
Tensor rows_of(const Tensor& tiles, std::int64_t head_dim) {
  return tiles.view({tiles.size(0), tiles.size(1) * kKvTile, head_dim});
}

void append(const Tensor& keys, const Tensor& values, std::int64_t head_dim, std::int64_t begin,
            const Tensor& k, const Tensor& v) {
  rows_of(keys, head_dim).narrow(1, begin, k.size(0)).copy_(k.transpose(0, 1));
  rows_of(values, head_dim).narrow(1, begin, v.size(0)).copy_(v.transpose(0, 1));
}

std::pair<Tensor, Tensor> rows(const Tensor& keys, const Tensor& values, std::int64_t head_dim,
                               std::int64_t length) {
  return {rows_of(keys, head_dim).narrow(1, 0, length), rows_of(values, head_dim).narrow(1, 0, length)};
}

void clear(const Tensor& keys, const Tensor& values, std::int64_t head_dim, std::int64_t begin,
           std::int64_t end) {
  rows_of(keys, head_dim).narrow(1, begin, end - begin).zero_();
  rows_of(values, head_dim).narrow(1, begin, end - begin).zero_();
}

}  // namespace

const backend::KvLayout kKvRows = {.append = append, .rows = rows, .clear = clear};

std::pair<Tensor, Tensor> keys_and_values(const KvTiles& tiles) {
  if (const backend::KvRun* const run = KvMemory::run(tiles)) return run->pool().rows(*run, tiles.length());
  return KvMemory::layout(tiles)->rows(KvMemory::keys(tiles), KvMemory::values(tiles), tiles.head_dim(),
                                       tiles.length());
}

}  // namespace hone::ops::reference
