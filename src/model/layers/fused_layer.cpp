// Each part has its own file of model/parts, what they share is in part_call.h; what each level keeps is in the header.
#include "model/layers/fused_layer.h"

#include <ATen/ATen.h>

#include <vector>

#include "base/error.h"
#include "model/layers/part_call.h"
#include "ops/join/join.h"

namespace hone::model {
namespace {

// Of sides' products that lie behind what a linear reads (ops/join/join.h) copies, where the tape does not keep that.
void keep_apart(std::vector<at::Tensor>& lora_a_out) {
  for (at::Tensor& one : lora_a_out) {
    if (one.defined() && one.storage().nbytes() > one.nbytes()) one = one.clone();
  }
}

at::Tensor through_parts(const PartCall& call, const at::Tensor& x, LayerTape* tape) {
  const std::vector<const LayerPart*>& parts = call.layer.parts;
  if (tape != nullptr) tape->assign(parts.size(), {});
  at::Tensor stream = x;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    PartTape* const own = tape == nullptr ? nullptr : &(*tape)[i];
    if (own != nullptr) own->stream = stream;
    stream = parts[i]->forward(call, stream, own);
    if (own != nullptr && !call.keeps_all()) keep_apart(own->lora_a_out);
  }
  return stream;
}

}  // namespace

at::Tensor fused_layer_forward(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                               const Segments& segments, RecomputeLevel recompute, LayerTape* tape) {
  const LayerNorms norms = norms_of(layer, pass.config, pass.context);
  return through_parts({layer, pass, norms, segments, layer.o.weight.dtype(), recompute}, x, tape);
}

at::Tensor fused_layer_step(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                            const Segments& segments, const std::vector<StepCache>& caches) {
  base::require(segments.size() == caches.size(), "explicit_layer_step", "one cache a sequence");
  const LayerNorms norms = norms_of(layer, pass.config, pass.context);
  PartCall call{layer, pass, norms, segments, layer.o.weight.dtype()};
  call.caches = &caches;
  call.onto_stream = ops::pools_keys(x.device());
  return through_parts(call, x, nullptr);
}

void fused_layer_backward(const DecoderLayer& layer, const LayerPass& pass, const Segments& segments,
                          LayerTape& tape, at::Tensor& d, bool input_gradient) {
  base::require(tape.size() == layer.parts.size(), "explicit_layer_backward",
                "the tape of the forward before it");
  const LayerNorms norms = norms_of(layer, pass.config, pass.context);
  PartCall call{layer, pass, norms, segments, layer.o.weight.dtype()};
  for (std::size_t i = layer.parts.size(); i-- > 0;) {
    // The layer below is taken to end with the same part. Where it does not, a cast is made once more.
    const LayerPart* const below = i > 0 ? layer.parts[i - 1] : layer.parts.back();
    call.next = below->last(layer);
    call.input_gradient = i > 0 || input_gradient;
    layer.parts[i]->backward(call, tape[i], d);
    tape[i] = {};
  }
  tape.clear();
}

}  // namespace hone::model
