// A gated delta rule between linears (ops/delta_rule.h): q | k | v, z, b and a before it, four linears.
#include "ops/delta_rule.h"

#include <ATen/ATen.h>

#include <utility>

#include "model/config/families.h"
#include "model/layers/mixer_call.h"
#include "model/mixers/mixers.h"

namespace hone::model {
namespace {

// The value heads, as GGUF orders them.
ValueHeads value_heads(const ModelConfig& c, std::int64_t first, std::int64_t width, bool columns = false) {
  const DeltaRule& d = c.delta;
  return {d.key_heads, d.value_heads / d.key_heads, first, width, columns};
}

ops::DeltaShape shape_of(const ModelConfig& config) {
  const DeltaRule& d = config.delta;
  return {.key_heads = d.key_heads,
          .value_heads = d.value_heads,
          .key_dim = d.key_dim,
          .value_dim = d.value_dim,
          .eps = config.rms_norm_eps};
}

ops::DeltaWeights weights_of(const DecoderLayer& layer, const ops::PassContext& pass) {
  const auto one = [&](TensorKind kind) { return tensor_of(layer, kind, pass); };
  return {.conv = one(TensorKind::kDeltaConv),
          .a_log = one(TensorKind::kDeltaALog),
          .dt_bias = one(TensorKind::kDeltaDtBias),
          .norm = one(TensorKind::kDeltaNorm)};
}

class GatedDeltaRule final : public Mixer {
 public:
  const MixerWords& words() const override {
    static constexpr MixerWords kWords{.layer_type = "linear_attention",
                                       .path = ".linear_attn.",
                                       .subject = "the delta rule",
                                       .role = "attention and delta rules",
                                       .tensors = "other tensors",
                                       .reference = "the delta rule"};
    return kWords;
  }

  bool has_linear(ModuleKind kind) const override { return kind >= ModuleKind::kDeltaQkv && kind <= last(); }
  ModuleKind last() const override { return ModuleKind::kDeltaOut; }
  void shape(const ModelConfig& c, std::int64_t /*layer*/, LayerLinear& linear) const override {
    const DeltaRule& d = c.delta;
    if (linear.kind == ModuleKind::kDeltaQkv) {
      linear.out = d.channels();
      linear.gguf_heads = value_heads(c, d.channels() - d.values(), d.value_dim);
    } else if (linear.kind == ModuleKind::kDeltaZ) {
      linear.out = d.values();
      linear.gguf_heads = value_heads(c, 0, d.value_dim);
    } else if (linear.kind == ModuleKind::kDeltaOut) {
      linear.in = d.values();
      linear.gguf_heads = value_heads(c, 0, d.value_dim, /*columns=*/true);
    } else {
      linear.out = d.value_heads;
      linear.gguf_heads = value_heads(c, 0, 1);
    }
  }
  void add_tensor(const ModelConfig& c, const TensorRow& row, std::vector<LayerTensor>& out) const override {
    const DeltaRule& d = c.delta;
    LayerTensor one{.kind = row.kind, .name = row.name, .shape = {d.value_heads}, .gguf_shape = {}};
    if (row.kind == TensorKind::kDeltaConv) {
      one.shape = {d.channels(), 1, d.taps};
      one.gguf_shape = {d.channels(), d.taps};
      one.gguf_heads = value_heads(c, d.channels() - d.values(), d.value_dim);
    } else if (row.kind == TensorKind::kDeltaALog || row.kind == TensorKind::kDeltaDtBias) {
      one.gguf_heads = value_heads(c, 0, 1);
      one.is_decay = row.kind == TensorKind::kDeltaALog;
    } else if (row.kind == TensorKind::kDeltaNorm) {
      one.shape = {d.value_dim};
    } else {
      return;
    }
    one.of_stream = row.kind != TensorKind::kDeltaConv;
    out.push_back(std::move(one));
  }
  std::vector<GradientStop> gradient_stops() const override {
    constexpr std::size_t kZ = 1;
    return {{.linear = kZ},
            {.tensor = TensorKind::kDeltaConv},
            {.tensor = TensorKind::kDeltaNorm, .is_norm = true}};
  }

  MixerColumns columns(const ModelConfig& config, std::int64_t /*layer*/) const override {
    const DeltaRule& d = config.delta;
    return {.in = d.inputs(),
            .out = d.values(),
            .scratch = d.channels(),
            .step = d.inputs() + d.channels() + d.values()};
  }
  // In the linears' dtype: before and after the convolution, after SiLU, z twice, o; in fp32 by value head:
  // queries and keys as they are repeated, normed, scaled and decayed, values, two solutions, four products
  // of a chunk, states.
  std::int64_t plain_bytes(const ModelConfig& config, std::int64_t /*layer*/, std::int64_t e) const override {
    constexpr std::int64_t kChunk = 64;  // of ops::delta_rule
    const DeltaRule& d = config.delta;
    return (4 * d.channels() + 4 * d.values()) * e +
           4 * d.value_heads * (9 * d.key_dim + 7 * d.value_dim + 8 * kChunk) +
           4 * d.values() * d.key_dim * 4 / kChunk;
  }
  std::int64_t backward_bytes(const ModelConfig& config, std::int64_t longest,
                              std::int64_t threads) const override {
    return ops::delta_rule_backward_bytes(shape_of(config), longest, threads);
  }
  std::int64_t state_bytes(const ModelConfig& config, at::ScalarType dtype) const override {
    return ops::DeltaState::bytes(shape_of(config), config.delta.taps, dtype);
  }

  void open(LayerCache& cache, const CacheRoom& room) const override {
    cache.delta = ops::DeltaState(shape_of(room.config), room.config.delta.taps, room.dtype, room.device);
  }
  std::int64_t length(const LayerCache& cache) const override { return cache.delta.length(); }
  bool can_truncate(const LayerCache& cache, std::int64_t length) const override {
    return cache.delta.can_truncate(length);
  }
  void truncate(LayerCache& cache, std::int64_t length) const override { cache.delta.truncate(length); }

  at::Tensor autograd(const AutogradCall& call, const at::Tensor& read) const override {
    return ops::delta_rule(at::cat(outputs_of(call.layer.qkv, read, call.pass, {}), 1),
                           weights_of(call.layer, call.pass), shape_of(call.config), call.segments);
  }

  void forward(const MixerCall& call, MixerTape& tape) const override {
    ops::delta_rule_into(tape.out, tape.in, weights_of(call.layer, call.pass.context),
                         shape_of(call.pass.config), call.segments);
  }
  void step(const MixerCall& call, const std::vector<StepCache>& caches, MixerTape& tape) const override {
    std::vector<ops::DeltaStep> steps;
    for (std::size_t i = 0; i < call.segments.size(); ++i) {
      const auto& before = caches[i].before;
      steps.push_back({.begin = call.segments[i].begin,
                       .end = call.segments[i].end,
                       .before = before.empty() ? nullptr : &before.back()->delta,
                       .own = &caches[i].own->delta});
    }
    ops::delta_rule_step(tape.out, tape.in, weights_of(call.layer, call.pass.context),
                         shape_of(call.pass.config), steps);
  }
  void backward(const MixerCall& call, MixerTape& tape, at::Tensor d_seen) const override {
    const auto gradient = [&](TensorKind kind) {
      const at::Tensor& trained = call.layer.trained_tensors[kind];
      return trained.defined() ? trained.grad() : trained;
    };
    ops::delta_rule_backward(tape.in, d_seen, weights_of(call.layer, call.pass.context),
                             shape_of(call.pass.config), call.segments,
                             {.conv = gradient(TensorKind::kDeltaConv),
                              .a_log = gradient(TensorKind::kDeltaALog),
                              .dt_bias = gradient(TensorKind::kDeltaDtBias),
                              .norm = gradient(TensorKind::kDeltaNorm)});
  }
};

}  // namespace

const Mixer& delta_rule_mixer() {
  static const GatedDeltaRule mixer;
  return mixer;
}

}  // namespace hone::model
