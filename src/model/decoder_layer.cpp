#include "model/decoder_layer.h"

#include <ATen/ATen.h>

#include "ops/rms_norm.h"
#include "ops/swiglu.h"

namespace hone::model {

LayerNorms norms_of(const DecoderLayer& layer, const ops::PassContext& pass) {
  const LayerNorms& trained = layer.trained;
  return {
      .input_norm = ops::trained_or(layer.input_norm, trained.input_norm, pass),
      .post_attention_norm = ops::trained_or(layer.post_attention_norm, trained.post_attention_norm, pass),
      .q_norm = ops::trained_or(layer.q_norm, trained.q_norm, pass),
      .k_norm = ops::trained_or(layer.k_norm, trained.k_norm, pass)};
}

at::Tensor decoder_layer(const DecoderLayer& layer, const ModelConfig& config, const at::Tensor& x,
                         const ops::RopeTable& rope, const ops::PassContext& pass, const Attend& attend) {
  const std::int64_t tokens = x.size(0), d = config.head_dim;
  const double eps = config.rms_norm_eps;
  const at::ScalarType dtype = layer.q.weight.dtype();

  const LayerNorms norms = norms_of(layer, pass);
  const at::Tensor normed = ops::rms_norm(x, norms.input_norm, eps);
  at::Tensor q = ops::linear_forward(layer.q, normed, pass).view({tokens, config.num_attention_heads, d});
  at::Tensor k = ops::linear_forward(layer.k, normed, pass).view({tokens, config.num_key_value_heads, d});
  const at::Tensor v =
      ops::linear_forward(layer.v, normed, pass).view({tokens, config.num_key_value_heads, d});
  if (norms.q_norm.defined()) q = ops::rms_norm(q, norms.q_norm, eps);
  if (norms.k_norm.defined()) k = ops::rms_norm(k, norms.k_norm, eps);
  const at::Tensor seen = attend(ops::rope_apply(q, rope).to(dtype), ops::rope_apply(k, rope).to(dtype), v);
  const at::Tensor attended = x + ops::linear_forward(layer.o, seen, pass);

  const at::Tensor normed_mlp = ops::rms_norm(attended, norms.post_attention_norm, eps);
  const at::Tensor gate = ops::linear_forward(layer.gate, normed_mlp, pass);
  const at::Tensor up = ops::linear_forward(layer.up, normed_mlp, pass);
  return attended + ops::linear_forward(layer.down, ops::swiglu(gate, up), pass);
}

}  // namespace hone::model
