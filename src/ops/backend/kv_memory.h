// The kernels of a backend read a KvTiles with these.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "ops/backend/kv_pool.h"
#include "ops/backend/layouts.h"
#include "ops/kv_tiles.h"

namespace hone::ops {

class KvMemory {
 public:
  static const at::Tensor& keys(const KvTiles& tiles) { return tiles.keys_; }  // [K, tiles, 64 * D]
  static const at::Tensor& values(const KvTiles& tiles) { return tiles.values_; }
  // Null: the tiles have memory of their own, which the functions above give.
  static const backend::KvRun* run(const KvTiles& tiles) { return tiles.run_.get(); }
  // The pool of all of them; null: they have no one pool.
  static backend::KvPool* pool_of_all(std::span<const KvAppend> rows);
  // append_all() of rows of one pool, but that k and v are not written: where they are to be, for KvPool::write.
  static std::vector<std::int64_t> take_places(std::span<const KvAppend> rows, const at::Tensor& k,
                                               const at::Tensor& v);
  static const backend::KvLayout* layout(const KvTiles& tiles) { return tiles.layout_; }
};

}  // namespace hone::ops
