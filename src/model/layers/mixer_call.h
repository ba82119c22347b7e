// A layer hands these to its mixer (model/config/mixer.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "model/config/mixer.h"
#include "model/layers/fused_layer.h"

namespace hone::model {

// One call of the autograd form.
struct AutogradCall {
  const DecoderLayer& layer;
  const ModelConfig& config;
  const LayerNorms& norms;  // of this pass
  const RopeTables& ropes;
  const ops::PassContext& pass;
  const SegmentBorders& segments;
  const BesideStream& beside;
};

// One call of the fused form.
struct MixerCall {
  const DecoderLayer& layer;
  const LayerPass& pass;
  const LayerNorms& norms;  // of this pass
  const Segments& segments;
  bool taped = false;     // a backward of this layer follows
  bool keeps_in = false;  // ... and has MixerTape::in from the forward
};

}  // namespace hone::model
