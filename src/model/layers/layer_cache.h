// A sequence keeps this of its tokens in one layer, so that its next tokens can be computed. The layer's
// mixer fills it.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>

#include "model/config/mixer.h"
#include "ops/delta_rule.h"
#include "ops/kv_tiles.h"
#include "ops/short_conv.h"

namespace hone::model {

struct LayerCache {
  const Mixer* mixer = nullptr;  // fills one of these; null: an empty cache, which has no tokens
  ops::KvTiles tiles;            // keys and values of all its tokens
  ops::ConvInputs inputs;        // its last inputs
  ops::DeltaState delta;         // its last inputs, and what its heads hold
  bool is_elsewhere = false;     // the layer reads the cache of another one and has nothing here
  bool in_pages = false;  // its keys and values are in the sequence's pages (KvCache::pages), and not here

  std::int64_t length() const { return mixer == nullptr ? 0 : mixer->length(*this); }
  std::int64_t bytes() const { return tiles.bytes() + inputs.bytes() + delta.bytes(); }
  // Whether it still has what comes after the first `length` tokens needs.
  bool can_truncate(std::int64_t length) const {
    return mixer == nullptr || mixer->can_truncate(*this, length);
  }
  void truncate(std::int64_t length) {
    if (mixer != nullptr && !is_elsewhere && !in_pages) mixer->truncate(*this, length);
  }
  // With memory of its own; copying the object shares it.
  LayerCache clone() const {
    return {mixer, tiles.clone(), inputs.clone(), delta.clone(), is_elsewhere, in_pages};
  }
};

// An empty cache is made for this.
struct CacheRoom {
  const ModelConfig& config;
  std::int64_t layer = 0;   // its number
  std::int64_t tokens = 0;  // room for so many, where the mixer keeps each of them
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  std::shared_ptr<ops::backend::KvPool> pool = {};  // where the device keeps keys in one
};

}  // namespace hone::model
