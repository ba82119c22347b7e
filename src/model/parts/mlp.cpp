// An MLP with a gate: down(act(gate(x)) * up(x)).
//
// Shapes: T tokens, H hidden, I intermediate.
#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>

#include "model/config/families.h"
#include "model/layers/mixer_call.h"
#include "model/layers/part_call.h"
#include "model/parts/parts.h"
#include "ops/join/join.h"
#include "ops/swiglu.h"

namespace hone::model {
namespace {

std::pair<at::Tensor, at::Tensor> gate_and_up(const at::Tensor& concat) {
  const std::int64_t half = concat.size(1) / 2;
  return {concat.narrow(1, 0, half), concat.narrow(1, half, half)};
}

// [T, I] act(gate) * up of gate | up [T, 2 I].
at::Tensor product_of(const PartCall& call, const at::Tensor& gate_up) {
  at::Tensor out = ops::input_rows({&call.layer.down, 1}, gate_up.size(0), gate_up.options());
  const auto [gate, up] = gate_and_up(gate_up);
  ops::swiglu_into(out, gate, up, call.is_gelu());
  return out;
}

class Mlp final : public LayerPart {
 public:
  bool has_linear(const ModelConfig& /*config*/, std::int64_t /*layer*/, ModuleKind kind) const override {
    return kind == ModuleKind::kGate || kind == ModuleKind::kUp || kind == ModuleKind::kGateUp ||
           kind == ModuleKind::kDown;
  }
  void shape(const ModelConfig& config, std::int64_t layer, LayerLinear& linear) const override {
    const std::int64_t width = config.mlp_of(layer);
    linear.bias = config.mlp_bias;
    if (linear.kind == ModuleKind::kDown) {
      linear.in = width;
    } else {
      linear.out = linear.kind == ModuleKind::kGateUp ? 2 * width : width;
    }
  }

  void place(DecoderLayer& layer, const LayerLinear& what, ops::Linear linear) const override {
    if (what.kind == ModuleKind::kDown) {
      layer.down = std::move(linear);
    } else {
      layer.gate_up.push_back(std::move(linear));
    }
  }
  std::vector<std::vector<ops::Linear*>> readers(DecoderLayer& layer) const override {
    std::vector<ops::Linear*> before;
    for (ops::Linear& linear : layer.gate_up) before.push_back(&linear);
    return {before, {&layer.down}};
  }
  bool joins() const override { return true; }
  const ops::Linear* last(const DecoderLayer& layer) const override { return &layer.down; }

  PartColumns columns(const ModelConfig& config, std::int64_t layer) const override {
    const std::int64_t width = config.mlp_of(layer), hidden = config.hidden_size;
    return {.stream = hidden,
            .always = config.norms_after ? hidden : 0,
            .unless_layer = 2 * width,
            .only_none = width,
            .read = hidden,
            .inner = width,
            .step = 3 * width};
  }
  std::int64_t plain_bytes(const ModelConfig& config, std::int64_t layer, std::int64_t e) const override {
    return (config.norms_after ? 2 : 1) * 4 * config.hidden_size + 3 * config.mlp_of(layer) * e;
  }

  PartScratch scratch(const ModelConfig& config, std::int64_t layer, const PassShape& pass) const override {
    const std::int64_t width = config.mlp_of(layer) * pass.e, hidden = config.hidden_size * pass.e,
                       stream = config.hidden_size * pass.residual, read = read_bytes(config, pass),
                       dropped = config.mlp_of(layer) * pass.last.dropped;
    // The product is read where something of the last linear is trained.
    const bool is_read = pass.last.any || pass.trains_weights;
    // First come the product and its gradient. With dropout there is the side's too, after what the side
    // read; for the gradient of weights, what it multiplies, transposed.
    const std::int64_t last = (is_read && !pass.keeps_all ? 2 : 1) * width +
                              std::max(dropped > 0 ? width : 0, dropped) + (pass.trains_weights ? width : 0) +
                              pass.last.dora;
    // Then the product is gone, and the gradient of what the part read is made.
    const std::int64_t first =
        hidden + std::max(pass.first.dropped > 0 ? hidden : 0, config.hidden_size * pass.first.dropped) +
        pass.first.dora - (pass.keeps_all ? width : 0);
    return {.forward = stream + read + width + dropped + std::max(pass.first.sums, pass.last.sums) +
                       std::max(2 * width, added_bytes(config, pass) + stream),
            .backward = stream + (pass.keeps_all ? 0 : read) + (pass.keeps_some ? 0 : 2 * width) +
                        output_gradient_bytes(config, pass) + std::max(last, first)};
  }

  at::Tensor autograd(const AutogradCall& call, const at::Tensor& x) const override {
    const DecoderLayer& layer = call.layer;
    const std::int64_t width = layer.down.weight.in();
    const std::vector<at::Tensor> gates =
        outputs_of(layer.gate_up, call.read(x, NormPlace::kBeforeMlp), call.pass, {width, width});
    const at::Tensor product = ops::swiglu(gates[0], gates[1], call.is_gelu());
    return call.add(x, ops::linear_forward(layer.down, product, call.pass), NormPlace::kAfterMlp);
  }
  at::Tensor forward(const PartCall& call, const at::Tensor& x, PartTape* tape) const override {
    const DecoderLayer& layer = call.layer;
    std::vector<at::Tensor> lora_a_out;
    const at::Tensor read = call.read(x, NormPlace::kBeforeMlp, layer.gate_up);
    call.lora_a_forwards(layer.gate_up, read, lora_a_out);
    at::Tensor gate_up = call.multiply(layer.gate_up, read, lora_a_out, 0);
    const at::Tensor product = product_of(call, gate_up);
    call.lora_a_forwards({&layer.down, 1}, product, lora_a_out);
    if (tape != nullptr) {
      if (call.keeps_all()) {
        tape->read = read;
        tape->product = product;
      }
      if (call.keeps_some()) tape->gate_up = gate_up;
    }
    gate_up.reset();
    at::Tensor out = call.add_linear(x, layer.down, product, lora_a_out.back(), NormPlace::kAfterMlp,
                                     tape == nullptr ? nullptr : &tape->branch);
    if (tape != nullptr) tape->lora_a_out = std::move(lora_a_out);
    return out;
  }
  void backward(const PartCall& call, PartTape& tape, at::Tensor& d) const override {
    const DecoderLayer& layer = call.layer;
    const std::size_t of_down = layer.gate_up.size();
    if (!tape.read.defined()) tape.read = call.read(tape.stream, NormPlace::kBeforeMlp, layer.gate_up);
    if (!tape.gate_up.defined()) tape.gate_up = call.multiply(layer.gate_up, tape.read, tape.lora_a_out, 0);
    const bool product_wanted = tape.lora_a_out[of_down].defined() || layer.down.trained_weight.defined();
    if (!tape.product.defined() && product_wanted) tape.product = product_of(call, tape.gate_up);
    const auto [gate, up] = gate_and_up(tape.gate_up);
    const at::Tensor d_down = call.linear_gradient(d, NormPlace::kAfterMlp, tape.branch, &layer.down);
    // Without a side only the shape of the product is read.
    at::Tensor d_product = call.linears_gradient({&layer.down, 1}, tape.lora_a_out, of_down, d_down,
                                                 product_wanted ? tape.product : gate);
    tape.product.reset();
    ops::swiglu_backward(gate, up, d_product, call.is_gelu());
    d_product.reset();
    const at::Tensor d_read =
        call.linears_gradient(layer.gate_up, tape.lora_a_out, 0, tape.gate_up, tape.read);
    tape.gate_up.reset();
    tape.read.reset();
    call.read_backward(d, d_read, tape.stream, NormPlace::kBeforeMlp);
  }

  PartNorms norms() const override {
    return {.before = NormPlace::kBeforeMlp, .after = NormPlace::kAfterMlp};
  }
  std::string no_input(const DecoderLayer& /*layer*/) const override { return "the MLP gets no input"; }
  std::vector<PartStop> stops(const DecoderLayer& layer) const override {
    if (layer.gate_up.size() != 2) return {};
    const ops::Linear &gate = layer.gate_up[0], &up = layer.gate_up[1];
    return {{&gate, &up}, {&layer.down, &up}, {&up, &gate}, {&layer.down, &gate}};
  }
};

}  // namespace

const LayerPart& mlp_part() {
  static const Mlp part;
  return part;
}

}  // namespace hone::model
