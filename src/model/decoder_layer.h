// The pre-norm decoder layer of Llama, Qwen2 and Qwen3 in autograd form (transformers modeling_llama, 5.23).
//
// Shapes: T tokens, H hidden, N heads, K kv heads, D head_dim, I intermediate.
//
// Precision under {linear bf16, residual fp32} follows what CPU autocast does to transformers' layer: norms
// in fp32; each linear rounds its input to bf16 and gives bf16; q and k become fp32 again in q_norm's weight
// and in the rotation (cos and sin have the residual's dtype); attention runs in bf16; silu(gate) * up stays
// in bf16; the residual adds in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "model/model_config.h"
#include "ops/linear.h"
#include "ops/rope.h"

namespace hone::model {

// How weights are stored and multiplied; config::Precision as dtypes: kFloat32 {float, float}, kAutocast
// {bfloat16, float}, kBFloat16 {bfloat16, bfloat16}.
struct DtypePolicy {
  at::ScalarType linear =
      at::kFloat;  // linears as they are multiplied (trained ones have fp32 masters), attention
  at::ScalarType residual = at::kFloat;  // embedding, norms, residual stream
  bool float_head = false;               // the head's matrix and products in fp32: TRL's cast_lm_head_to_fp32

  at::ScalarType head() const { return float_head ? at::kFloat : linear; }
};

struct LayerNorms {
  at::Tensor input_norm, post_attention_norm;  // [H]
  at::Tensor q_norm, k_norm;                   // [D] or undefined
};

struct DecoderLayer : LayerNorms {
  LayerNorms trained;  // fp32: each takes the place of its namesake while adapters are on; or undefined
  ops::Linear q, k, v, o, gate, up, down;

  // Module order of Hugging Face's files: q, k, v, o, gate, up, down.
  std::vector<ops::Linear*> linears() { return {&q, &k, &v, &o, &gate, &up, &down}; }
  std::vector<const ops::Linear*> linears() const { return {&q, &k, &v, &o, &gate, &up, &down}; }
};

// The norms of this pass, in the base's dtype; differentiable in the trained ones.
LayerNorms norms_of(const DecoderLayer& layer, const ops::PassContext& pass);

// Rotated q [T, N, D], rotated k and v [T, K, D], in the linears' dtype -> [T, N * D].
using Attend = std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;

// x [T, H] -> [T, H] in the residual's dtype. `attend` computes the attention. Differentiable in x, the LoRA
// weights, the trained norms, weights and biases.
at::Tensor decoder_layer(const DecoderLayer& layer, const ModelConfig& config, const at::Tensor& x,
                         const ops::RopeTable& rope, const ops::PassContext& pass, const Attend& attend);

}  // namespace hone::model
