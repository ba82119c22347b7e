// Inputs that each layer has of its own besides the residual stream: Gemma 4's per-layer embeddings (transformers 5.23,
// Gemma4TextModel.get_per_layer_inputs and project_per_layer_inputs). Of token t they are
//
//   2^-1/2 (norm(H^-1/2 W x_t) + P^1/2 E[t])     the norm over the P columns of each layer
//
// in autograd form and fused. What a layer does with its part is in decoder_layer.h.
//
// Shapes: T tokens, H hidden, L layers, P columns of a layer, V' the vocabulary of these inputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "model/config/model_config.h"
#include "model/layers/decoder_layer.h"
#include "ops/linear.h"
#include "ops/weight.h"

namespace hone::model {

struct PerLayerInputs {
  ops::Weight embedding;   // E, [V', L P]
  ops::Linear projection;  // W, [L P, H]
  at::Tensor norm;         // [P] in the residual's dtype
  // fp32, each in the place of its namesake while adapters are on; or undefined
  at::Tensor trained_embedding, trained_norm;

  // Returns whether a gradient of the inputs is wanted for parts of their own.
  bool is_trained() const {
    return projection.lora || projection.trained_weight.defined() || projection.trained_bias.defined() ||
           trained_embedding.defined() || trained_norm.defined();
  }
};

// Holds what they are made of in one pass.
struct PerLayerSource {
  const ModelConfig& config;
  const DtypePolicy& dtypes;
  const std::vector<std::int64_t>& ids;  // of the tokens, below V'
  const ops::PassContext& pass;
};

// x [T, H], the stream that the first layer reads -> [T, L P] in the residual's dtype. Differentiable in x, in the LoRA of
// the projection and in what is trained. As transformers' embedding has it, the row of pad_token_id gets no gradient.
at::Tensor per_layer_inputs(const PerLayerInputs& inputs, const PerLayerSource& source, const at::Tensor& x);

// ---- the fused form

// Holds what its backward reads.
struct PerLayerTape {
  at::Tensor read;        // [T, H] in the linears' dtype
  at::Tensor projected;   // [T, L P], what the norm reads
  at::Tensor lora_a_out;  // [T, r]; undefined without LoRA
};

// The same in the linears' dtype, without autograd; a row's bits do not depend on the others. `tape` may be null.
at::Tensor fused_per_layer_inputs(const PerLayerInputs& inputs, const PerLayerSource& source,
                                  const at::Tensor& x, PerLayerTape* tape);

// d [T, L P] is the gradient of the result. Adds to the .grad of all that is trained, and to dx [T, H], the gradient of x
// (undefined: not wanted). Adapters are on.
void fused_per_layer_backward(const PerLayerInputs& inputs, const PerLayerSource& source, const at::Tensor& d,
                              const PerLayerTape& tape, const at::Tensor& dx);

}  // namespace hone::model
