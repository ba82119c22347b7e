#include "model/decoder_layer.h"

#include <ATen/ATen.h>

#include "ops/rms_norm.h"
#include "ops/short_conv.h"
#include "ops/swiglu.h"

namespace hone::model {
namespace {

template <typename Layer, typename Linear>
std::vector<Linear*> linears_of(Layer& layer) {
  std::vector<Linear*> all;
  for (auto& linear : layer.qkv) all.push_back(&linear);
  all.push_back(&layer.o);
  if (layer.experts) {
    for (Linear* linear : layer.experts->linears()) all.push_back(linear);
    return all;
  }
  for (auto& linear : layer.gate_up) all.push_back(&linear);
  all.push_back(&layer.down);
  return all;
}

// The linears' outputs [T, width of each part]; a linear that holds several is cut.
std::vector<at::Tensor> outputs_of(const std::vector<ops::Linear>& linears, const at::Tensor& x,
                                   const ops::PassContext& pass, const std::vector<std::int64_t>& widths) {
  if (linears.size() == 1) return ops::linear_forward(linears.front(), x, pass).split_with_sizes(widths, 1);
  std::vector<at::Tensor> out;
  for (const ops::Linear& linear : linears) out.push_back(ops::linear_forward(linear, x, pass));
  return out;
}

// [T, heads D] -> [T, heads, D], with the norm that the projection or each head has.
at::Tensor normed_heads(const at::Tensor& flat, const at::Tensor& weight, const ModelConfig& config) {
  const std::vector<std::int64_t> shape = {flat.size(0), flat.size(1) / config.head_dim, config.head_dim};
  if (!weight.defined()) return flat.view(shape);
  if (weight.size(0) == config.head_dim) return ops::rms_norm(flat.view(shape), weight, config.rms_norm_eps);
  return ops::rms_norm(flat, weight, config.rms_norm_eps).view(shape);
}

at::Tensor rotated(const at::Tensor& x, const ops::RopeTable* rope) {
  return rope == nullptr ? x : ops::rope_apply(x, *rope);
}

// read [T, H] -> [T, N D]: what the layer's last linear before the MLP reads.
at::Tensor attended(const DecoderLayer& layer, const ModelConfig& config, const LayerNorms& norms,
                    const at::Tensor& read, const RopeTables& ropes, const ops::PassContext& pass,
                    const SegmentBorders& segments) {
  const std::int64_t d = config.head_dim, kv = config.num_key_value_heads * d;
  const at::ScalarType dtype = layer.o.weight.dtype();
  const std::vector<at::Tensor> parts =
      outputs_of(layer.qkv, read, pass, {config.num_attention_heads * d, kv, kv});
  const at::Tensor q = normed_heads(parts[0], norms[NormPlace::kQ], config);
  const at::Tensor k = normed_heads(parts[1], norms[NormPlace::kK], config);
  const at::Tensor v = parts[2].view({read.size(0), config.num_key_value_heads, d});
  const LayerRopes rope = ropes_of(layer, ropes);
  return ops::packed_attention(rotated(q, rope.q).to(dtype), rotated(k, rope.k).to(dtype), v, segments,
                               attention_rule(layer, config));
}

// The same of a short convolution: [T, H].
at::Tensor convolved(const DecoderLayer& layer, const at::Tensor& read, const ops::PassContext& pass,
                     const SegmentBorders& segments) {
  return ops::short_conv(ops::linear_forward(layer.qkv.front(), read, pass),
                         tensor_of(layer, TensorKind::kConvWeight, pass),
                         tensor_of(layer, TensorKind::kConvBias, pass), segments);
}

// x + what attention or the MLP adds, after its norm and scale.
at::Tensor added(const at::Tensor& x, at::Tensor branch, const at::Tensor& norm_after,
                 const ModelConfig& config) {
  const at::ScalarType dtype = branch.scalar_type();
  if (norm_after.defined()) branch = ops::rms_norm(branch, norm_after, config.rms_norm_eps).to(dtype);
  if (config.residual_scale != 1) branch = branch * config.residual_scale;
  return x + branch;
}

}  // namespace

std::vector<ops::Linear*> DecoderLayer::linears() {
  return linears_of<DecoderLayer, ops::Linear>(*this);
}

std::vector<const ops::Linear*> DecoderLayer::linears() const {
  return linears_of<const DecoderLayer, const ops::Linear>(*this);
}

at::Tensor norm_weight(const at::Tensor& stored, const ModelConfig& config) {
  return config.norm_adds_one && stored.defined() ? stored.to(at::kFloat) + 1 : stored;
}

LayerNorms norms_of(const DecoderLayer& layer, const ModelConfig& config, const ops::PassContext& pass) {
  LayerNorms out;
  for (std::size_t i = 0; i < kNormPlaces; ++i) {
    const at::Tensor& trained = layer.trained.weights[i];
    out.weights[i] = trained.defined() && pass.adapters_on
                         ? norm_weight(ops::trained_or(layer.stored.weights[i], trained, pass), config)
                         : layer.norms.weights[i];
  }
  return out;
}

at::Tensor tensor_of(const DecoderLayer& layer, TensorKind kind, const ops::PassContext& pass) {
  return ops::trained_or(layer.tensors[kind], layer.trained_tensors[kind], pass);
}

ops::AttentionRule attention_rule(const DecoderLayer& layer, const ModelConfig& config) {
  return {.window = layer.attention.window,
          .scale = config.attention_scale,
          .soft_cap = config.attention_soft_cap};
}

LayerRopes ropes_of(const DecoderLayer& layer, const RopeTables& ropes) {
  const std::int64_t rotation = layer.attention.rotation;
  if (rotation == kNoRotation) return {};
  const ops::RopeTable* const own = &ropes.tables.at(static_cast<std::size_t>(rotation));
  const bool scaled = rotation == kMainRotation && ropes.queries.cos.defined();
  return {scaled ? &ropes.queries : own, own};
}

at::Tensor decoder_layer(const DecoderLayer& layer, const ModelConfig& config, const at::Tensor& x,
                         const RopeTables& ropes, const ops::PassContext& pass,
                         const SegmentBorders& segments, RouterLoad* load) {
  const double eps = config.rms_norm_eps;
  const LayerNorms norms = norms_of(layer, config, pass);
  const auto before = [&](const at::Tensor& stream, NormPlace place) {
    return norms[place].defined() ? ops::rms_norm(stream, norms[place], eps) : stream;
  };

  const at::Tensor normed = before(x, NormPlace::kBeforeAttention);
  const at::Tensor attn_out = layer.kind == LayerKind::kShortConv
                                  ? convolved(layer, normed, pass, segments)
                                  : attended(layer, config, norms, normed, ropes, pass, segments);
  const at::Tensor post_attn_residual =
      added(x, ops::linear_forward(layer.o, attn_out, pass), norms[NormPlace::kAfterAttention], config);

  const at::Tensor read = before(post_attn_residual, NormPlace::kBeforeMlp);
  if (layer.experts) {
    return added(post_attn_residual, sparse_mlp(*layer.experts, config, read, pass, load),
                 norms[NormPlace::kAfterMlp], config);
  }
  const std::int64_t width = layer.down.weight.in();
  const std::vector<at::Tensor> gates = outputs_of(layer.gate_up, read, pass, {width, width});
  const at::Tensor product = ops::swiglu(gates[0], gates[1], config.activation == Activation::kGeluTanh);
  return added(post_attn_residual, ops::linear_forward(layer.down, product, pass),
               norms[NormPlace::kAfterMlp], config);
}

}  // namespace hone::model
