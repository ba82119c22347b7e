// A layer's own input (model/layers/per_layer.h) adds this after the MLP:
//   norm(projection(act(gate(x)) * input))
// The layer's scale multiplies the stream at the end.
//
// Shapes: T tokens, H hidden, P columns of the input.
#include <ATen/ATen.h>

#include <utility>

#include "model/config/families.h"
#include "model/layers/mixer_call.h"
#include "model/layers/part_call.h"
#include "model/parts/parts.h"
#include "ops/fused_linear.h"
#include "ops/swiglu.h"

namespace hone::model {
namespace {

at::Tensor input_of(const PartCall& call) {
  return per_layer_part(call.pass.per_layer, call.layer.number, call.pass.config);
}

// [T, P] act(gate) * the layer's own input.
at::Tensor opened(const PartCall& call, const at::Tensor& gate) {
  at::Tensor out = at::empty_like(gate);
  ops::swiglu_into(out, gate, input_of(call), call.is_gelu());
  return out;
}

class OwnInput final : public LayerPart {
 public:
  bool has_linear(const ModelConfig& /*config*/, std::int64_t /*layer*/, ModuleKind kind) const override {
    return kind == ModuleKind::kPerLayerGate || kind == ModuleKind::kPerLayerProjection;
  }
  void shape(const ModelConfig& config, std::int64_t /*layer*/, LayerLinear& linear) const override {
    (linear.kind == ModuleKind::kPerLayerGate ? linear.out : linear.in) = config.per_layer_width;
  }

  void place(DecoderLayer& layer, const LayerLinear& what, ops::Linear linear) const override {
    if (!layer.per_layer) layer.per_layer.emplace();
    auto& [gate, projection] = *layer.per_layer;
    (what.kind == ModuleKind::kPerLayerGate ? gate : projection) = std::move(linear);
  }
  std::vector<std::vector<ops::Linear*>> readers(DecoderLayer& layer) const override {
    return {{&layer.per_layer->gate}, {&layer.per_layer->projection}};
  }

  PartColumns columns(const ModelConfig& config, std::int64_t /*layer*/) const override {
    return {.stream = config.hidden_size, .always = config.hidden_size + config.per_layer_width};
  }
  std::int64_t plain_bytes(const ModelConfig& config, std::int64_t /*layer*/, std::int64_t e) const override {
    return 2 * config.hidden_size * (4 + e) + config.per_layer_width * (3 * e + 4);
  }

  // The forward: a copy of the stream in the linears' dtype, the gate, opened. The backward: the same and
  // three gradients, when what the norm read is gone.
  PartScratch scratch(const ModelConfig& config, std::int64_t /*layer*/,
                      const PassShape& pass) const override {
    const std::int64_t stream = config.hidden_size * pass.residual, read = read_bytes(config, pass),
                       width = config.per_layer_width * pass.e;
    return {.forward = stream + read + 2 * width + added_bytes(config, pass) + stream,
            .backward = stream + output_gradient_bytes(config, pass) +
                        std::max(read + 3 * width + pass.first.dora, 2 * width + pass.last.dora)};
  }

  at::Tensor autograd(const AutogradCall& call, const at::Tensor& x) const override {
    const auto& [gate, projection] = *call.layer.per_layer;
    const at::Tensor input = per_layer_part(call.beside.per_layer, call.layer.number, call.config);
    const at::Tensor open = ops::swiglu(ops::linear_forward(gate, x, call.pass), input, call.is_gelu());
    return call.add(x, ops::linear_forward(projection, open, call.pass), NormPlace::kAfterPerLayer);
  }
  at::Tensor forward(const PartCall& call, const at::Tensor& x, PartTape* tape) const override {
    const auto& [gate, projection] = *call.layer.per_layer;
    std::vector<at::Tensor> lora_a_out;
    const at::Tensor read = x.to(call.dtype);
    call.lora_a_forwards({&gate, 1}, read, lora_a_out);
    at::Tensor of_gate = at::empty({read.size(0), gate.weight.out()}, read.options());
    ops::linear_into(of_gate, gate, read, lora_a_out.back(), call.pass.context);
    const at::Tensor product = opened(call, of_gate);
    call.lora_a_forwards({&projection, 1}, product, lora_a_out);
    at::Tensor out = call.add_linear(x, projection, product, lora_a_out.back(), NormPlace::kAfterPerLayer,
                                     tape == nullptr ? nullptr : &tape->branch);
    if (tape == nullptr) return out;
    tape->gate_up = of_gate;
    tape->lora_a_out = std::move(lora_a_out);
    return out;
  }
  void backward(const PartCall& call, PartTape& tape, at::Tensor& d) const override {
    const auto& [gate, projection] = *call.layer.per_layer;
    const at::Tensor d_out = call.linear_gradient(d, NormPlace::kAfterPerLayer, tape.branch);
    tape.branch.reset();
    const at::Tensor d_product =
        call.linears_gradient({&projection, 1}, tape.lora_a_out, 1, d_out, opened(call, tape.gate_up));
    const at::Tensor d_input = input_of(call).clone();
    ops::swiglu_backward(tape.gate_up, d_input, d_product, call.is_gelu());
    if (call.pass.d_per_layer.defined())
      per_layer_part(call.pass.d_per_layer, call.layer.number, call.pass.config).copy_(d_input);
    const at::Tensor read = tape.stream.to(call.dtype);
    tape.stream.reset();
    d.add_(call.linears_gradient({&gate, 1}, tape.lora_a_out, 0, tape.gate_up, read));
  }

  PartNorms norms() const override { return {.before = {}, .after = NormPlace::kAfterPerLayer}; }
  std::vector<PartStop> stops(const DecoderLayer& layer) const override {
    return {{&layer.per_layer->projection, &layer.per_layer->gate}};
  }
};

class Scale final : public LayerPart {
 public:
  void add_tensor(const ModelConfig& /*config*/, std::int64_t /*layer*/, const TensorRow& row,
                  std::vector<LayerTensor>& out) const override {
    if (row.kind != TensorKind::kLayerScale) return;
    LayerTensor& scale = out.emplace_back(LayerTensor{.kind = row.kind, .name = row.name, .shape = {1}});
    scale.of_stream = true;
  }
  PartColumns columns(const ModelConfig& /*config*/, std::int64_t /*layer*/) const override { return {}; }
  std::int64_t plain_bytes(const ModelConfig& /*config*/, std::int64_t /*layer*/,
                           std::int64_t /*e*/) const override {
    return 0;
  }
  PartScratch scratch(const ModelConfig& config, std::int64_t /*layer*/,
                      const PassShape& pass) const override {
    const std::int64_t stream = config.hidden_size * pass.residual;
    return {.forward = 2 * stream, .backward = stream};
  }

  at::Tensor autograd(const AutogradCall& call, const at::Tensor& x) const override {
    return x * call.layer.tensors[TensorKind::kLayerScale];
  }
  at::Tensor forward(const PartCall& call, const at::Tensor& x, PartTape* tape) const override {
    if (tape != nullptr) tape->stream.reset();  // the gradient does not need it
    return x * call.layer.tensors[TensorKind::kLayerScale];
  }
  void backward(const PartCall& call, PartTape& /*tape*/, at::Tensor& d) const override {
    if (call.pass.cast != nullptr) call.pass.cast->reset();
    d.mul_(call.layer.tensors[TensorKind::kLayerScale]);
  }
};

}  // namespace

const LayerPart& own_input_part() {
  static const OwnInput part;
  return part;
}

const LayerPart& scale_part() {
  static const Scale part;
  return part;
}

}  // namespace hone::model
