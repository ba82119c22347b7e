#include "model/layers/decoder_layer.h"

#include <ATen/ATen.h>

#include "model/layers/mixer_call.h"
#include "ops/join/join.h"
#include "ops/rms_norm.h"

namespace hone::model {
namespace {

// The parts give what they have in order to change it; a constant layer gives it on to be read.
DecoderLayer& to_be_read(const DecoderLayer& layer) {
  return const_cast<DecoderLayer&>(layer);  // NOLINT(cppcoreguidelines-pro-type-const-cast): see above
}

}  // namespace

std::vector<ops::Linear*> DecoderLayer::linears() {
  std::vector<ops::Linear*> all;
  for (const LayerPart* const part : parts) {
    const std::vector<ops::Linear*> own = part->linears(*this);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

std::vector<const ops::Linear*> DecoderLayer::linears() const {
  const std::vector<ops::Linear*> all = to_be_read(*this).linears();
  return {all.begin(), all.end()};
}

std::vector<const ops::Linear*> DecoderLayer::linears(const LayerPart& part) const {
  const std::vector<ops::Linear*> all = part.linears(to_be_read(*this));
  return {all.begin(), all.end()};
}

std::vector<std::vector<const ops::Linear*>> DecoderLayer::readers(const LayerPart& part) const {
  std::vector<std::vector<const ops::Linear*>> out;
  for (const std::vector<ops::Linear*>& group : part.readers(to_be_read(*this)))
    out.emplace_back(group.begin(), group.end());
  return out;
}

std::vector<std::vector<const ops::Linear*>> DecoderLayer::readers() const {
  std::vector<std::vector<const ops::Linear*>> all;
  for (const LayerPart* const part : parts) {
    for (std::vector<const ops::Linear*>& group : readers(*part)) all.push_back(std::move(group));
  }
  return all;
}

std::vector<LinearStack> DecoderLayer::stacks(const LayerPart& part) const {
  return part.stacks(to_be_read(*this));
}

std::vector<LinearStack> DecoderLayer::stacks() {
  std::vector<LinearStack> all;
  for (const LayerPart* const part : parts) {
    for (LinearStack& stack : part->stacks(*this)) all.push_back(std::move(stack));
  }
  return all;
}

std::vector<LinearStack> DecoderLayer::stacks() const {
  return to_be_read(*this).stacks();
}

at::Tensor norm_weight(const at::Tensor& stored, const ModelConfig& config) {
  return config.norm_adds_one && stored.defined() ? stored.to(at::kFloat) + 1 : stored;
}

void join_linears(DecoderLayer& layer) {
  for (const LayerPart* const part : layer.parts) {
    if (!part->joins()) continue;
    for (const std::vector<ops::Linear*>& group : part->readers(layer)) ops::Join::make(group);
  }
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

at::Tensor AutogradCall::read(const at::Tensor& stream, NormPlace place) const {
  return norms[place].defined() ? ops::rms_norm(stream, norms[place], config.rms_norm_eps) : stream;
}

at::Tensor AutogradCall::add(const at::Tensor& x, at::Tensor branch, NormPlace norm_after) const {
  const at::ScalarType dtype = branch.scalar_type();
  if (const at::Tensor& weight = norms[norm_after]; weight.defined())
    branch = ops::rms_norm(branch, weight, config.rms_norm_eps).to(dtype);
  if (config.residual_scale != 1) branch = branch * config.residual_scale;
  return x + branch;
}

at::Tensor decoder_layer(const DecoderLayer& layer, const ModelConfig& config, const at::Tensor& x,
                         const RopeTables& ropes, const ops::PassContext& pass,
                         const SegmentBorders& segments, RouterLoad* load, const BesideStream& beside) {
  const LayerNorms norms = norms_of(layer, config, pass);
  const AutogradCall call{layer, config, norms, ropes, pass, segments, beside, load};
  at::Tensor stream = x;
  for (const LayerPart* const part : layer.parts) stream = part->autograd(call, stream);
  return stream;
}

}  // namespace hone::model
