// The first part of every layer: its mixer (model/config/mixer.h) between linears.
#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>

#include "model/config/families.h"
#include "model/layers/mixer_call.h"
#include "model/layers/part_call.h"
#include "model/parts/parts.h"
#include "ops/join/join.h"

namespace hone::model {
namespace {

MixerCall mixer_call(const PartCall& call, bool taped, bool keeps_in) {
  return {call.layer, call.pass, call.norms, call.segments, taped, keeps_in};
}

// What the mixer makes of what its linears give.
MixerTape mix(const PartCall& call, const MixerCall& own, const at::Tensor& read,
              const std::vector<at::Tensor>& lora_a_out) {
  const Mixer& mixer = *call.layer.mixer;
  MixerTape mixed;
  mixed.in = call.multiply(call.layer.qkv, read, lora_a_out, 0);
  mixer.split(own, mixed);
  if (call.caches == nullptr) mixer.prepare(own, mixed, own.keeps_in);
  mixed.out = ops::input_rows({&call.layer.o, 1}, read.size(0), mixed.in.options());
  if (call.caches == nullptr) {
    mixer.forward(own, mixed);
  } else {
    mixer.step(own, *call.caches, mixed);
  }
  return mixed;
}

void recompute_in(const PartCall& call, const MixerCall& own, PartTape& tape) {
  if (!tape.read.defined()) tape.read = call.read(tape.stream, NormPlace::kBeforeAttention, call.layer.qkv);
  if (tape.mixer.in.defined()) return;
  tape.mixer.in = call.multiply(call.layer.qkv, tape.read, tape.lora_a_out, 0);
  call.layer.mixer->split(own, tape.mixer);
  call.layer.mixer->prepare(own, tape.mixer, /*keeps=*/true);
}

class Mixing final : public LayerPart {
 public:
  bool has_linear(const ModelConfig& config, std::int64_t layer, ModuleKind kind) const override {
    const bool of_keys = kind == ModuleKind::kK || kind == ModuleKind::kV;
    return config.mixer(layer).has_linear(kind) && (!of_keys || config.attention_of(layer).has_keys());
  }
  void shape(const ModelConfig& config, std::int64_t layer, LayerLinear& linear) const override {
    config.mixer(layer).shape(config, layer, linear);
  }
  bool has_norm(const ModelConfig& config, std::int64_t layer, NormPlace place) const override {
    return LayerPart::has_norm(config, layer, place) || config.mixer(layer).has_norm(config, layer, place);
  }
  void add_tensor(const ModelConfig& config, std::int64_t layer, const TensorRow& row,
                  std::vector<LayerTensor>& out) const override {
    config.mixer(layer).add_tensor(config, row, out);
  }

  void place(DecoderLayer& layer, const LayerLinear& what, ops::Linear linear) const override {
    if (what.kind == layer.mixer->last()) {
      layer.o = std::move(linear);
    } else {
      layer.qkv.push_back(std::move(linear));
    }
  }
  std::vector<std::vector<ops::Linear*>> readers(DecoderLayer& layer) const override {
    std::vector<ops::Linear*> before;
    for (ops::Linear& linear : layer.qkv) before.push_back(&linear);
    return {before, {&layer.o}};
  }
  bool joins() const override { return true; }
  const ops::Linear* last(const DecoderLayer& layer) const override { return &layer.o; }

  PartColumns columns(const ModelConfig& config, std::int64_t layer) const override {
    const MixerColumns own = config.mixer(layer).columns(config, layer);
    const std::int64_t hidden = config.hidden_size;
    return {.stream = hidden,
            .always = own.out + (config.norms_after ? hidden : 0),
            .unless_layer = own.in + own.normed + own.gate,
            .floats = own.sums,
            .read = hidden,
            .step = own.step};
  }
  std::int64_t plain_bytes(const ModelConfig& config, std::int64_t layer, std::int64_t e) const override {
    return (config.norms_after ? 2 : 1) * 4 * config.hidden_size +
           config.mixer(layer).plain_bytes(config, layer, e);
  }

  // In the backward the linear after the mixer comes first, then what is before it.
  PartScratch scratch(const ModelConfig& config, std::int64_t layer, const PassShape& pass) const override {
    const MixerColumns own = config.mixer(layer).columns(config, layer);
    const std::int64_t hidden = config.hidden_size, stream = hidden * pass.residual,
                       read = read_bytes(config, pass),
                       dropped = std::max(hidden * pass.first.dropped, own.out * pass.last.dropped),
                       in = (own.in + own.normed + own.gate) * pass.e, out = own.out * pass.e,
                       split = own.gate > 0 ? (own.in + 2 * own.gate) * pass.e : 0;
    // A norm of the whole projection has rows of its own.
    const std::int64_t normed = config.projection_qk_norm ? out : 0;
    const std::int64_t seen = output_gradient_bytes(config, pass) + (own.gate > 0 ? out : 0);
    // DoRA's products once more, with the rows that dropout takes away.
    const std::int64_t again =
        pass.keeps_some ? 0 : pass.first.sums + (pass.first.dropped > 0 ? hidden * pass.e : 0);
    return {.forward = stream + read + in + out + dropped + std::max(pass.first.sums, pass.last.sums) +
                       std::max(split + own.scratch * pass.e, added_bytes(config, pass) + stream),
            .backward = stream + (pass.keeps_all ? 0 : read) + (pass.keeps_some ? 0 : in) + out + dropped +
                        std::max({seen + pass.last.dora, split, normed, again,
                                  hidden * pass.e - out + pass.first.dora}),
            .mixes = true};
  }

  at::Tensor autograd(const AutogradCall& call, const at::Tensor& x) const override {
    const at::Tensor out = call.layer.mixer->autograd(call, call.read(x, NormPlace::kBeforeAttention));
    return call.add(x, ops::linear_forward(call.layer.o, out, call.pass), NormPlace::kAfterAttention);
  }
  at::Tensor forward(const PartCall& call, const at::Tensor& x, PartTape* tape) const override {
    const DecoderLayer& layer = call.layer;
    const bool taped = tape != nullptr, keeps_in = taped && call.keeps_some();
    std::vector<at::Tensor> lora_a_out;
    const at::Tensor read = call.read(x, NormPlace::kBeforeAttention, layer.qkv);
    call.lora_a_forwards(layer.qkv, read, lora_a_out);
    MixerTape mixed = mix(call, mixer_call(call, taped, keeps_in), read, lora_a_out);
    const at::Tensor seen = layer.mixer->seen(mixed);
    call.lora_a_forwards({&layer.o, 1}, seen, lora_a_out);
    const at::Tensor out = call.add_linear(x, layer.o, seen, lora_a_out.back(), NormPlace::kAfterAttention,
                                           taped ? &tape->branch : nullptr);
    if (!taped) return out;
    if (call.keeps_all()) tape->read = read;
    tape->lora_a_out = std::move(lora_a_out);
    tape->mixer = std::move(mixed);
    if (!keeps_in) {
      tape->mixer.in.reset();
      tape->mixer.gate.reset();
      tape->mixer.before_norm.reset();
    }
    return out;
  }
  void backward(const PartCall& call, PartTape& tape, at::Tensor& d) const override {
    const DecoderLayer& layer = call.layer;
    const Mixer& mixer = *layer.mixer;
    const MixerCall own = mixer_call(call, /*taped=*/true, /*keeps_in=*/false);
    MixerTape& mixed = tape.mixer;
    if (mixer.has_gate(call.pass.config))
      recompute_in(call, own, tape);  // the linear after it reads what the gate gives
    at::Tensor d_seen = call.linears_gradient(
        {&layer.o, 1}, tape.lora_a_out, layer.qkv.size(),
        call.linear_gradient(d, NormPlace::kAfterAttention, tape.branch, &layer.o), mixer.seen(mixed));
    recompute_in(call, own, tape);
    mixer.backward(own, mixed, std::move(d_seen));
    mixed.out.reset();
    const bool wanted = call.input_gradient || layer.trained[NormPlace::kBeforeAttention].defined();
    const at::Tensor d_read =
        call.linears_gradient(layer.qkv, tape.lora_a_out, 0, mixed.in, tape.read, wanted);
    call.read_backward(d, d_read, tape.stream, NormPlace::kBeforeAttention);
  }

  PartNorms norms() const override {
    return {.before = NormPlace::kBeforeAttention, .after = NormPlace::kAfterAttention};
  }
  std::string no_input(const DecoderLayer& layer) const override {
    return std::string(layer.mixer->words().subject) + " gets no input";
  }
  std::vector<PartStop> stops(const DecoderLayer& layer) const override {
    std::vector<PartStop> out;
    for (const GradientStop& stop : layer.mixer->gradient_stops()) {
      if (stop.unless && layer.tensors[*stop.unless].defined()) continue;
      PartStop& one = out.emplace_back();
      one.tensor = stop.tensor;
      one.name = stop.is_norm ? "the norm before " + layer.o.name
                              : "the convolution after " + layer.qkv.front().name;
      if (stop.linear) one.by = &layer.qkv[*stop.linear];
    }
    if (layer.qkv.size() != 3) return out;
    const ops::Linear &q = layer.qkv[0], &k = layer.qkv[1], &v = layer.qkv[2];
    out.push_back({&q, &k, NormPlace::kK});
    out.push_back({&k, &q, NormPlace::kQ});
    for (const ops::Linear* const one : std::initializer_list<const ops::Linear*>{&layer.o, &q, &k})
      out.push_back({one, &v});
    return out;
  }
};

}  // namespace

const LayerPart& mixing_part() {
  static const Mixing part;
  return part;
}

}  // namespace hone::model
