// The kernels of a backend read a KvTiles with these.
#pragma once

#include <ATen/core/Tensor.h>

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
  static const backend::KvLayout* layout(const KvTiles& tiles) { return tiles.layout_; }
};

}  // namespace hone::ops
