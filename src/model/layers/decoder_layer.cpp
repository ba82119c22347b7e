#include "model/layers/decoder_layer.h"

#include <ATen/ATen.h>

#include "model/layers/mixer_call.h"
#include "ops/join/join.h"
#include "ops/rms_norm.h"
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

at::Tensor per_layer_part(const at::Tensor& inputs, std::int64_t number, const ModelConfig& config) {
  return inputs.narrow(1, number * config.per_layer_width, config.per_layer_width);
}

std::vector<at::Tensor> outputs_of(const std::vector<ops::Linear>& linears, const at::Tensor& x,
                                   const ops::PassContext& pass, const std::vector<std::int64_t>& widths) {
  if (linears.size() == 1) return ops::linear_forward(linears.front(), x, pass).split_with_sizes(widths, 1);
  std::vector<at::Tensor> out;
  for (const ops::Linear& linear : linears) out.push_back(ops::linear_forward(linear, x, pass));
  return out;
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
  const at::Tensor attn_out =
      layer.mixer->autograd({layer, config, norms, ropes, pass, segments, beside}, normed);
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
