#include "model/layers/decoder_layer.h"

#include <ATen/ATen.h>

#include <tuple>

#include "ops/join/join.h"
#include "ops/rms_norm.h"
#include "ops/short_conv.h"
#include "ops/sigmoid_gate.h"
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
  if (layer.per_layer) {
    all.push_back(&layer.per_layer->gate);
    all.push_back(&layer.per_layer->projection);
  }
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
at::Tensor normed_heads(const at::Tensor& flat, const at::Tensor& weight, std::int64_t head_dim,
                        const ModelConfig& config) {
  const std::vector<std::int64_t> shape = {flat.size(0), flat.size(1) / head_dim, head_dim};
  if (!weight.defined()) return flat.view(shape);
  if (weight.size(0) == head_dim) return ops::rms_norm(flat.view(shape), weight, config.rms_norm_eps);
  return ops::rms_norm(flat, weight, config.rms_norm_eps).view(shape);
}

at::Tensor rotated(const at::Tensor& x, const ops::RopeTable* rope) {
  return rope == nullptr ? x : ops::rope_apply(x, *rope);
}

// read [T, H] -> [T, N D]: what the layer's last linear before the MLP reads.
at::Tensor attended(const DecoderLayer& layer, const ModelConfig& config, const LayerNorms& norms,
                    const at::Tensor& read, const RopeTables& ropes, const ops::PassContext& pass,
                    const SegmentBorders& segments, const BesideStream& beside) {
  const LayerAttention& own = layer.attention;
  const std::int64_t d = own.head_dim, kv = own.kv_heads * d;
  const at::ScalarType dtype = layer.o.weight.dtype();
  std::vector<std::int64_t> widths = {config.num_attention_heads * d};
  if (own.has_keys()) widths.insert(widths.end(), 2, kv);
  std::vector<at::Tensor> parts = outputs_of(layer.qkv, read, pass, widths);
  at::Tensor gate;
  if (config.attention_gate) std::tie(parts[0], gate) = queries_and_gates(parts[0], config);
  const at::Tensor q = normed_heads(parts[0], norms[NormPlace::kQ], d, config);
  const LayerRopes rope = ropes_of(layer, ropes);
  at::Tensor k, v;
  if (own.has_keys()) {
    k = rotated(normed_heads(parts[1], norms[NormPlace::kK], d, config), rope.k).to(dtype);
    v = normed_heads(parts[2], norms[NormPlace::kV], d, config).to(dtype);
    if (own.is_shared) beside.shared->insert_or_assign(layer.number, std::pair(k, v));
  } else {
    std::tie(k, v) = beside.shared->at(own.shares);
  }
  const at::Tensor out =
      ops::packed_attention(rotated(q, rope.q).to(dtype), k, v, segments, attention_rule(layer, config));
  return gate.defined() ? ops::sigmoid_gate(out, gate) : out;
}

// The same of a delta rule: [T, V E].
at::Tensor delta_ruled(const DecoderLayer& layer, const ModelConfig& config, const at::Tensor& read,
                       const ops::PassContext& pass, const SegmentBorders& segments) {
  return ops::delta_rule(at::cat(outputs_of(layer.qkv, read, pass, {}), 1), delta_weights(layer, pass),
                         delta_shape(config), segments);
}

// The same of a short convolution: [T, H].
at::Tensor convolved(const DecoderLayer& layer, const at::Tensor& read, const ops::PassContext& pass,
                     const SegmentBorders& segments) {
  return ops::short_conv(ops::linear_forward(layer.qkv.front(), read, pass),
                         tensor_of(layer, TensorKind::kConvWeight, pass),
                         tensor_of(layer, TensorKind::kConvBias, pass), segments);
}

// x + what attention, the MLP or the layer's own input adds, after its norm and scale.
at::Tensor added(const at::Tensor& x, at::Tensor branch, const at::Tensor& norm_after,
                 const ModelConfig& config) {
  const at::ScalarType dtype = branch.scalar_type();
  if (norm_after.defined()) branch = ops::rms_norm(branch, norm_after, config.rms_norm_eps).to(dtype);
  if (config.residual_scale != 1) branch = branch * config.residual_scale;
  return x + branch;
}

// The stream after the MLP with what the layer's own input adds, times the layer's scale.
at::Tensor finished(const DecoderLayer& layer, const ModelConfig& config, const LayerNorms& norms,
                    at::Tensor x, const ops::PassContext& pass, const BesideStream& beside) {
  if (layer.per_layer) {
    const auto& [gate, projection] = *layer.per_layer;
    const at::Tensor input = per_layer_part(beside.per_layer, layer.number, config);
    const at::Tensor opened =
        ops::swiglu(ops::linear_forward(gate, x, pass), input, config.activation == Activation::kGeluTanh);
    x = added(x, ops::linear_forward(projection, opened, pass), norms[NormPlace::kAfterPerLayer], config);
  }
  const at::Tensor& scale = layer.tensors[TensorKind::kLayerScale];
  return scale.defined() ? x * scale : x;
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

void join_linears(DecoderLayer& layer) {
  const auto join = [](std::vector<ops::Linear>& group) {
    std::vector<ops::Linear*> linears;
    for (ops::Linear& linear : group) linears.push_back(&linear);
    ops::Join::make(linears);
  };
  const auto alone = [](ops::Linear* linear) { ops::Join::make({&linear, 1}); };
  join(layer.qkv);
  alone(&layer.o);
  if (layer.experts) return;
  join(layer.gate_up);
  alone(&layer.down);
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

ops::DeltaShape delta_shape(const ModelConfig& config) {
  const DeltaRule& d = config.delta;
  return {.key_heads = d.key_heads,
          .value_heads = d.value_heads,
          .key_dim = d.key_dim,
          .value_dim = d.value_dim,
          .eps = config.rms_norm_eps};
}

ops::DeltaWeights delta_weights(const DecoderLayer& layer, const ops::PassContext& pass) {
  const auto one = [&](TensorKind kind) { return tensor_of(layer, kind, pass); };
  return {.conv = one(TensorKind::kDeltaConv),
          .a_log = one(TensorKind::kDeltaALog),
          .dt_bias = one(TensorKind::kDeltaDtBias),
          .norm = one(TensorKind::kDeltaNorm)};
}

std::pair<at::Tensor, at::Tensor> queries_and_gates(const at::Tensor& both, const ModelConfig& config) {
  const at::Tensor heads = both.unflatten(1, {config.num_attention_heads, 2, config.head_dim});
  return {heads.select(2, 0).flatten(1), heads.select(2, 1).flatten(1)};
}

ops::AttentionRule attention_rule(const DecoderLayer& layer, const ModelConfig& config) {
  return {.window = layer.attention.window,
          .scale = config.attention_scale,
          .soft_cap = config.attention_soft_cap};
}

at::Tensor per_layer_part(const at::Tensor& inputs, std::int64_t number, const ModelConfig& config) {
  return inputs.narrow(1, number * config.per_layer_width, config.per_layer_width);
}

LayerRopes ropes_of(const DecoderLayer& layer, const RopeTables& ropes) {
  const std::int64_t rotation = layer.attention.rotation;
  const ops::RopeTable* const none = ropes.none.cos.defined() ? &ropes.none : nullptr;
  if (rotation == kNoRotation) return {none, none, none};
  const ops::RopeTable* const own = &ropes.tables.at(static_cast<std::size_t>(rotation));
  const bool scaled = rotation == kMainRotation && ropes.queries.cos.defined();
  return {scaled ? &ropes.queries : own, own, none};
}

at::Tensor decoder_layer(const DecoderLayer& layer, const ModelConfig& config, const at::Tensor& x,
                         const RopeTables& ropes, const ops::PassContext& pass,
                         const SegmentBorders& segments, RouterLoad* load, const BesideStream& beside) {
  const double eps = config.rms_norm_eps;
  const LayerNorms norms = norms_of(layer, config, pass);
  const auto before = [&](const at::Tensor& stream, NormPlace place) {
    return norms[place].defined() ? ops::rms_norm(stream, norms[place], eps) : stream;
  };

  const at::Tensor normed = before(x, NormPlace::kBeforeAttention);
  at::Tensor attn_out;
  if (layer.kind == LayerKind::kDeltaRule) {
    attn_out = delta_ruled(layer, config, normed, pass, segments);
  } else {
    attn_out = layer.kind == LayerKind::kShortConv
                   ? convolved(layer, normed, pass, segments)
                   : attended(layer, config, norms, normed, ropes, pass, segments, beside);
  }
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
  const at::Tensor out = added(post_attn_residual, ops::linear_forward(layer.down, product, pass),
                               norms[NormPlace::kAfterMlp], config);
  return finished(layer, config, norms, out, pass, beside);
}

}  // namespace hone::model
