// What a sequence keeps of its tokens in one layer, so that its next tokens can be computed: by the layer's kind.
#pragma once

#include <cstdint>

#include "model/config/model_config.h"
#include "ops/delta_rule.h"
#include "ops/kv_tiles.h"
#include "ops/short_conv.h"

namespace hone::model {

struct LayerCache {
  LayerKind kind = LayerKind::kAttention;
  ops::KvTiles tiles;      // attention: keys and values of all its tokens
  ops::ConvInputs inputs;  // short convolution: its last inputs

  ops::DeltaState delta;      // delta rule: its last inputs, and what its heads hold
  bool is_elsewhere = false;  // the layer reads the cache of another one and has nothing here

  std::int64_t length() const {
    if (kind == LayerKind::kAttention) return tiles.length();
    return kind == LayerKind::kShortConv ? inputs.length() : delta.length();
  }
  std::int64_t bytes() const { return tiles.bytes() + inputs.bytes() + delta.bytes(); }
  // Whether it still has what comes after the first `length` tokens needs.
  bool can_truncate(std::int64_t length) const {
    if (kind == LayerKind::kDeltaRule) return delta.can_truncate(length);
    return kind == LayerKind::kAttention || inputs.can_truncate(length);
  }
  void truncate(std::int64_t length) {
    if (is_elsewhere) return;
    if (kind == LayerKind::kDeltaRule) return delta.truncate(length);
    kind == LayerKind::kAttention ? tiles.truncate(length) : inputs.truncate(length);
  }
  // With memory of its own; copying the object shares it.
  LayerCache clone() const { return {kind, tiles.clone(), inputs.clone(), delta.clone(), is_elsewhere}; }
};

}  // namespace hone::model
