// A mixture of experts instead of an MLP: model/layers/moe.h in autograd form, fused_moe.h in the fused one.
#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>

#include "model/config/families.h"
#include "model/layers/mixer_call.h"
#include "model/layers/part_call.h"
#include "model/parts/parts.h"

namespace hone::model {
namespace {

// One linear of every expert: where files and transformers have it, and its place in the stack.
struct ExpertLinear {
  ModuleKind kind;
  std::string_view name, gguf, stack, stacked;
  std::int64_t out, in, row;
};

LayerLinear linear_of(const ExpertNames& names, const ExpertLinear& one, std::int64_t expert) {
  const std::string files(names.files), module(names.module);
  LayerLinear out{.kind = one.kind,
                  .hf = files + "experts." + std::to_string(expert) + "." + std::string(one.name),
                  .gguf = std::string(one.gguf),
                  .out = one.out,
                  .in = one.in};
  out.expert = expert;
  out.is_parameter = true;
  if (!one.stack.empty())
    out.others.push_back({.name = files + std::string(one.stack), .expert = expert, .row = one.row});
  out.others.push_back(
      {.name = module + "experts." + std::string(one.stacked), .expert = expert, .row = one.row});
  return out;
}

class Mixture final : public LayerPart {
 public:
  void add_linears(const ModelConfig& c, std::vector<LayerLinear>& out) const override {
    const ExpertNames& names = traits_of(c.family).experts;
    const std::int64_t hidden = c.hidden_size, width = c.experts.width;
    LayerLinear router{.kind = ModuleKind::kRouter,
                       .hf = std::string(names.files) + std::string(names.router),
                       .gguf = "ffn_gate_inp",
                       .out = c.experts.count,
                       .in = hidden};
    router.is_parameter = true;
    router.part = this;
    const std::string held = std::string(names.module) + std::string(names.router_parameter);
    if (held != router.hf + ".weight") router.others.push_back({.name = held});
    out.push_back(std::move(router));
    const ExpertLinear linears[] = {{ModuleKind::kExpertGate, names.gate, "ffn_gate_exps",
                                     names.stacked_gate_up, "gate_up_proj", width, hidden, 0},
                                    {ModuleKind::kExpertUp, names.up, "ffn_up_exps", names.stacked_gate_up,
                                     "gate_up_proj", width, hidden, width},
                                    {ModuleKind::kExpertDown, names.down, "ffn_down_exps", names.stacked_down,
                                     "down_proj", hidden, width, 0}};
    for (const ExpertLinear& one : linears)
      for (std::int64_t e = 0; e < c.experts.count; ++e)
        out.emplace_back(linear_of(names, one, e)).part = this;
  }
  void add_parameters(const ModelConfig& c, const std::string& layer,
                      std::vector<ParameterSpec>& out) const override {
    const ExpertNames& names = traits_of(c.family).experts;
    const std::int64_t hidden = c.hidden_size, width = c.experts.width, count = c.experts.count;
    const std::string module = layer + std::string(names.module), experts = module + "experts";
    const std::string_view router = names.router_parameter;
    const std::size_t dot = router.rfind('.');
    out.push_back({.module = module + std::string(router.substr(0, dot)),
                   .name = std::string(router.substr(dot + 1)),
                   .out = count,
                   .in = hidden});
    out.push_back(
        {.module = experts, .name = "gate_up_proj", .out = 2 * width, .in = hidden, .experts = count});
    out.push_back({.module = experts, .name = "down_proj", .out = hidden, .in = width, .experts = count});
  }

  void place(DecoderLayer& layer, const LayerLinear& what, ops::Linear linear) const override {
    if (!layer.experts) layer.experts.emplace();
    SparseMlp& mlp = *layer.experts;
    if (what.kind == ModuleKind::kRouter) {
      mlp.router = std::move(linear);
    } else if (what.kind == ModuleKind::kExpertGate) {
      mlp.experts.emplace_back().gate = std::move(linear);
    } else {
      Expert& of = mlp.experts.at(static_cast<std::size_t>(what.expert));
      (what.kind == ModuleKind::kExpertUp ? of.up : of.down) = std::move(linear);
    }
  }
  // Their order in memory, and the places of LoRAs on them, by the names of the parameters.
  void finish(DecoderLayer& layer, const std::vector<ParameterSpec>& parameters) const override {
    SparseMlp& mlp = *layer.experts;
    mlp.lay_out();
    for (const ParameterSpec& spec : parameters) {
      if (spec.experts == 1) {
        mlp.router.adapter_name = spec.module;
        continue;
      }
      ops::Linear& stack = spec.name == "down_proj" ? mlp.down_stack : mlp.gate_up_stack;
      stack.name = spec.module + "." + spec.name;
      stack.weight = ops::Weight::without_numbers(spec.out, spec.in, mlp.router.weight.dtype(),
                                                  mlp.router.weight.device());
      stack.stacked = spec.experts;
    }
  }
  std::vector<std::vector<ops::Linear*>> readers(DecoderLayer& layer) const override {
    SparseMlp& mlp = *layer.experts;
    return {{&mlp.router, &mlp.gate_up_stack}, {&mlp.down_stack}};
  }
  std::vector<ops::Linear*> linears(DecoderLayer& layer) const override { return layer.experts->linears(); }
  std::vector<LinearStack> stacks(DecoderLayer& layer) const override {
    SparseMlp& mlp = *layer.experts;
    LinearStack in{.linear = &mlp.gate_up_stack, .experts = {}, .codes = mlp.gate_up_codes.get()},
        down{.linear = &mlp.down_stack, .experts = {}, .codes = mlp.down_codes.get()};
    for (Expert& one : mlp.experts) {
      in.experts.push_back({&one.gate, &one.up});
      down.experts.push_back({&one.down});
    }
    return {std::move(in), std::move(down)};
  }

  PartColumns columns(const ModelConfig& config, std::int64_t /*layer*/) const override {
    const ExpertsRule& rule = config.experts;
    const std::int64_t hidden = config.hidden_size, width = rule.per_token * rule.width;
    return {.stream = hidden,
            .always = rule.count + (config.norms_after ? hidden : 0),
            .unless_layer = 2 * width,
            .only_none = width,
            .read = hidden,
            .inner = width,
            .step = 3 * (width + rule.per_token * hidden)};
  }
  std::int64_t plain_bytes(const ModelConfig& config, std::int64_t layer, std::int64_t e) const override {
    const std::int64_t sorted = config.experts.per_token * config.hidden_size;
    return (config.norms_after ? 2 : 1) * 4 * config.hidden_size + 3 * columns(config, layer).inner * e +
           2 * sorted * (e + 4) + 4 * 4 * config.experts.count;
  }
  PartScratch scratch(const ModelConfig& config, std::int64_t layer, const PassShape& pass) const override {
    const ExpertsRule& rule = config.experts;
    const std::int64_t hidden = config.hidden_size * pass.e, stream = config.hidden_size * pass.residual,
                       sorted = rule.per_token * hidden, width = columns(config, layer).inner * pass.e,
                       read = read_bytes(config, pass);
    // The routers' scores and softmax in fp32; of a row where it is, and its weight.
    const std::int64_t routed = 2 * 4 * rule.count + rule.per_token * (3 * 8 + 2 * 4);
    const std::int64_t sums = pass.sums_in_floats ? 3 * 4 * config.hidden_size : 0;
    const std::int64_t products = std::max({sorted + 2 * width, 3 * width, width + sorted + hidden});
    // By expert: what it read, the gradients of what it gave and of the product, once more for the matrices.
    const std::int64_t rows = 2 * sorted + (pass.trains_weights ? 2 : 1) * width;
    return {.forward = stream + read + routed + sums + rule.count * pass.e +
                       std::max(products, hidden + added_bytes(config, pass) + stream),
            .backward = stream + (pass.keeps_all ? 0 : read + width) + (pass.keeps_some ? 0 : 2 * width) +
                        output_gradient_bytes(config, pass) + rows + routed + sums};
  }

  at::Tensor autograd(const AutogradCall& call, const at::Tensor& x) const override {
    const at::Tensor read = call.read(x, NormPlace::kBeforeMlp);
    return call.add(x, sparse_mlp(*call.layer.experts, call.config, read, call.pass, call.load),
                    NormPlace::kAfterMlp);
  }
  at::Tensor forward(const PartCall& call, const at::Tensor& x, PartTape* tape) const override {
    const at::Tensor read = call.read(x, NormPlace::kBeforeMlp, {});
    if (tape != nullptr && call.keeps_all()) tape->read = read;
    const SparseKeeps keeps{.gate_up = call.keeps_some(), .product = call.keeps_all()};
    at::Tensor added =
        fused_sparse_forward(*call.layer.experts, call.pass.config, read, call.pass.context, keeps,
                             tape == nullptr ? nullptr : &tape->experts, call.pass.load);
    return call.add_branch(x, std::move(added), NormPlace::kAfterMlp,
                           tape == nullptr ? nullptr : &tape->branch);
  }
  void backward(const PartCall& call, PartTape& tape, at::Tensor& d) const override {
    if (!tape.read.defined()) tape.read = call.read(tape.stream, NormPlace::kBeforeMlp, {});
    const at::Tensor d_out = call.linear_gradient(d, NormPlace::kAfterMlp, tape.branch);
    const at::Tensor d_read = fused_sparse_backward(*call.layer.experts, call.pass.config, tape.read, d_out,
                                                    call.pass.context, tape.experts, call.pass.balance);
    tape.read.reset();
    call.read_backward(d, d_read, tape.stream, NormPlace::kBeforeMlp);
  }

  PartNorms norms() const override {
    return {.before = NormPlace::kBeforeMlp, .after = NormPlace::kAfterMlp};
  }
  std::string no_input(const DecoderLayer& /*layer*/) const override { return "the experts get no input"; }
};

}  // namespace

const LayerPart& experts_part() {
  static const Mixture part;
  return part;
}

}  // namespace hone::model
