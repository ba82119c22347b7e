// What a sequence keeps of its tokens in one layer, so that its next tokens can be computed: by the layer's kind.
#pragma once

#include <cstdint>

#include "model/model_config.h"
#include "ops/kv_tiles.h"
#include "ops/short_conv.h"

namespace hone::model {

struct LayerCache {
  LayerKind kind = LayerKind::kAttention;
  ops::KvTiles tiles;      // attention: keys and values of all its tokens
  ops::ConvInputs inputs;  // short convolution: its last inputs

  std::int64_t length() const { return kind == LayerKind::kAttention ? tiles.length() : inputs.length(); }
  std::int64_t bytes() const { return tiles.bytes() + inputs.bytes(); }
  // Whether it still has what comes after the first `length` tokens needs.
  bool can_truncate(std::int64_t length) const {
    return kind == LayerKind::kAttention || inputs.can_truncate(length);
  }
  void truncate(std::int64_t length) {
    kind == LayerKind::kAttention ? tiles.truncate(length) : inputs.truncate(length);
  }
  // With memory of its own; copying the object shares it.
  LayerCache clone() const { return {kind, tiles.clone(), inputs.clone()}; }
};

}  // namespace hone::model
