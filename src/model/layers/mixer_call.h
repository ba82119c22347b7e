// A layer hands these to its parts and to its mixer (model/config/layer_part.h, mixer.h).
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
  RouterLoad* load = nullptr;  // gets the router's numbers

  bool is_gelu() const { return config.activation == Activation::kGeluTanh; }

  // A norm of the stream, or the stream itself.
  at::Tensor read(const at::Tensor& stream, NormPlace place) const;
  // x + what a part adds, after its norm and scale.
  at::Tensor add(const at::Tensor& x, at::Tensor branch, NormPlace norm_after) const;
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
