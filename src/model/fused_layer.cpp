// The names follow decoder_layer.cpp; what each level keeps is in the header.
#include "model/fused_layer.h"

#include <ATen/ATen.h>

#include <functional>
#include <span>
#include <vector>

#include "base/error.h"
#include "ops/fused_linear.h"
#include "ops/rms_norm.h"
#include "ops/short_conv.h"
#include "ops/swiglu.h"

namespace hone::model {
namespace {

// The slices of a concatenated [T, (N + 2 K) D] buffer.
struct Heads {
  at::Tensor q, k, v;  // [T, N or K, D], rows strided
};

// Heads [begin, begin + heads) of a concatenated buffer.
at::Tensor slice_heads(const at::Tensor& concat, std::int64_t begin, std::int64_t heads,
                       std::int64_t head_dim) {
  return concat.narrow(1, begin * head_dim, heads * head_dim).unflatten(1, {heads, head_dim});
}

Heads heads_of(const at::Tensor& qkv, const ModelConfig& config) {
  const std::int64_t n = config.num_attention_heads, k = config.num_key_value_heads, d = config.head_dim;
  base::require(qkv.size(1) == (n + 2 * k) * d && qkv.size(0) > 0, "fused_layer", "a joined q|k|v buffer");
  return {slice_heads(qkv, 0, n, d), slice_heads(qkv, n, k, d), slice_heads(qkv, n + k, k, d)};
}

std::pair<at::Tensor, at::Tensor> gate_and_up(const at::Tensor& concat) {
  const std::int64_t half = concat.size(1) / 2;
  return {concat.narrow(1, 0, half), concat.narrow(1, half, half)};
}

// One layer's calls, so that the forward and every level of recompute run the same lines.
class Pieces {
 public:
  Pieces(const DecoderLayer& layer, const LayerPass& pass)
      : layer_(layer),
        norms_(norms_of(layer, pass.config, pass.context)),
        pass_(pass),
        config_(pass.config),
        ropes_(ropes_of(layer, pass.ropes)),
        dtype_(layer.o.weight.dtype()) {}

  // What attention or the MLP reads of the residual stream: its norm, or the stream itself; in the linears' dtype.
  at::Tensor read(const at::Tensor& stream, NormPlace place) const {
    return norms_[place].defined() ? norm(stream, norms_[place]) : stream.to(dtype_);
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
    std::int64_t width = 0;
    for (const ops::Linear& linear : linears) width += linear.weight.out();
    at::Tensor concat = at::empty({x.size(0), width}, x.options());
    std::vector<ops::LinearOutput> outputs;
    std::int64_t column = 0;
    for (const ops::Linear& linear : linears) {
      outputs.push_back({concat.narrow(1, column, linear.weight.out()), &linear, all[first++]});
      column += linear.weight.out();
    }
    ops::linears_into(outputs, x, pass_.context);
    return concat;
  }

  // q, k and v of `normed` before norm and rotation.
  at::Tensor multiply_qkv(const at::Tensor& normed, const std::vector<at::Tensor>& all) const {
    return multiply(layer_.qkv, normed, all, 0);
  }

  at::Tensor multiply_gate_up(const at::Tensor& normed, const std::vector<at::Tensor>& all) const {
    return multiply(layer_.gate_up, normed, all, of_gate_up());
  }

  // In place; returns a copy of q|k from before when there is a norm to go back through. Nothing of a short convolution.
  at::Tensor norm_and_rotate(const at::Tensor& qkv, bool keep) const {
    at::Tensor before;
    if (layer_.kind != LayerKind::kAttention) return before;
    if (keep && norms_[NormPlace::kQ].defined()) before = qkv.narrow(1, 0, width_of_qk()).clone();
    const Heads parts = heads_of(qkv, config_);
    norm_and_rotate(parts.q, NormPlace::kQ);
    norm_and_rotate(parts.k, NormPlace::kK);
    return before;
  }

  at::Tensor product(const at::Tensor& gate_up) const {
    at::Tensor out = at::empty({gate_up.size(0), gate_up.size(1) / 2}, gate_up.options());
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
      at::Tensor out = at::empty_like(residual);
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

  // From the gradient of add_linear()'s result that of the linear's output, in the linears' dtype.
  at::Tensor linear_gradient(const at::Tensor& d, NormPlace norm_after, const at::Tensor& branch) const {
    const at::Tensor scaled = config_.residual_scale == 1 ? d : d * config_.residual_scale;
    const at::Tensor& weight = norms_[norm_after];
    if (!weight.defined()) return scaled.to(dtype_);
    if (const at::Tensor& trained = layer_.trained[norm_after]; trained.defined())
      ops::rms_norm_weight_gradient(trained.grad(), scaled, branch, config_.rms_norm_eps);
    at::Tensor out = at::zeros_like(branch);
    ops::rms_norm_backward_add(out, scaled, branch, weight, config_.rms_norm_eps);
    return out;
  }

  // d (null: not wanted) += the gradient of what read() read, and a trained norm gets its own.
  void read_backward(at::Tensor* d, const at::Tensor& d_read, const at::Tensor& stream,
                     NormPlace place) const {
    const double eps = config_.rms_norm_eps;
    if (const at::Tensor& trained = layer_.trained[place]; trained.defined())
      ops::rms_norm_weight_gradient(trained.grad(), d_read, stream, eps);
    if (d == nullptr) return;
    if (norms_[place].defined()) {
      ops::rms_norm_backward_add(*d, d_read, stream, norms_[place], eps);
    } else {
      d->add_(d_read);
    }
  }

  // The same of norm_and_rotate() for queries or keys [T, heads, D], in place; x is their part of its copy.
  void rotation_backward(const at::Tensor& d, const at::Tensor& x, NormPlace place) const {
    const double eps = config_.rms_norm_eps;
    const at::Tensor &weight = norms_[place], &trained = layer_.trained[place];
    const bool by_head = weight.defined() && weight.size(0) == config_.head_dim;
    const ops::RopeTable* const rope = rope_of(place);
    if (trained.defined() && by_head) ops::norm_rope_weight_gradient(trained.grad(), d, x, eps, *rope);
    if (rope != nullptr) ops::norm_rope_backward(d, x, by_head ? weight : at::Tensor(), eps, *rope);
    if (!weight.defined() || by_head) return;
    const at::Tensor rows = d.flatten(1), before = x.flatten(1), dx = at::zeros(rows.sizes(), rows.options());
    if (trained.defined()) ops::rms_norm_weight_gradient(trained.grad(), rows, before, eps);
    ops::rms_norm_backward_add(dx, rows, before, weight, eps);
    rows.copy_(dx);
  }

  std::int64_t width_of_qk() const {
    return (config_.num_attention_heads + config_.num_key_value_heads) * config_.head_dim;
  }
  bool is_gelu() const { return config_.activation == Activation::kGeluTanh; }
  at::ScalarType dtype() const { return dtype_; }
  // Places in DecoderLayer::linears().
  std::size_t of_o() const { return layer_.qkv.size(); }
  std::size_t of_gate_up() const { return of_o() + 1; }
  std::size_t of_down() const { return of_gate_up() + layer_.gate_up.size(); }

 private:
  // In place. A norm over the whole projection comes first; one over each head goes with the rotation.
  void norm_and_rotate(const at::Tensor& heads, NormPlace place) const {
    const at::Tensor& weight = norms_[place];
    const ops::RopeTable* const rope = rope_of(place);
    const bool by_head = weight.defined() && weight.size(0) == config_.head_dim;
    if (weight.defined() && !by_head) {
      const at::Tensor rows = heads.flatten(1);
      ops::rms_norm_into(rows, rows, weight, config_.rms_norm_eps);
    }
    base::require(rope != nullptr || !by_head, "fused_layer", "a rotation after a norm of each head");
    if (rope == nullptr) return;
    ops::norm_rope_into(heads, heads, by_head ? weight : at::Tensor(), config_.rms_norm_eps, *rope);
  }

  const ops::RopeTable* rope_of(NormPlace place) const {
    return place == NormPlace::kQ ? ropes_.q : ropes_.k;
  }

  const DecoderLayer& layer_;
  LayerNorms norms_;
  const LayerPass& pass_;
  const ModelConfig& config_;
  LayerRopes ropes_;
  at::ScalarType dtype_;
};

// Fills attn_out [T, N D] and, when defined, lse [T, N], from the normed and rotated q|k|v; of a short convolution
// attn_out [T, H], from b|c|x.
using MixInto = std::function<void(const at::Tensor& attn_out, const at::Tensor& lse, const at::Tensor& qkv)>;

void convolve(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& out, const at::Tensor& bcx,
              const at::Tensor& inputs, const std::vector<ops::ConvRows>& rows) {
  ops::short_conv_into(out, inputs, bcx, tensor_of(layer, TensorKind::kConvWeight, pass.context),
                       tensor_of(layer, TensorKind::kConvBias, pass.context), rows);
}

// Convolves each segment after what its cache holds, and appends its inputs.
void convolve_after(const DecoderLayer& layer, const LayerPass& pass, const std::vector<StepCache>& caches,
                    const Segments& segments, const at::Tensor& out, const at::Tensor& bcx) {
  const std::int64_t wanted = pass.config.conv_taps - 1;
  const at::Tensor inputs = ops::conv_inputs(bcx);
  std::vector<ops::ConvRows> rows;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto [before, own] = caches[i];
    at::Tensor earlier = own->inputs.last(wanted);
    if (before != nullptr && earlier.size(0) < wanted)
      earlier = at::cat({before->inputs.last(wanted - earlier.size(0)), earlier});
    rows.push_back({segments[i].begin, segments[i].end, earlier});
  }
  convolve(layer, pass, out, bcx, inputs, rows);
  for (std::size_t i = 0; i < segments.size(); ++i)
    caches[i].own->inputs.append(inputs.narrow(0, segments[i].begin, segments[i].end - segments[i].begin));
}

// Appends each segment's keys and values to its cache and attends to all that the cache then holds.
void attend_after(const std::vector<StepCache>& caches, const Segments& segments, const at::Tensor& attn_out,
                  const at::Tensor& lse, const Heads& heads, const ops::AttentionRule& rule) {
  std::vector<ops::AttentionRows> rows;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::int64_t begin = segments[i].begin, end = segments[i].end;
    ops::KvTiles* const own = &caches[i].own->tiles;
    const LayerCache* const before = caches[i].before;
    const std::int64_t offset = own->length();
    own->append(heads.k.narrow(0, begin, end - begin), heads.v.narrow(0, begin, end - begin));
    rows.push_back({.begin = begin, .end = end, .before = {}, .own = own, .own_offset = offset});
    if (before != nullptr) rows.back().before = {&before->tiles};
  }
  ops::attend_tiles(attn_out, lse, heads.q, rows, rule);
}

at::Tensor forward(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                   RecomputeLevel recompute, LayerTape* tape, const MixInto& mix) {
  const Pieces pieces(layer, pass);
  const ModelConfig& config = pass.config;
  const bool taped = tape != nullptr;
  std::vector<at::Tensor> lora_a_out;

  const at::Tensor normed = pieces.read(x, NormPlace::kBeforeAttention);
  pieces.lora_a_forwards(layer.qkv, normed, lora_a_out);
  at::Tensor qkv = pieces.multiply_qkv(normed, lora_a_out);
  const at::Tensor before = pieces.norm_and_rotate(qkv, taped && recompute != RecomputeLevel::kLayer);
  at::Tensor attn_out = at::empty({x.size(0), layer.o.weight.in()}, qkv.options());
  at::Tensor lse;
  if (taped && layer.kind == LayerKind::kAttention)
    lse = at::empty({x.size(0), config.num_attention_heads}, x.options().dtype(at::kFloat));
  mix(attn_out, lse, qkv);
  pieces.lora_a_forwards({&layer.o, 1}, attn_out, lora_a_out);
  const at::Tensor post_attn_residual =
      pieces.add_linear(x, layer.o, attn_out, lora_a_out[pieces.of_o()], NormPlace::kAfterAttention,
                        taped ? &tape->o_out : nullptr);
  if (taped) {
    tape->input = x;
    tape->post_attn_residual = post_attn_residual;
    tape->attn_out = attn_out;
    tape->lse = lse;
    if (recompute == RecomputeLevel::kNone) tape->normed = normed;
    if (recompute != RecomputeLevel::kLayer) {
      tape->qkv = qkv;
      tape->qk_before_norm = before;
    }
  }
  qkv.reset();
  attn_out.reset();

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
    tape->lora_a_out = lora_a_out;
    if (recompute == RecomputeLevel::kNone) tape->product = product;
    if (recompute != RecomputeLevel::kLayer) tape->gate_up = gate_up;
  }
  gate_up.reset();
  return pieces.add_linear(post_attn_residual, layer.down, product, lora_a_out[pieces.of_down()],
                           NormPlace::kAfterMlp, taped ? &tape->down_out : nullptr);
}

// The backward of one layer, from its output down.
class LayerBackward {
 public:
  LayerBackward(const DecoderLayer& layer, const LayerPass& pass, LayerTape& tape)
      : layer_(layer), pass_(pass), pieces_(layer, pass), tape_(tape) {}

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
    const at::Tensor d_down = pieces_.linear_gradient(d, NormPlace::kAfterMlp, tape_.down_out);
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
    pieces_.read_backward(&d, d_read, tape_.post_attn_residual, NormPlace::kBeforeMlp);
    tape_.post_attn_residual.reset();
  }

  // o(attention(q, k, v)), or o(convolution(b, c, x))
  void mixer(at::Tensor& d, const Segments& segments, bool input_gradient) {
    at::Tensor d_seen =
        of_linears({&layer_.o, 1}, pieces_.of_o(),
                   pieces_.linear_gradient(d, NormPlace::kAfterAttention, tape_.o_out), tape_.attn_out);
    if (!tape_.normed.defined()) tape_.normed = pieces_.read(tape_.input, NormPlace::kBeforeAttention);
    if (!tape_.qkv.defined()) {
      tape_.qkv = pieces_.multiply_qkv(tape_.normed, tape_.lora_a_out);
      tape_.qk_before_norm = pieces_.norm_and_rotate(tape_.qkv, true);
    }
    layer_.kind == LayerKind::kShortConv ? convolution(d_seen, segments) : attention(d_seen, segments);
    d_seen.reset();
    tape_.attn_out.reset();
    const bool wanted = input_gradient || layer_.trained[NormPlace::kBeforeAttention].defined();
    const at::Tensor d_read = of_linears(layer_.qkv, 0, tape_.qkv, tape_.normed, wanted);
    pieces_.read_backward(input_gradient ? &d : nullptr, d_read, tape_.input, NormPlace::kBeforeAttention);
  }

 private:
  // Gradients take the place of q, k and v.
  void attention(const at::Tensor& d_seen, const Segments& segments) {
    const ModelConfig& config = pass_.config;
    const Heads out = heads_of(tape_.qkv, config);
    ops::packed_attention_backward(out.q, out.k, out.v, d_seen, out.q, out.k, out.v, tape_.attn_out,
                                   tape_.lse, segments, attention_rule(layer_, config));
    Heads before;
    if (tape_.qk_before_norm.defined()) {
      const std::int64_t n = config.num_attention_heads, k = config.num_key_value_heads;
      before.q = slice_heads(tape_.qk_before_norm, 0, n, config.head_dim);
      before.k = slice_heads(tape_.qk_before_norm, n, k, config.head_dim);
    }
    pieces_.rotation_backward(out.q, before.q, NormPlace::kQ);
    pieces_.rotation_backward(out.k, before.k, NormPlace::kK);
  }

  // ... of b, c and x.
  void convolution(const at::Tensor& d_seen, const Segments& segments) {
    const auto gradient = [this](TensorKind kind) {
      const at::Tensor& trained = layer_.trained_tensors[kind];
      return trained.defined() ? trained.grad() : trained;
    };
    ops::short_conv_backward(tape_.qkv, d_seen, tensor_of(layer_, TensorKind::kConvWeight, pass_.context),
                             tensor_of(layer_, TensorKind::kConvBias, pass_.context), segments,
                             gradient(TensorKind::kConvWeight), gradient(TensorKind::kConvBias));
  }

  // The mixture of experts instead of the MLP.
  void experts(at::Tensor& d) {
    const at::Tensor d_out = pieces_.linear_gradient(d, NormPlace::kAfterMlp, tape_.down_out);
    const at::Tensor d_read = fused_sparse_backward(*layer_.experts, pass_.config, tape_.normed_mlp, d_out,
                                                    pass_.context, tape_.experts, pass_.balance);
    tape_.normed_mlp.reset();
    pieces_.read_backward(&d, d_read, tape_.post_attn_residual, NormPlace::kBeforeMlp);
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
  if (layer.kind == LayerKind::kShortConv) {
    return forward(layer, pass, x, recompute, tape,
                   [&](const at::Tensor& out, const at::Tensor& /*lse*/, const at::Tensor& bcx) {
                     const at::Tensor inputs = ops::conv_inputs(bcx);
                     convolve(layer, pass, out, bcx, inputs,
                              ops::conv_rows(inputs, segments, pass.config.conv_taps));
                   });
  }
  return forward(layer, pass, x, recompute, tape,
                 [&](const at::Tensor& attn_out, const at::Tensor& lse, const at::Tensor& qkv) {
                   const ModelConfig& config = pass.config;
                   const Heads heads = heads_of(qkv, config);
                   std::vector<LayerCache> tiles(segments.size());
                   std::vector<StepCache> caches;
                   for (std::size_t i = 0; i < segments.size(); ++i) {
                     const ops::AttentionSegment& s = segments[i];
                     tiles[i].tiles = ops::KvTiles(config.num_key_value_heads, config.head_dim,
                                                   qkv.scalar_type(), s.end - s.begin, qkv.device());
                     const LayerCache* const before =
                         s.prefix == ops::kNoSegment ? nullptr : &tiles[static_cast<std::size_t>(s.prefix)];
                     caches.push_back({.before = before, .own = &tiles[i]});
                   }
                   attend_after(caches, segments, attn_out, lse, heads, attention_rule(layer, config));
                 });
}

at::Tensor fused_layer_step(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                            const Segments& segments, const std::vector<StepCache>& caches) {
  base::require(segments.size() == caches.size(), "explicit_layer_step", "one cache a sequence");
  return forward(layer, pass, x, RecomputeLevel::kNone, nullptr,
                 [&](const at::Tensor& attn_out, const at::Tensor& lse, const at::Tensor& qkv) {
                   if (layer.kind == LayerKind::kShortConv) {
                     convolve_after(layer, pass, caches, segments, attn_out, qkv);
                   } else {
                     attend_after(caches, segments, attn_out, lse, heads_of(qkv, pass.config),
                                  attention_rule(layer, pass.config));
                   }
                 });
}

void fused_layer_backward(const DecoderLayer& layer, const LayerPass& pass, const Segments& segments,
                          LayerTape& tape, at::Tensor& d, bool input_gradient) {
  LayerBackward backward(layer, pass, tape);
  backward.mlp(d);
  backward.mixer(d, segments, input_gradient);
  tape = LayerTape();
}

}  // namespace hone::model
