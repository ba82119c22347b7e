// The names follow decoder_layer.cpp; what each level keeps is in the header.
#include "model/layers/fused_layer.h"

#include <ATen/ATen.h>

#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/layers/mixer_call.h"
#include "ops/fused_linear.h"
#include "ops/join/join.h"
#include "ops/rms_norm.h"
#include "ops/swiglu.h"

namespace hone::model {
namespace {

std::pair<at::Tensor, at::Tensor> gate_and_up(const at::Tensor& concat) {
  const std::int64_t half = concat.size(1) / 2;
  return {concat.narrow(1, 0, half), concat.narrow(1, half, half)};
}

// One layer's calls, so that the forward and every level of recompute run the same lines.
class Pieces {
 public:
  // `onto_stream`: what is added to the residual stream may be added in place.
  Pieces(const DecoderLayer& layer, const LayerPass& pass, bool onto_stream = false)
      : layer_(layer),
        onto_stream_(onto_stream),
        norms_(norms_of(layer, pass.config, pass.context)),
        pass_(pass),
        config_(pass.config),
        dtype_(layer.o.weight.dtype()) {}

  // What attention or the MLP reads of the residual stream: its norm, or the stream itself; in the linears' dtype.
  at::Tensor read(const at::Tensor& stream, NormPlace place) const {
    if (!norms_[place].defined()) return stream.to(dtype_);
    const std::vector<ops::Linear>& readers =
        place == NormPlace::kBeforeAttention ? layer_.qkv : layer_.gate_up;
    const auto options = stream.options().dtype(dtype_);
    at::Tensor out = readers.empty() ? at::empty(stream.sizes(), options)
                                     : ops::input_rows(readers, stream.size(0), options);
    ops::rms_norm_into(out, stream, norms_[place], config_.rms_norm_eps);
    return out;
  }

  at::Tensor norm(const at::Tensor& x, const at::Tensor& weight) const {
    at::Tensor out = at::empty(x.sizes(), x.options().dtype(dtype_));
    ops::rms_norm_into(out, x, weight, config_.rms_norm_eps);
    return out;
  }

  // Of linears that read x, appended to `all`.
  void lora_a_forwards(std::span<const ops::Linear> linears, const at::Tensor& x,
                       std::vector<at::Tensor>& all) const {
    std::vector<const ops::Linear*> pointers;
    for (const ops::Linear& linear : linears) pointers.push_back(&linear);
    for (at::Tensor& found : ops::lora_a_forwards(pointers, x, pass_.context))
      all.push_back(std::move(found));
  }

  // The outputs of linears that read x side by side; their low-rank products start at all[first].
  at::Tensor multiply(const std::vector<ops::Linear>& linears, const at::Tensor& x,
                      const std::vector<at::Tensor>& all, std::size_t first) const {
    at::Tensor concat = ops::output_rows(linears, x.size(0), x.options());
    std::vector<ops::LinearOutput> outputs;
    std::int64_t column = 0;
    for (const ops::Linear& linear : linears) {
      outputs.push_back({concat.narrow(1, column, linear.weight.out()), &linear, all[first++]});
      column += linear.weight.out();
    }
    ops::linears_into(outputs, x, pass_.context);
    return concat;
  }

  // What the mixer mixes, from what its linears read.
  at::Tensor multiply_qkv(const at::Tensor& normed, const std::vector<at::Tensor>& all) const {
    return multiply(layer_.qkv, normed, all, 0);
  }

  at::Tensor multiply_gate_up(const at::Tensor& normed, const std::vector<at::Tensor>& all) const {
    return multiply(layer_.gate_up, normed, all, of_gate_up());
  }

  at::Tensor product(const at::Tensor& gate_up) const {
    at::Tensor out = ops::input_rows({&layer_.down, 1}, gate_up.size(0), gate_up.options());
    const auto [gate, up] = gate_and_up(gate_up);
    ops::swiglu_into(out, gate, up, is_gelu());
    return out;
  }

  // residual + linear(x), in the residual's dtype. With a norm after it, or a scale, the linear's output is kept apart:
  // `branch` is what the norm reads.
  at::Tensor add_linear(const at::Tensor& residual, const ops::Linear& linear, const at::Tensor& x,
                        const at::Tensor& lora_a_out, NormPlace norm_after, at::Tensor* branch) const {
    const at::Tensor& weight = norms_[norm_after];
    if (!weight.defined() && config_.residual_scale == 1) {
      at::Tensor out = onto_stream_ ? residual : at::empty_like(residual);
      ops::linear_into(out, linear, x, lora_a_out, pass_.context, residual);
      return out;
    }
    at::Tensor out = at::empty({x.size(0), linear.weight.out()}, x.options());
    ops::linear_into(out, linear, x, lora_a_out, pass_.context);
    return add_branch(residual, out, norm_after, branch);
  }

  // residual + out, after the norm and the scale of what is added.
  at::Tensor add_branch(const at::Tensor& residual, at::Tensor out, NormPlace norm_after,
                        at::Tensor* branch) const {
    const at::Tensor& weight = norms_[norm_after];
    if (weight.defined()) {
      if (branch != nullptr) *branch = out;
      out = norm(out, weight);
    }
    // two roundings, as in the autograd form
    if (config_.residual_scale != 1) out = out * config_.residual_scale;
    return residual + out;
  }

  // act(gate) * the layer's own input
  at::Tensor opened(const at::Tensor& gate) const {
    at::Tensor out = at::empty_like(gate);
    ops::swiglu_into(out, gate, per_layer_part(pass_.per_layer, layer_.number, config_), is_gelu());
    return out;
  }

  // The stream after the MLP with what the layer's own input adds, times the layer's scale.
  at::Tensor finish(const at::Tensor& stream, std::vector<at::Tensor>& all, LayerTape* tape) const {
    at::Tensor out = stream;
    if (layer_.per_layer) {
      const ops::Linear &gate = layer_.per_layer->gate, &projection = layer_.per_layer->projection;
      const at::Tensor read = stream.to(dtype_);
      lora_a_forwards({&gate, 1}, read, all);
      at::Tensor of_gate = at::empty({read.size(0), gate.weight.out()}, read.options());
      ops::linear_into(of_gate, gate, read, all.back(), pass_.context);
      const at::Tensor product = opened(of_gate);
      lora_a_forwards({&projection, 1}, product, all);
      if (tape != nullptr) {
        tape->post_mlp_residual = stream;
        tape->per_layer_gate = of_gate;
      }
      out = add_linear(stream, projection, product, all.back(), NormPlace::kAfterPerLayer,
                       tape == nullptr ? nullptr : &tape->per_layer_out);
    }
    const at::Tensor& scale = layer_.tensors[TensorKind::kLayerScale];
    return scale.defined() ? out * scale : out;
  }

  // From the gradient of add_linear()'s result that of the linear's output, in the linears' dtype. `linear`: where one alone reads
  // it, with the room that its join wants.
  at::Tensor linear_gradient(const at::Tensor& d, NormPlace norm_after, const at::Tensor& branch,
                             const ops::Linear* linear = nullptr) const {
    at::Tensor cast = pass_.cast == nullptr ? at::Tensor() : std::exchange(*pass_.cast, {});
    const at::Tensor scaled = config_.residual_scale == 1 ? d : d * config_.residual_scale;
    const at::Tensor& weight = norms_[norm_after];
    if (!weight.defined()) {
      if (cast.defined() && scaled.is_same(d)) return cast;
      if (linear == nullptr || scaled.scalar_type() == dtype_) return scaled.to(dtype_);
      at::Tensor out = ops::output_rows({linear, 1}, d.size(0), d.options().dtype(dtype_));
      return out.copy_(scaled);
    }
    if (const at::Tensor& trained = layer_.trained[norm_after]; trained.defined())
      ops::rms_norm_weight_gradient(trained.grad(), scaled, branch, config_.rms_norm_eps);
    at::Tensor out = at::zeros_like(branch);
    ops::rms_norm_backward_add(out, scaled, branch, weight, config_.rms_norm_eps);
    return out;
  }

  // d (null: not wanted) += the gradient of what read() read, and a trained norm gets its own.
  // `next`: the linear whose output's gradient d is after that, or null.
  void read_backward(at::Tensor* d, const at::Tensor& d_read, const at::Tensor& stream, NormPlace place,
                     const ops::Linear* next) const {
    const double eps = config_.rms_norm_eps;
    if (const at::Tensor& trained = layer_.trained[place]; trained.defined())
      ops::rms_norm_weight_gradient(trained.grad(), d_read, stream, eps);
    if (d == nullptr) return;
    if (norms_[place].defined()) {
      if (next != nullptr && pass_.cast != nullptr && d->scalar_type() != dtype_) {
        *pass_.cast = ops::output_rows({next, 1}, d->size(0), d->options().dtype(dtype_));
        ops::rms_norm_backward_add(*d, d_read, stream, norms_[place], eps, *pass_.cast);
        return;
      }
      ops::rms_norm_backward_add(*d, d_read, stream, norms_[place], eps);
    } else {
      d->add_(d_read);
    }
  }

  bool is_gelu() const { return config_.activation == Activation::kGeluTanh; }
  at::ScalarType dtype() const { return dtype_; }
  const Mixer& mixer() const { return *layer_.mixer; }
  MixerCall call(const Segments& segments, bool taped = false, bool keeps_in = false) const {
    return {layer_, pass_, norms_, segments, taped, keeps_in};
  }
  // Places in DecoderLayer::linears().
  std::size_t of_o() const { return layer_.qkv.size(); }
  std::size_t of_gate_up() const { return of_o() + 1; }
  std::size_t of_down() const { return of_gate_up() + layer_.gate_up.size(); }
  std::size_t of_per_layer() const { return of_down() + 1; }

 private:
  const DecoderLayer& layer_;
  const bool onto_stream_;
  LayerNorms norms_;
  const LayerPass& pass_;
  const ModelConfig& config_;
  at::ScalarType dtype_;
};

// Of sides' products that lie behind what a linear reads (ops/join/join.h) copies, where the tape does not keep that.
void keep_apart(std::vector<at::Tensor>& lora_a_out) {
  for (at::Tensor& one : lora_a_out) {
    if (one.defined() && one.storage().nbytes() > one.nbytes()) one = one.clone();
  }
}

// What the mixer makes of what its linears give.
MixerTape mix(const Pieces& pieces, const MixerCall& call, const at::Tensor& normed,
              const std::vector<at::Tensor>& lora_a_out, const std::vector<StepCache>* caches) {
  const Mixer& mixer = pieces.mixer();
  MixerTape mixed;
  mixed.in = pieces.multiply_qkv(normed, lora_a_out);
  mixer.split(call, mixed);
  if (caches == nullptr) mixer.prepare(call, mixed, call.keeps_in);
  mixed.out = ops::input_rows({&call.layer.o, 1}, normed.size(0), mixed.in.options());
  if (caches == nullptr) {
    mixer.forward(call, mixed);
  } else {
    mixer.step(call, *caches, mixed);
  }
  return mixed;
}

// `caches`: of a sampler's step, which has no tape. `onto_x`: x is nobody else's, and may become the result.
at::Tensor forward(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                   const Segments& segments, RecomputeLevel recompute, LayerTape* tape,
                   const std::vector<StepCache>* caches = nullptr, bool onto_x = false) {
  const Pieces pieces(layer, pass, onto_x);
  const ModelConfig& config = pass.config;
  const bool taped = tape != nullptr;
  std::vector<at::Tensor> lora_a_out;

  const at::Tensor normed = pieces.read(x, NormPlace::kBeforeAttention);
  pieces.lora_a_forwards(layer.qkv, normed, lora_a_out);
  const bool keeps_in = taped && recompute != RecomputeLevel::kLayer;
  MixerTape mixed = mix(pieces, pieces.call(segments, taped, keeps_in), normed, lora_a_out, caches);
  at::Tensor seen = layer.mixer->seen(mixed);
  pieces.lora_a_forwards({&layer.o, 1}, seen, lora_a_out);
  const at::Tensor post_attn_residual =
      pieces.add_linear(x, layer.o, seen, lora_a_out[pieces.of_o()], NormPlace::kAfterAttention,
                        taped ? &tape->o_out : nullptr);
  if (taped) {
    tape->input = x;
    tape->post_attn_residual = post_attn_residual;
    if (recompute == RecomputeLevel::kNone) tape->normed = normed;
    tape->mixer = mixed;
    if (!keeps_in)
      tape->mixer = {.in = {}, .gate = {}, .before_norm = {}, .out = mixed.out, .lse = mixed.lse};
  }
  mixed = {};
  seen.reset();

  const at::Tensor normed_mlp = pieces.read(post_attn_residual, NormPlace::kBeforeMlp);
  if (taped && recompute == RecomputeLevel::kNone) tape->normed_mlp = normed_mlp;
  if (layer.experts) {
    if (taped) tape->lora_a_out = lora_a_out;
    const SparseKeeps keeps{.gate_up = recompute != RecomputeLevel::kLayer,
                            .product = recompute == RecomputeLevel::kNone};
    at::Tensor added = fused_sparse_forward(*layer.experts, config, normed_mlp, pass.context, keeps,
                                            taped ? &tape->experts : nullptr, pass.load);
    return pieces.add_branch(post_attn_residual, std::move(added), NormPlace::kAfterMlp,
                             taped ? &tape->down_out : nullptr);
  }
  pieces.lora_a_forwards(layer.gate_up, normed_mlp, lora_a_out);
  at::Tensor gate_up = pieces.multiply_gate_up(normed_mlp, lora_a_out);
  const at::Tensor product = pieces.product(gate_up);
  pieces.lora_a_forwards({&layer.down, 1}, product, lora_a_out);
  if (taped) {
    if (recompute == RecomputeLevel::kNone) tape->product = product;
    if (recompute != RecomputeLevel::kLayer) tape->gate_up = gate_up;
  }
  gate_up.reset();
  const at::Tensor post_mlp_residual =
      pieces.add_linear(post_attn_residual, layer.down, product, lora_a_out[pieces.of_down()],
                        NormPlace::kAfterMlp, taped ? &tape->down_out : nullptr);
  at::Tensor out = pieces.finish(post_mlp_residual, lora_a_out, tape);
  if (taped) {
    if (recompute != RecomputeLevel::kNone) keep_apart(lora_a_out);
    tape->lora_a_out = std::move(lora_a_out);
  }
  return out;
}

// The backward of one layer, from its output down.
class LayerBackward {
 public:
  LayerBackward(const DecoderLayer& layer, const LayerPass& pass, LayerTape& tape)
      : layer_(layer), pass_(pass), pieces_(layer, pass), tape_(tape) {}

  // projection(act(gate) * the layer's own input), and the layer's scale after it
  void own_input(at::Tensor& d) {
    const at::Tensor& scale = layer_.tensors[TensorKind::kLayerScale];
    if ((scale.defined() || layer_.per_layer) && pass_.cast != nullptr) pass_.cast->reset();
    if (scale.defined()) d.mul_(scale);
    if (!layer_.per_layer) return;
    const ops::Linear &gate = layer_.per_layer->gate, &projection = layer_.per_layer->projection;
    const std::size_t first = pieces_.of_per_layer();
    const at::Tensor d_out = pieces_.linear_gradient(d, NormPlace::kAfterPerLayer, tape_.per_layer_out);
    tape_.per_layer_out.reset();
    const at::Tensor d_product =
        of_linears({&projection, 1}, first + 1, d_out, pieces_.opened(tape_.per_layer_gate));
    const at::Tensor d_input = per_layer_part(pass_.per_layer, layer_.number, pass_.config).clone();
    ops::swiglu_backward(tape_.per_layer_gate, d_input, d_product, pieces_.is_gelu());
    if (pass_.d_per_layer.defined())
      per_layer_part(pass_.d_per_layer, layer_.number, pass_.config).copy_(d_input);
    const at::Tensor read = tape_.post_mlp_residual.to(pieces_.dtype());
    tape_.post_mlp_residual.reset();
    d.add_(of_linears({&gate, 1}, first, tape_.per_layer_gate, read));
    tape_.per_layer_gate.reset();
  }

  // down(act(gate) * up)
  void mlp(at::Tensor& d) {
    if (!tape_.normed_mlp.defined())
      tape_.normed_mlp = pieces_.read(tape_.post_attn_residual, NormPlace::kBeforeMlp);
    if (layer_.experts) return experts(d);
    if (!tape_.gate_up.defined())
      tape_.gate_up = pieces_.multiply_gate_up(tape_.normed_mlp, tape_.lora_a_out);
    const bool product_wanted =
        tape_.lora_a_out[pieces_.of_down()].defined() || layer_.down.trained_weight.defined();
    if (!tape_.product.defined() && product_wanted) tape_.product = pieces_.product(tape_.gate_up);
    const auto [gate, up] = gate_and_up(tape_.gate_up);
    const at::Tensor d_down = pieces_.linear_gradient(d, NormPlace::kAfterMlp, tape_.down_out, &layer_.down);
    // Without a side only the shape of the product is read.
    at::Tensor d_product =
        of_linears({&layer_.down, 1}, pieces_.of_down(), d_down, product_wanted ? tape_.product : gate);
    tape_.product.reset();
    ops::swiglu_backward(gate, up, d_product, pieces_.is_gelu());
    d_product.reset();
    const at::Tensor d_read =
        of_linears(layer_.gate_up, pieces_.of_gate_up(), tape_.gate_up, tape_.normed_mlp);
    tape_.gate_up.reset();
    tape_.normed_mlp.reset();
    pieces_.read_backward(&d, d_read, tape_.post_attn_residual, NormPlace::kBeforeMlp, &layer_.o);
    tape_.post_attn_residual.reset();
  }

  // o(mixer(...)), with a gate between them where the mixer has one
  void mixer(at::Tensor& d, const Segments& segments, bool input_gradient) {
    const Mixer& own = pieces_.mixer();
    const MixerCall call = pieces_.call(segments, /*taped=*/true);
    MixerTape& mixed = tape_.mixer;
    if (own.has_gate(pass_.config)) recompute_qkv(call);  // o reads what the gate gives
    at::Tensor d_seen = of_linears(
        {&layer_.o, 1}, pieces_.of_o(),
        pieces_.linear_gradient(d, NormPlace::kAfterAttention, tape_.o_out, &layer_.o), own.seen(mixed));
    recompute_qkv(call);
    own.backward(call, mixed, std::move(d_seen));
    mixed.out.reset();
    const bool wanted = input_gradient || layer_.trained[NormPlace::kBeforeAttention].defined();
    const at::Tensor d_read = of_linears(layer_.qkv, 0, mixed.in, tape_.normed, wanted);
    // of the layer below, which has the same shapes
    const ops::Linear* const next = layer_.experts || layer_.per_layer ? nullptr : &layer_.down;
    pieces_.read_backward(input_gradient ? &d : nullptr, d_read, tape_.input, NormPlace::kBeforeAttention,
                          next);
  }

 private:
  void recompute_qkv(const MixerCall& call) {
    if (!tape_.normed.defined()) tape_.normed = pieces_.read(tape_.input, NormPlace::kBeforeAttention);
    if (tape_.mixer.in.defined()) return;
    tape_.mixer.in = pieces_.multiply_qkv(tape_.normed, tape_.lora_a_out);
    pieces_.mixer().split(call, tape_.mixer);
    pieces_.mixer().prepare(call, tape_.mixer, /*keeps=*/true);
  }

  // The mixture of experts instead of the MLP.
  void experts(at::Tensor& d) {
    const at::Tensor d_out = pieces_.linear_gradient(d, NormPlace::kAfterMlp, tape_.down_out);
    const at::Tensor d_read = fused_sparse_backward(*layer_.experts, pass_.config, tape_.normed_mlp, d_out,
                                                    pass_.context, tape_.experts, pass_.balance);
    tape_.normed_mlp.reset();
    pieces_.read_backward(&d, d_read, tape_.post_attn_residual, NormPlace::kBeforeMlp, &layer_.o);
    tape_.post_attn_residual.reset();
  }

  // The gradient of x, which these linears read (`wanted` false: undefined), and theirs. Their outputs lie side by side
  // in d_out; `first` is the place of the first in DecoderLayer::linears().
  at::Tensor of_linears(std::span<const ops::Linear> linears, std::size_t first, const at::Tensor& d_out,
                        const at::Tensor& x, bool wanted = true) const {
    std::vector<ops::LinearGradient> gradients;
    std::int64_t column = 0;
    for (const ops::Linear& linear : linears) {
      gradients.push_back({&linear, d_out.narrow(1, column, linear.weight.out()), tape_.lora_a_out[first++]});
      column += linear.weight.out();
    }
    at::Tensor dx = wanted ? at::empty(x.sizes(), x.options()) : at::Tensor();
    ops::linears_backward(dx, gradients, x, pass_.context);
    return dx;
  }

  const DecoderLayer& layer_;
  const LayerPass& pass_;
  const Pieces pieces_;
  LayerTape& tape_;
};

}  // namespace

at::Tensor fused_layer_forward(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                               const Segments& segments, RecomputeLevel recompute, LayerTape* tape) {
  return forward(layer, pass, x, segments, recompute, tape);
}

at::Tensor fused_layer_step(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                            const Segments& segments, const std::vector<StepCache>& caches) {
  base::require(segments.size() == caches.size(), "explicit_layer_step", "one cache a sequence");
  return forward(layer, pass, x, segments, RecomputeLevel::kNone, nullptr, &caches,
                 ops::pools_keys(x.device()));
}

void fused_layer_backward(const DecoderLayer& layer, const LayerPass& pass, const Segments& segments,
                          LayerTape& tape, at::Tensor& d, bool input_gradient) {
  LayerBackward backward(layer, pass, tape);
  backward.own_input(d);
  backward.mlp(d);
  backward.mixer(d, segments, input_gradient);
  tape = LayerTape();
}

}  // namespace hone::model
