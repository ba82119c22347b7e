// The names follow decoder_layer.cpp; what each level keeps is in the header.
#include "model/fused_layer.h"

#include <ATen/ATen.h>

#include <array>
#include <functional>

#include "base/error.h"
#include "ops/fused_linear.h"
#include "ops/rms_norm.h"
#include "ops/swiglu.h"

namespace hone::model {
namespace {

enum Module { kQ, kK, kV, kO, kGate, kUp, kDown };

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
        norms_(norms_of(layer, pass.context)),
        pass_(pass),
        config_(pass.config),
        dtype_(layer.q.weight.dtype()) {}

  at::Tensor norm(const at::Tensor& x, const at::Tensor& weight) const {
    at::Tensor out = at::empty(x.sizes(), x.options().dtype(dtype_));
    ops::rms_norm_into(out, x, weight, config_.rms_norm_eps);
    return out;
  }

  at::Tensor lora_a_forward(Module module, const at::Tensor& x) const {
    return ops::lora_a_forward(*modules_[module], x, pass_.context);
  }

  // Of modules that read x.
  void lora_a_forwards(std::initializer_list<Module> modules, const at::Tensor& x,
                       at::Tensor* lora_a_out) const {
    std::vector<const ops::Linear*> linears;
    for (const Module m : modules) linears.push_back(modules_[m]);
    const std::vector<at::Tensor> found = ops::lora_a_forwards(linears, x, pass_.context);
    auto next = found.begin();
    for (const Module m : modules) lora_a_out[m] = *next++;
  }

  // q, k and v of `normed` before norm and rotation.
  at::Tensor multiply_qkv(const at::Tensor& normed, const at::Tensor* lora_a_out) const {
    const std::int64_t heads = config_.num_attention_heads + 2 * config_.num_key_value_heads;
    at::Tensor qkv = at::empty({normed.size(0), heads * config_.head_dim}, normed.options());
    const Heads parts = heads_of(qkv, config_);
    const std::array<ops::LinearOutput, 3> outputs{{{parts.q.flatten(1), &layer_.q, lora_a_out[kQ]},
                                                    {parts.k.flatten(1), &layer_.k, lora_a_out[kK]},
                                                    {parts.v.flatten(1), &layer_.v, lora_a_out[kV]}}};
    ops::linears_into(outputs, normed, pass_.context);
    return qkv;
  }

  // In place; returns a copy of q|k from before when there is a norm to go back through.
  at::Tensor norm_and_rotate(const at::Tensor& qkv, bool keep) const {
    at::Tensor before;
    if (keep && norms_.q_norm.defined()) before = qkv.narrow(1, 0, width_of_qk()).clone();
    const Heads parts = heads_of(qkv, config_);
    ops::norm_rope_into(parts.q, parts.q, norms_.q_norm, config_.rms_norm_eps, pass_.rope);
    ops::norm_rope_into(parts.k, parts.k, norms_.k_norm, config_.rms_norm_eps, pass_.rope);
    return before;
  }

  at::Tensor multiply_gate_up(const at::Tensor& normed, const at::Tensor* lora_a_out) const {
    const std::int64_t width = layer_.gate.weight.out();
    at::Tensor concat = at::empty({normed.size(0), 2 * width}, normed.options());
    const auto [gate, up] = gate_and_up(concat);
    const std::array<ops::LinearOutput, 2> outputs{
        {{gate, &layer_.gate, lora_a_out[kGate]}, {up, &layer_.up, lora_a_out[kUp]}}};
    ops::linears_into(outputs, normed, pass_.context);
    return concat;
  }

  at::Tensor product(const at::Tensor& gate_up) const {
    at::Tensor out = at::empty({gate_up.size(0), gate_up.size(1) / 2}, gate_up.options());
    const auto [gate, up] = gate_and_up(gate_up);
    ops::swiglu_into(out, gate, up);
    return out;
  }

  // residual + linear(x), in the residual's dtype.
  at::Tensor add_linear(const at::Tensor& residual, const ops::Linear& linear, const at::Tensor& x,
                        const at::Tensor& lora_a_out) const {
    at::Tensor out = at::empty_like(residual);
    ops::linear_into(out, linear, x, lora_a_out, pass_.context, residual);
    return out;
  }

  std::int64_t width_of_qk() const {
    return (config_.num_attention_heads + config_.num_key_value_heads) * config_.head_dim;
  }
  at::ScalarType dtype() const { return dtype_; }
  const LayerNorms& norms() const { return norms_; }

 private:
  const DecoderLayer& layer_;
  LayerNorms norms_;
  const LayerPass& pass_;
  const ModelConfig& config_;
  at::ScalarType dtype_;
  // In the order of Module.
  std::array<const ops::Linear*, 7> modules_{&layer_.q,    &layer_.k,  &layer_.v,   &layer_.o,
                                             &layer_.gate, &layer_.up, &layer_.down};
};

// Fills seen [T, N D] and, when defined, lse [T, N].
using AttendInto = std::function<void(const at::Tensor& attn_out, const at::Tensor& lse, const Heads& heads)>;

// Appends each segment's keys and values to its cache and attends to all that the cache then holds.
void attend_after(const std::vector<StepCache>& caches, const Segments& segments, const at::Tensor& attn_out,
                  const at::Tensor& lse, const Heads& heads) {
  std::vector<ops::AttentionRows> rows;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::int64_t begin = segments[i].begin, end = segments[i].end;
    const auto [before, own] = caches[i];
    const std::int64_t offset = own->length();
    own->append(heads.k.narrow(0, begin, end - begin), heads.v.narrow(0, begin, end - begin));
    rows.push_back({.begin = begin, .end = end, .before = {}, .own = own, .own_offset = offset});
    if (before != nullptr) rows.back().before = {before};
  }
  ops::attend_tiles(attn_out, lse, heads.q, rows);
}

at::Tensor forward(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                   RecomputeLevel recompute, LayerTape* tape, const AttendInto& attend) {
  const Pieces pieces(layer, pass);
  const ModelConfig& config = pass.config;
  const bool taped = tape != nullptr;
  std::array<at::Tensor, 7> lora_a_out;

  const at::Tensor normed = pieces.norm(x, pieces.norms().input_norm);
  pieces.lora_a_forwards({kQ, kK, kV}, normed, lora_a_out.data());
  at::Tensor qkv = pieces.multiply_qkv(normed, lora_a_out.data());
  const at::Tensor before = pieces.norm_and_rotate(qkv, taped && recompute != RecomputeLevel::kLayer);
  at::Tensor attn_out = at::empty({x.size(0), config.num_attention_heads * config.head_dim}, qkv.options());
  at::Tensor lse;
  if (taped) lse = at::empty({x.size(0), config.num_attention_heads}, x.options().dtype(at::kFloat));
  attend(attn_out, lse, heads_of(qkv, config));
  lora_a_out[kO] = pieces.lora_a_forward(kO, attn_out);
  const at::Tensor post_attn_residual = pieces.add_linear(x, layer.o, attn_out, lora_a_out[kO]);
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

  const at::Tensor normed_mlp = pieces.norm(post_attn_residual, pieces.norms().post_attention_norm);
  pieces.lora_a_forwards({kGate, kUp}, normed_mlp, lora_a_out.data());
  at::Tensor gate_up = pieces.multiply_gate_up(normed_mlp, lora_a_out.data());
  const at::Tensor product = pieces.product(gate_up);
  lora_a_out[kDown] = pieces.lora_a_forward(kDown, product);
  if (taped) {
    for (std::size_t m = 0; m < lora_a_out.size(); ++m) tape->lora_a_out[m] = lora_a_out[m];
    if (recompute == RecomputeLevel::kNone) {
      tape->normed_mlp = normed_mlp;
      tape->product = product;
    }
    if (recompute != RecomputeLevel::kLayer) tape->gate_up = gate_up;
  }
  gate_up.reset();
  return pieces.add_linear(post_attn_residual, layer.down, product, lora_a_out[kDown]);
}

// A norm's weight in this pass, and the trained one that it is a copy of; or undefined.
struct NormWeight {
  const at::Tensor& weight;
  const at::Tensor& trained;
};

// d (null: not wanted) += the gradient of the norm's input x, and the trained weight gets its own.
void norm_backward(at::Tensor* d, const at::Tensor& d_normed, const at::Tensor& x, const NormWeight& norm,
                   double eps) {
  if (norm.trained.defined()) ops::rms_norm_weight_gradient(norm.trained.grad(), d_normed, x, eps);
  if (d != nullptr) ops::rms_norm_backward_add(*d, d_normed, x, norm.weight, eps);
}

// The same through rotation and Q/K norm; in place.
void rotation_backward(const at::Tensor& d, const at::Tensor& x, const NormWeight& norm,
                       const LayerPass& pass) {
  const double eps = pass.config.rms_norm_eps;
  if (norm.trained.defined()) ops::norm_rope_weight_gradient(norm.trained.grad(), d, x, eps, pass.rope);
  ops::norm_rope_backward(d, x, norm.weight, eps, pass.rope);
}

}  // namespace

at::Tensor fused_layer_forward(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                               const Segments& segments, RecomputeLevel recompute, LayerTape* tape) {
  const ModelConfig& config = pass.config;
  return forward(layer, pass, x, recompute, tape,
                 [&](const at::Tensor& attn_out, const at::Tensor& lse, const Heads& heads) {
                   std::vector<ops::KvTiles> tiles;
                   std::vector<StepCache> caches;
                   tiles.reserve(segments.size());
                   for (const ops::AttentionSegment& s : segments) {
                     tiles.emplace_back(config.num_key_value_heads, config.head_dim, heads.k.scalar_type(),
                                        s.end - s.begin, heads.k.device());
                     const ops::KvTiles* const before =
                         s.prefix == ops::kNoSegment ? nullptr : &tiles[static_cast<std::size_t>(s.prefix)];
                     caches.push_back({.before = before, .own = &tiles.back()});
                   }
                   attend_after(caches, segments, attn_out, lse, heads);
                 });
}

at::Tensor fused_layer_step(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                            const Segments& segments, const std::vector<StepCache>& caches) {
  base::require(segments.size() == caches.size(), "explicit_layer_step", "one cache a sequence");
  return forward(layer, pass, x, RecomputeLevel::kNone, nullptr,
                 [&](const at::Tensor& attn_out, const at::Tensor& lse, const Heads& heads) {
                   attend_after(caches, segments, attn_out, lse, heads);
                 });
}

void fused_layer_backward(const DecoderLayer& layer, const LayerPass& pass, const Segments& segments,
                          LayerTape& tape, at::Tensor& d, bool input_gradient) {
  const Pieces pieces(layer, pass);
  const LayerNorms& norms = pieces.norms();
  const ModelConfig& config = pass.config;
  const auto gradient = [&](const ops::Linear& linear, const at::Tensor& d_out, Module module) {
    return ops::LinearGradient{&linear, d_out, tape.lora_a_out[module]};
  };
  const auto backward = [&](const at::Tensor& x, std::initializer_list<ops::LinearGradient> linears,
                            bool wanted = true) {
    at::Tensor dx = wanted ? at::empty(x.sizes(), x.options()) : at::Tensor();
    ops::linears_backward(dx, {linears.begin(), linears.size()}, x, pass.context);
    return dx;
  };

  // down(silu(gate) * up)
  if (!tape.normed_mlp.defined())
    tape.normed_mlp = pieces.norm(tape.post_attn_residual, norms.post_attention_norm);
  if (!tape.gate_up.defined()) tape.gate_up = pieces.multiply_gate_up(tape.normed_mlp, tape.lora_a_out);
  const bool product_wanted = tape.lora_a_out[kDown].defined() || layer.down.trained_weight.defined();
  if (!tape.product.defined() && product_wanted) tape.product = pieces.product(tape.gate_up);
  {
    const auto [gate, up] = gate_and_up(tape.gate_up);
    // Without a side only the shape of the product is read.
    at::Tensor d_product =
        backward(product_wanted ? tape.product : gate, {gradient(layer.down, d.to(pieces.dtype()), kDown)});
    tape.product.reset();
    ops::swiglu_backward(gate, up, d_product);
    d_product.reset();
    const at::Tensor d_normed =
        backward(tape.normed_mlp, {gradient(layer.gate, gate, kGate), gradient(layer.up, up, kUp)});
    tape.gate_up.reset();
    tape.normed_mlp.reset();
    norm_backward(&d, d_normed, tape.post_attn_residual,
                  {norms.post_attention_norm, layer.trained.post_attention_norm}, config.rms_norm_eps);
    tape.post_attn_residual.reset();
  }

  // o(attention(q, k, v))
  at::Tensor d_seen = backward(tape.attn_out, {gradient(layer.o, d.to(pieces.dtype()), kO)});
  if (!tape.normed.defined()) tape.normed = pieces.norm(tape.input, norms.input_norm);
  if (!tape.qkv.defined()) {
    tape.qkv = pieces.multiply_qkv(tape.normed, tape.lora_a_out);
    tape.qk_before_norm = pieces.norm_and_rotate(tape.qkv, true);
  }
  const Heads out = heads_of(tape.qkv, config);  // gradients take the place of q, k and v
  ops::packed_attention_backward(out.q, out.k, out.v, d_seen, out.q, out.k, out.v, tape.attn_out, tape.lse,
                                 segments);
  d_seen.reset();
  tape.attn_out.reset();
  Heads before;
  if (tape.qk_before_norm.defined()) {
    const std::int64_t n = config.num_attention_heads, k = config.num_key_value_heads;
    before.q = slice_heads(tape.qk_before_norm, 0, n, config.head_dim);
    before.k = slice_heads(tape.qk_before_norm, n, k, config.head_dim);
  }
  rotation_backward(out.q, before.q, {norms.q_norm, layer.trained.q_norm}, pass);
  rotation_backward(out.k, before.k, {norms.k_norm, layer.trained.k_norm}, pass);
  const at::Tensor d_normed =
      backward(tape.normed,
               {gradient(layer.q, out.q.flatten(1), kQ), gradient(layer.k, out.k.flatten(1), kK),
                gradient(layer.v, out.v.flatten(1), kV)},
               input_gradient || layer.trained.input_norm.defined());
  norm_backward(input_gradient ? &d : nullptr, d_normed, tape.input,
                {norms.input_norm, layer.trained.input_norm}, config.rms_norm_eps);
  tape = LayerTape();
}

}  // namespace hone::model
