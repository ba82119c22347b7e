// A short convolution between two linears (ops/short_conv.h): b, c and x of H columns each, and taps over
// the tokens.
#include "ops/short_conv.h"

#include <ATen/ATen.h>

#include <ranges>
#include <utility>

#include "model/config/families.h"
#include "model/layers/mixer_call.h"
#include "model/mixers/mixers.h"

namespace hone::model {
namespace {

at::Tensor weight_of(const MixerCall& call) {
  return tensor_of(call.layer, TensorKind::kConvWeight, call.pass.context);
}

at::Tensor bias_of(const MixerCall& call) {
  return tensor_of(call.layer, TensorKind::kConvBias, call.pass.context);
}

class ShortConv final : public Mixer {
 public:
  const MixerWords& words() const override {
    static constexpr MixerWords kWords{.layer_type = "conv",
                                       .path = ".conv.",
                                       .subject = "the convolution",
                                       .role = "attention and convolutions",
                                       .tensors = "convolution",
                                       .reference = "short convolutions"};
    return kWords;
  }

  bool has_linear(ModuleKind kind) const override { return kind == ModuleKind::kConvIn || kind == last(); }
  ModuleKind last() const override { return ModuleKind::kConvOut; }
  void shape(const ModelConfig& config, std::int64_t /*layer*/, LayerLinear& linear) const override {
    if (linear.kind == ModuleKind::kConvIn) linear.out = 3 * config.hidden_size;
    linear.bias = config.conv_bias;
  }
  void add_tensor(const ModelConfig& c, const TensorRow& row, std::vector<LayerTensor>& out) const override {
    if (row.kind == TensorKind::kConvWeight)
      out.push_back({row.kind, row.name, {c.hidden_size, 1, c.conv_taps}, {c.hidden_size, c.conv_taps}});
    if (row.kind == TensorKind::kConvBias && c.conv_bias)
      out.push_back({row.kind, row.name, {c.hidden_size}, {}});
  }
  std::vector<GradientStop> gradient_stops() const override {
    return {{.tensor = TensorKind::kConvWeight, .unless = TensorKind::kConvBias}};
  }

  MixerColumns columns(const ModelConfig& config, std::int64_t /*layer*/) const override {
    const std::int64_t h = config.hidden_size;
    return {.in = 3 * h, .out = h, .scratch = h, .step = 4 * h};
  }
  std::int64_t plain_bytes(const ModelConfig& config, std::int64_t /*layer*/, std::int64_t e) const override {
    return 5 * config.hidden_size * e + 4 * config.hidden_size;  // its inputs in fp32
  }
  std::int64_t state_bytes(const ModelConfig& config, at::ScalarType dtype) const override {
    return ops::ConvInputs::bytes(config.hidden_size, config.conv_taps, dtype);
  }

  void open(LayerCache& cache, const CacheRoom& room) const override {
    cache.inputs = ops::ConvInputs(room.config.hidden_size, room.config.conv_taps, room.dtype, room.device);
  }
  std::int64_t length(const LayerCache& cache) const override { return cache.inputs.length(); }
  bool can_truncate(const LayerCache& cache, std::int64_t length) const override {
    return cache.inputs.can_truncate(length);
  }
  void truncate(LayerCache& cache, std::int64_t length) const override { cache.inputs.truncate(length); }

  at::Tensor autograd(const AutogradCall& call, const at::Tensor& read) const override {
    return ops::short_conv(ops::linear_forward(call.layer.qkv.front(), read, call.pass),
                           tensor_of(call.layer, TensorKind::kConvWeight, call.pass),
                           tensor_of(call.layer, TensorKind::kConvBias, call.pass), call.segments);
  }

  void forward(const MixerCall& call, MixerTape& tape) const override {
    const at::Tensor inputs = ops::conv_inputs(tape.in);
    ops::short_conv_into(tape.out, inputs, tape.in, weight_of(call), bias_of(call),
                         ops::conv_rows(inputs, call.segments, call.pass.config.conv_taps));
  }
  void step(const MixerCall& call, const std::vector<StepCache>& caches, MixerTape& tape) const override {
    const std::int64_t wanted = call.pass.config.conv_taps - 1;
    const at::Tensor inputs = ops::conv_inputs(tape.in);
    std::vector<ops::ConvRows> rows;
    for (std::size_t i = 0; i < call.segments.size(); ++i) {
      at::Tensor earlier = caches[i].own->inputs.last(wanted);
      for (const auto& before : std::views::reverse(caches[i].before)) {
        if (earlier.size(0) == wanted) break;
        earlier = at::cat({before->inputs.last(wanted - earlier.size(0)), earlier});
      }
      rows.push_back({call.segments[i].begin, call.segments[i].end, earlier});
    }
    ops::short_conv_into(tape.out, inputs, tape.in, weight_of(call), bias_of(call), rows);
    for (std::size_t i = 0; i < call.segments.size(); ++i) {
      const auto& [begin, end] = std::pair(call.segments[i].begin, call.segments[i].end);
      caches[i].own->inputs.append(inputs.narrow(0, begin, end - begin));
    }
  }
  void backward(const MixerCall& call, MixerTape& tape, at::Tensor d_seen) const override {
    const auto gradient = [&](TensorKind kind) {
      const at::Tensor& trained = call.layer.trained_tensors[kind];
      return trained.defined() ? trained.grad() : trained;
    };
    ops::short_conv_backward(tape.in, std::move(d_seen), weight_of(call), bias_of(call), call.segments,
                             gradient(TensorKind::kConvWeight), gradient(TensorKind::kConvBias));
  }
};

}  // namespace

const Mixer& short_conv_mixer() {
  static const ShortConv mixer;
  return mixer;
}

}  // namespace hone::model
