#include "model/layers/per_layer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "ops/fused_linear.h"
#include "ops/index_tensor.h"
#include "ops/rms_norm.h"
#include "ops/routed_rows.h"

namespace hone::model {
namespace {

const double kHalf = std::sqrt(0.5);  // 2^-1/2

double projection_scale(const ModelConfig& config) {
  return 1 / std::sqrt(static_cast<double>(config.hidden_size));
}

// As transformers' Gemma4TextScaledWordEmbedding has it: rounded to the embedding's dtype.
double embedding_scale(const PerLayerSource& source) {
  const double scale = std::sqrt(static_cast<double>(source.config.per_layer_width));
  return at::scalar_tensor(scale, source.dtypes.residual).item<double>();
}

std::int64_t padding_row(const ModelConfig& config) {
  return config.padding_row(config.per_layer_vocab);
}

// P^1/2 E[t], [T, L P] in the residual's dtype.
at::Tensor looked_up(const PerLayerInputs& inputs, const PerLayerSource& source, at::Device device) {
  const at::Tensor index = ops::index_tensor(source.ids, device);
  const at::Tensor& trained = inputs.trained_embedding;
  const bool reads_trained =
      trained.defined() && (source.pass.adapters_on || !inputs.embedding.has_numbers());
  const at::Tensor rows = reads_trained ? at::embedding(trained, index, padding_row(source.config))
                                        : inputs.embedding.rows(index);
  return rows.to(source.dtypes.residual) * embedding_scale(source);
}

at::Tensor norm_of(const PerLayerInputs& inputs, const ops::PassContext& pass) {
  return ops::trained_or(inputs.norm, inputs.trained_norm, pass);
}

// [T, L P] -> [T L, P]
at::Tensor by_layer(const at::Tensor& x, const ModelConfig& config) {
  return x.reshape({-1, config.per_layer_width});
}

}  // namespace

at::Tensor per_layer_inputs(const PerLayerInputs& inputs, const PerLayerSource& source, const at::Tensor& x) {
  const ModelConfig& config = source.config;
  const at::Tensor projected =
      ops::linear_forward(inputs.projection, x, source.pass) * projection_scale(config);
  const at::Tensor normed =
      ops::rms_norm(by_layer(projected, config), norm_of(inputs, source.pass), config.rms_norm_eps)
          .to(projected.scalar_type())
          .view_as(projected);
  return (normed + looked_up(inputs, source, x.device())) * kHalf;
}

at::Tensor fused_per_layer_inputs(const PerLayerInputs& inputs, const PerLayerSource& source,
                                  const at::Tensor& x, PerLayerTape* tape) {
  const ModelConfig& config = source.config;
  const ops::Linear& projection = inputs.projection;
  const at::Tensor read = x.to(source.dtypes.linear);
  const at::Tensor lora_a_out = ops::lora_a_forward(projection, read, source.pass);
  at::Tensor projected = at::empty({x.size(0), projection.weight.out()}, read.options());
  ops::linear_into(projected, projection, read, lora_a_out, source.pass);
  projected.mul_(projection_scale(config));
  at::Tensor normed = at::empty_like(projected);
  ops::rms_norm_into(by_layer(normed, config), by_layer(projected, config), norm_of(inputs, source.pass),
                     config.rms_norm_eps);
  if (tape != nullptr) *tape = {.read = read, .projected = projected, .lora_a_out = lora_a_out};
  return ((normed + looked_up(inputs, source, x.device())) * kHalf).to(source.dtypes.linear);
}

void fused_per_layer_backward(const PerLayerInputs& inputs, const PerLayerSource& source, const at::Tensor& d,
                              const PerLayerTape& tape, const at::Tensor& dx) {
  const ModelConfig& config = source.config;
  const at::Tensor scaled = d * kHalf;
  if (inputs.trained_embedding.defined()) {
    std::vector<std::int64_t> tokens, rows;
    for (std::size_t t = 0; t < source.ids.size(); ++t) {
      if (source.ids[t] == padding_row(config)) continue;
      tokens.push_back(static_cast<std::int64_t>(t));
      rows.push_back(source.ids[t]);
    }
    const at::Tensor of_rows = scaled.index_select(0, ops::index_tensor(tokens, d.device())).to(at::kFloat);
    ops::add_rows(inputs.trained_embedding.grad(), of_rows * embedding_scale(source), rows);
  }
  const at::Tensor d_normed = by_layer(scaled, config), projected = by_layer(tape.projected, config);
  if (inputs.trained_norm.defined())
    ops::rms_norm_weight_gradient(inputs.trained_norm.grad(), d_normed, projected, config.rms_norm_eps);
  at::Tensor d_projected = at::zeros_like(tape.projected);
  ops::rms_norm_backward_add(by_layer(d_projected, config), d_normed, projected, norm_of(inputs, source.pass),
                             config.rms_norm_eps);
  d_projected.mul_(projection_scale(config));
  at::Tensor d_read = dx.defined() ? at::empty_like(tape.read) : at::Tensor();
  ops::linears_backward(d_read,
                        std::vector<ops::LinearGradient>{{&inputs.projection, d_projected, tape.lora_a_out}},
                        tape.read, source.pass);
  if (dx.defined()) at::Tensor(dx).add_(d_read);
}

}  // namespace hone::model
