// The names follow decoder_layer.cpp; what each level keeps is in the header.
#include "model/layers/fused_layer.h"

#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/layers/layer_states.h"
#include "ops/fused_linear.h"
#include "ops/join/join.h"
#include "ops/rms_norm.h"
#include "ops/sampling/append_rotated.h"
#include "ops/short_conv.h"
#include "ops/sigmoid_gate.h"
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

// Of a layer that reads the keys of another one only q is there.
Heads heads_of(const at::Tensor& qkv, const DecoderLayer& layer, const ModelConfig& config) {
  const std::int64_t n = config.num_attention_heads, k = layer.attention.kv_heads,
                     d = layer.attention.head_dim;
  const bool whole = layer.attention.has_keys();
  base::require(qkv.size(1) == (whole ? n + 2 * k : n) * d && qkv.size(0) > 0, "fused_layer",
                "a joined q|k|v buffer");
  if (!whole) return {.q = slice_heads(qkv, 0, n, d), .k = {}, .v = {}};
  return {slice_heads(qkv, 0, n, d), slice_heads(qkv, n, k, d), slice_heads(qkv, n + k, k, d)};
}

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
        ropes_(ropes_of(layer, pass.ropes)),
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

  // q, k and v of `normed` before norm and rotation.
  at::Tensor multiply_qkv(const at::Tensor& normed, const std::vector<at::Tensor>& all) const {
    return multiply(layer_.qkv, normed, all, 0);
  }

  // Takes the gates out of what multiply_qkv() gave: `qkv` is q|k|v afterwards. Undefined, and `qkv` as it was, without any.
  at::Tensor take_gate(at::Tensor& qkv) const {
    if (!is_gated()) return {};
    const std::int64_t width = config_.num_attention_heads * config_.head_dim;
    const at::Tensor both = qkv, gate = at::empty({qkv.size(0), width}, qkv.options());
    qkv = at::empty({both.size(0), both.size(1) - width}, both.options());
    const at::Tensor heads =
        both.narrow(1, 0, 2 * width).unflatten(1, {config_.num_attention_heads, 2, config_.head_dim});
    qkv.narrow(1, 0, width).unflatten(1, {-1, config_.head_dim}).copy_(heads.select(2, 0));
    gate.unflatten(1, {-1, config_.head_dim}).copy_(heads.select(2, 1));
    qkv.narrow(1, width, qkv.size(1) - width).copy_(both.narrow(1, 2 * width, qkv.size(1) - width));
    return gate;
  }

  // The way back: q|k|v and gates side by side as the linears have them.
  at::Tensor with_gate(const at::Tensor& qkv, const at::Tensor& gate) const {
    if (!gate.defined()) return qkv;
    const std::int64_t width = gate.size(1);
    at::Tensor out = at::empty({qkv.size(0), qkv.size(1) + width}, qkv.options());
    const at::Tensor heads =
        out.narrow(1, 0, 2 * width).unflatten(1, {config_.num_attention_heads, 2, config_.head_dim});
    heads.select(2, 0).copy_(qkv.narrow(1, 0, width).unflatten(1, {-1, config_.head_dim}));
    heads.select(2, 1).copy_(gate.unflatten(1, {-1, config_.head_dim}));
    out.narrow(1, 2 * width, qkv.size(1) - width).copy_(qkv.narrow(1, width, qkv.size(1) - width));
    return out;
  }

  // attn_out [T, N D] after its gate; itself without one.
  static at::Tensor gated(const at::Tensor& attn_out, const at::Tensor& gate) {
    if (!gate.defined()) return attn_out;
    at::Tensor out = at::empty_like(attn_out);
    ops::sigmoid_gate_into(out, attn_out, gate);
    return out;
  }

  bool is_gated() const { return layer_.kind == LayerKind::kAttention && config_.attention_gate; }

  at::Tensor multiply_gate_up(const at::Tensor& normed, const std::vector<at::Tensor>& all) const {
    return multiply(layer_.gate_up, normed, all, of_gate_up());
  }

  // In place; returns a copy of q|k, or q|k|v, from before when there is a norm to go back through. Nothing of a short
  // convolution.
  at::Tensor norm_and_rotate(const at::Tensor& qkv, bool keep) const {
    at::Tensor before;
    if (layer_.kind != LayerKind::kAttention) return before;
    if (keep && norms_[NormPlace::kQ].defined()) before = qkv.narrow(1, 0, width_of_normed()).clone();
    const Heads parts = heads_of(qkv, layer_, config_);
    if (rotates_together()) {
      norm_and_rotate(queries_and_keys(qkv), NormPlace::kQ);
    } else {
      norm_and_rotate(parts.q, NormPlace::kQ);
      if (!layer_.attention.has_keys()) return before;
      norm_and_rotate(parts.k, NormPlace::kK);
    }
    if (norms_[NormPlace::kV].defined()) norm_and_rotate(parts.v, NormPlace::kV);
    return before;
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

  // The same of norm_and_rotate() for queries or keys [T, heads, D], in place; x is their part of its copy.
  void rotation_backward(const at::Tensor& d, const at::Tensor& x, NormPlace place) const {
    const double eps = config_.rms_norm_eps;
    const at::Tensor &weight = norms_[place], &trained = layer_.trained[place];
    const bool by_head = weight.defined() && weight.size(0) == layer_.attention.head_dim;
    const ops::RopeTable* const rope = rope_of(place);
    if (trained.defined() && by_head) ops::norm_rope_weight_gradient(trained.grad(), d, x, eps, *rope);
    if (rope != nullptr) ops::norm_rope_backward(d, x, by_head ? weight : at::Tensor(), eps, *rope);
    if (!weight.defined() || by_head) return;
    const at::Tensor rows = d.flatten(1), before = x.flatten(1), dx = at::zeros(rows.sizes(), rows.options());
    if (trained.defined()) ops::rms_norm_weight_gradient(trained.grad(), rows, before, eps);
    ops::rms_norm_backward_add(dx, rows, before, weight, eps);
    rows.copy_(dx);
  }

  // Of q, k and v those that have a norm.
  std::int64_t width_of_normed() const {
    const LayerAttention& own = layer_.attention;
    const std::int64_t of_keys = own.has_keys() ? (norms_[NormPlace::kV].defined() ? 2 : 1) : 0;
    return (config_.num_attention_heads + of_keys * own.kv_heads) * own.head_dim;
  }
  // What norm_and_rotate() does to the heads of queries and keys, where it is one rule for each and nothing is done to values.
  std::optional<ops::HeadRotation> rotation() const {
    const at::Tensor &q = norms_[NormPlace::kQ], &k = norms_[NormPlace::kK];
    const auto by_head = [&](const at::Tensor& norm) {
      return !norm.defined() || norm.size(0) == layer_.attention.head_dim;
    };
    const bool is_one = layer_.kind == LayerKind::kAttention && layer_.attention.has_keys() &&
                        ropes_.q != nullptr && ropes_.q == ropes_.k && by_head(q) && by_head(k) &&
                        !norms_[NormPlace::kV].defined();
    if (!is_one) return std::nullopt;
    return ops::HeadRotation{.q_norm = q, .k_norm = k, .eps = config_.rms_norm_eps, .table = ropes_.q};
  }
  // Whether queries and keys are rotated alike, without a norm: then they are rotated in one call.
  bool rotates_together() const {
    return layer_.attention.has_keys() && ropes_.q == ropes_.k && !norms_[NormPlace::kQ].defined() &&
           !norms_[NormPlace::kK].defined();
  }
  at::Tensor queries_and_keys(const at::Tensor& qkv) const {
    const LayerAttention& own = layer_.attention;
    return slice_heads(qkv, 0, config_.num_attention_heads + own.kv_heads, own.head_dim);
  }
  bool is_gelu() const { return config_.activation == Activation::kGeluTanh; }
  at::ScalarType dtype() const { return dtype_; }
  // Places in DecoderLayer::linears().
  std::size_t of_o() const { return layer_.qkv.size(); }
  std::size_t of_gate_up() const { return of_o() + 1; }
  std::size_t of_down() const { return of_gate_up() + layer_.gate_up.size(); }
  std::size_t of_per_layer() const { return of_down() + 1; }

 private:
  // In place. A norm over the whole projection comes first; one over each head goes with the rotation.
  void norm_and_rotate(const at::Tensor& heads, NormPlace place) const {
    const at::Tensor& weight = norms_[place];
    const ops::RopeTable* const rope = rope_of(place);
    const bool by_head = weight.defined() && weight.size(0) == layer_.attention.head_dim;
    if (weight.defined() && !by_head) {
      const at::Tensor rows = heads.flatten(1);
      ops::rms_norm_into(rows, rows, weight, config_.rms_norm_eps);
    }
    base::require(rope != nullptr || !by_head, "fused_layer", "a rotation after a norm of each head");
    if (rope == nullptr) return;
    ops::norm_rope_into(heads, heads, by_head ? weight : at::Tensor(), config_.rms_norm_eps, *rope);
  }

  const ops::RopeTable* rope_of(NormPlace place) const {
    return place == NormPlace::kQ ? ropes_.q : place == NormPlace::kK ? ropes_.k : ropes_.v;
  }

  const DecoderLayer& layer_;
  const bool onto_stream_;
  LayerNorms norms_;
  const LayerPass& pass_;
  const ModelConfig& config_;
  LayerRopes ropes_;
  at::ScalarType dtype_;
};

// Fills attn_out [T, N D] and, when defined, lse [T, N], from the normed and rotated q|k|v; of a short convolution
// attn_out [T, H], from b|c|x; of a delta rule [T, V E], from q|k|v|z|b|a. In a step it norms and rotates itself.
using MixInto = std::function<void(const Pieces& pieces, const at::Tensor& attn_out, const at::Tensor& lse,
                                   const at::Tensor& qkv)>;

// What puts keys and values into caches.
using Append = std::function<void(std::span<const ops::KvAppend>, const at::Tensor& k, const at::Tensor& v)>;

// Appends each segment's keys and values, if there are any, to its cache and attends to all that the cache then holds. In
// a layer that reads those of another one the caches have them already.
void attend_after(const std::vector<StepCache>& caches, const Segments& segments, const at::Tensor& attn_out,
                  const at::Tensor& lse, const Heads& heads, const ops::AttentionRule& rule,
                  const Append& append = ops::append_all) {
  if (heads.k.defined()) {
    std::vector<ops::KvAppend> added;
    added.reserve(segments.size());
    for (std::size_t i = 0; i < segments.size(); ++i)
      added.push_back({.tiles = &caches[i].own->tiles, .begin = segments[i].begin, .end = segments[i].end});
    append(added, heads.k, heads.v);
  }
  thread_local std::vector<ops::AttentionRows> rows;  // all layers have lists of the same lengths
  rows.resize(segments.size());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    ops::AttentionRows& row = rows[i];
    row.begin = segments[i].begin;
    row.end = segments[i].end;
    row.own = &caches[i].own->tiles;
    row.own_offset = row.own->length() - (row.end - row.begin);
    row.before.clear();
    for (const LayerCache* const before : caches[i].before) row.before.push_back(&before->tiles);
  }
  ops::attend_tiles(attn_out, lse, heads.q, rows, rule);
}

// The same of a step, from q|k|v that are neither normed nor rotated.
void attend_in_step(const Pieces& pieces, const DecoderLayer& layer, const LayerPass& pass,
                    const std::vector<StepCache>& caches, const Segments& segments,
                    const at::Tensor& attn_out, const at::Tensor& lse, const at::Tensor& qkv) {
  const auto rotate = [&] { pieces.norm_and_rotate(qkv, false); };
  const std::optional<ops::HeadRotation> rotation = pieces.rotation();
  if (!rotation) rotate();
  const LayerAttention& own = layer.attention;
  const auto append = [&](std::span<const ops::KvAppend> rows, const at::Tensor& k, const at::Tensor& v) {
    if (!rotation) return ops::append_all(rows, k, v);
    const std::int64_t heads = pass.config.num_attention_heads + 2 * own.kv_heads;
    ops::append_rotated(rows, slice_heads(qkv, 0, heads, own.head_dim), *rotation, rotate);
  };
  attend_after(caches, segments, attn_out, lse, heads_of(qkv, layer, pass.config),
               attention_rule(layer, pass.config), append);
}

// Empty tiles for the keys and values of each segment.
std::vector<LayerCache> tiles_for(const DecoderLayer& layer, const Segments& segments,
                                  const at::Tensor& qkv) {
  std::vector<LayerCache> tiles(segments.size());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    tiles[i].tiles = ops::KvTiles(layer.attention.kv_heads, layer.attention.head_dim, qkv.scalar_type(),
                                  segments[i].end - segments[i].begin, qkv.device());
  }
  return tiles;
}

// Of sides' products that lie behind what a linear reads (ops/join/join.h) copies, where the tape does not keep that.
void keep_apart(std::vector<at::Tensor>& lora_a_out) {
  for (at::Tensor& one : lora_a_out) {
    if (one.defined() && one.storage().nbytes() > one.nbytes()) one = one.clone();
  }
}

// `is_step`: of a sampler, so that `mix` gets q|k|v as they are. `onto_x`: x is nobody else's, and may become the result.
at::Tensor forward(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                   RecomputeLevel recompute, LayerTape* tape, const MixInto& mix, bool is_step = false,
                   bool onto_x = false) {
  const Pieces pieces(layer, pass, onto_x);
  const ModelConfig& config = pass.config;
  const bool taped = tape != nullptr;
  std::vector<at::Tensor> lora_a_out;

  const at::Tensor normed = pieces.read(x, NormPlace::kBeforeAttention);
  pieces.lora_a_forwards(layer.qkv, normed, lora_a_out);
  at::Tensor qkv = pieces.multiply_qkv(normed, lora_a_out);
  const at::Tensor gate = pieces.take_gate(qkv);
  at::Tensor before;
  if (!is_step) before = pieces.norm_and_rotate(qkv, taped && recompute != RecomputeLevel::kLayer);
  at::Tensor attn_out = ops::input_rows({&layer.o, 1}, x.size(0), qkv.options());
  at::Tensor lse;
  if (taped && layer.kind == LayerKind::kAttention)
    lse = ops::empty_log_sums(x.size(0), config.num_attention_heads, x.options());
  mix(pieces, attn_out, lse, qkv);
  at::Tensor seen = Pieces::gated(attn_out, gate);
  pieces.lora_a_forwards({&layer.o, 1}, seen, lora_a_out);
  const at::Tensor post_attn_residual =
      pieces.add_linear(x, layer.o, seen, lora_a_out[pieces.of_o()], NormPlace::kAfterAttention,
                        taped ? &tape->o_out : nullptr);
  if (taped) {
    tape->input = x;
    tape->post_attn_residual = post_attn_residual;
    tape->attn_out = attn_out;
    tape->lse = lse;
    if (recompute == RecomputeLevel::kNone) tape->normed = normed;
    if (recompute != RecomputeLevel::kLayer) {
      tape->qkv = qkv;
      tape->gate = gate;
      tape->qk_before_norm = before;
    }
  }
  qkv.reset();
  seen.reset();
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

  // o(attention(q, k, v)), with a gate between them; or o(convolution(b, c, x)), o(delta_rule(q, k, v, z, b, a))
  void mixer(at::Tensor& d, const Segments& segments, bool input_gradient) {
    if (pieces_.is_gated()) recompute_qkv();  // o reads what the gate gives
    at::Tensor d_seen =
        of_linears({&layer_.o, 1}, pieces_.of_o(),
                   pieces_.linear_gradient(d, NormPlace::kAfterAttention, tape_.o_out, &layer_.o),
                   Pieces::gated(tape_.attn_out, tape_.gate));
    recompute_qkv();
    if (pieces_.is_gated()) ops::sigmoid_gate_backward(tape_.gate, d_seen, tape_.attn_out);
    if (layer_.kind == LayerKind::kDeltaRule) {
      delta_rule(d_seen, segments);
    } else {
      layer_.kind == LayerKind::kShortConv ? convolution(d_seen, segments) : attention(d_seen, segments);
    }
    d_seen.reset();
    tape_.attn_out.reset();
    tape_.qkv = pieces_.with_gate(tape_.qkv, tape_.gate);
    tape_.gate.reset();
    const bool wanted = input_gradient || layer_.trained[NormPlace::kBeforeAttention].defined();
    const at::Tensor d_read = of_linears(layer_.qkv, 0, tape_.qkv, tape_.normed, wanted);
    // of the layer below, which has the same shapes
    const ops::Linear* const next = layer_.experts || layer_.per_layer ? nullptr : &layer_.down;
    pieces_.read_backward(input_gradient ? &d : nullptr, d_read, tape_.input, NormPlace::kBeforeAttention,
                          next);
  }

 private:
  // Gradients take the place of q, k and v.
  void attention(const at::Tensor& d_seen, const Segments& segments) {
    const ModelConfig& config = pass_.config;
    const LayerAttention& own = layer_.attention;
    const Heads out = heads_of(tape_.qkv, layer_, config);
    if (own.has_keys()) {
      ops::packed_attention_backward(out.q, out.k, out.v, d_seen, out.q, out.k, out.v, tape_.attn_out,
                                     tape_.lse, segments, attention_rule(layer_, config));
      if (own.is_shared) take_shared_gradient(out);
    } else {
      shared_attention(out.q, d_seen, segments);
    }
    const at::Tensor& kept = tape_.qk_before_norm;
    const std::int64_t n = config.num_attention_heads, k = own.kv_heads, d = own.head_dim;
    if (pieces_.rotates_together()) {
      pieces_.rotation_backward(pieces_.queries_and_keys(tape_.qkv), {}, NormPlace::kQ);
    } else {
      pieces_.rotation_backward(out.q, kept.defined() ? slice_heads(kept, 0, n, d) : kept, NormPlace::kQ);
      if (!own.has_keys()) return;
      pieces_.rotation_backward(out.k, kept.defined() ? slice_heads(kept, n, k, d) : kept, NormPlace::kK);
    }
    if (config.value_norm) pieces_.rotation_backward(out.v, slice_heads(kept, n + k, k, d), NormPlace::kV);
  }

  // Of queries that read another layer's keys and values, whose gradients are added to those of the layers above.
  void shared_attention(const at::Tensor& q, const at::Tensor& d_seen, const Segments& segments) {
    SharedKeys& shared = pass_.shared->at(layer_.attention.shares);
    const at::Tensor dk = at::empty(shared.k.sizes(), q.options()), dv = at::empty_like(dk);
    ops::packed_attention_backward(q, dk, dv, d_seen, q, shared.k, shared.v, tape_.attn_out, tape_.lse,
                                   segments, attention_rule(layer_, pass_.config));
    if (shared.dk.defined()) {
      shared.dk.add_(dk);
      shared.dv.add_(dv);
    } else {
      shared.dk = dk.to(at::kFloat);
      shared.dv = dv.to(at::kFloat);
    }
  }

  // The gradients of keys and values plus those of the layers above that read them; one rounding.
  void take_shared_gradient(const Heads& gradients) {
    SharedKeys& shared = pass_.shared->at(layer_.number);
    if (!shared.dk.defined()) return;
    gradients.k.copy_(shared.dk.add_(gradients.k));
    gradients.v.copy_(shared.dv.add_(gradients.v));
    shared = SharedKeys();
  }

  void recompute_qkv() {
    if (!tape_.normed.defined()) tape_.normed = pieces_.read(tape_.input, NormPlace::kBeforeAttention);
    if (tape_.qkv.defined()) return;
    tape_.qkv = pieces_.multiply_qkv(tape_.normed, tape_.lora_a_out);
    tape_.gate = pieces_.take_gate(tape_.qkv);
    tape_.qk_before_norm = pieces_.norm_and_rotate(tape_.qkv, true);
  }

  // ... of q, k, v, z, b and a.
  void delta_rule(const at::Tensor& d_seen, const Segments& segments) {
    const auto gradient = [this](TensorKind kind) {
      const at::Tensor& trained = layer_.trained_tensors[kind];
      return trained.defined() ? trained.grad() : trained;
    };
    ops::delta_rule_backward(tape_.qkv, d_seen, delta_weights(layer_, pass_.context),
                             delta_shape(pass_.config), segments,
                             {.conv = gradient(TensorKind::kDeltaConv),
                              .a_log = gradient(TensorKind::kDeltaALog),
                              .dt_bias = gradient(TensorKind::kDeltaDtBias),
                              .norm = gradient(TensorKind::kDeltaNorm)});
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
  if (layer.kind == LayerKind::kShortConv) {
    return forward(layer, pass, x, recompute, tape,
                   [&](const Pieces& /*pieces*/, const at::Tensor& out, const at::Tensor& /*lse*/,
                       const at::Tensor& bcx) {
                     const at::Tensor inputs = ops::conv_inputs(bcx);
                     convolve(layer, pass, out, bcx, inputs,
                              ops::conv_rows(inputs, segments, pass.config.conv_taps));
                   });
  }
  if (layer.kind == LayerKind::kDeltaRule) {
    return forward(layer, pass, x, recompute, tape,
                   [&](const Pieces& /*pieces*/, const at::Tensor& out, const at::Tensor& /*lse*/,
                       const at::Tensor& in) {
                     ops::delta_rule_into(out, in, delta_weights(layer, pass.context),
                                          delta_shape(pass.config), segments);
                   });
  }
  return forward(layer, pass, x, recompute, tape,
                 [&](const Pieces& /*pieces*/, const at::Tensor& attn_out, const at::Tensor& lse,
                     const at::Tensor& qkv) {
                   const ModelConfig& config = pass.config;
                   const Heads heads = heads_of(qkv, layer, config);
                   const bool alone = layer.attention.has_keys() && !layer.attention.is_shared;
                   if (alone) {
                     ops::attend_packed(attn_out, lse, heads.q, heads.k, heads.v, segments,
                                        attention_rule(layer, config));
                     return;
                   }
                   SharedKeys own;
                   std::vector<LayerCache>& tiles =
                       layer.attention.has_keys() ? own.tiles : pass.shared->at(layer.attention.shares).tiles;
                   if (layer.attention.has_keys()) tiles = tiles_for(layer, segments, qkv);
                   std::vector<StepCache> caches;
                   for (std::size_t i = 0; i < segments.size(); ++i) {
                     const ops::AttentionSegment& s = segments[i];
                     caches.push_back({.before = {}, .own = &tiles[i]});
                     if (s.prefix != ops::kNoSegment)
                       caches.back().before = {&tiles[static_cast<std::size_t>(s.prefix)]};
                   }
                   attend_after(caches, segments, attn_out, lse, heads, attention_rule(layer, config));
                   if (!layer.attention.is_shared) return;
                   if (pass.keeps_shared) {
                     // a tape of level kLayer has no q, k and v
                     const bool views = tape != nullptr && recompute != RecomputeLevel::kLayer;
                     own.k = views ? heads.k : heads.k.clone();
                     own.v = views ? heads.v : heads.v.clone();
                   }
                   pass.shared->insert_or_assign(layer.number, std::move(own));
                 });
}

at::Tensor fused_layer_step(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                            const Segments& segments, const std::vector<StepCache>& caches) {
  base::require(segments.size() == caches.size(), "explicit_layer_step", "one cache a sequence");
  return forward(
      layer, pass, x, RecomputeLevel::kNone, nullptr,
      [&](const Pieces& pieces, const at::Tensor& attn_out, const at::Tensor& lse, const at::Tensor& qkv) {
        if (layer.kind == LayerKind::kShortConv) {
          convolve_after(layer, pass, caches, segments, attn_out, qkv);
        } else if (layer.kind == LayerKind::kDeltaRule) {
          delta_rule_after(layer, pass, caches, segments, attn_out, qkv);
        } else {
          attend_in_step(pieces, layer, pass, caches, segments, attn_out, lse, qkv);
        }
      },
      /*is_step=*/true, ops::pools_keys(x.device()));
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
