#include "model/mixers/attention_heads.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"

namespace hone::model {

std::pair<at::Tensor, at::Tensor> queries_and_gates(const at::Tensor& both, const ModelConfig& config) {
  const at::Tensor heads = both.unflatten(1, {config.num_attention_heads, 2, config.head_dim});
  return {heads.select(2, 0).flatten(1), heads.select(2, 1).flatten(1)};
}

ops::AttentionRule attention_rule(const DecoderLayer& layer, const ModelConfig& config) {
  return {.window = layer.attention.window,
          .scale = config.attention_scale,
          .soft_cap = config.attention_soft_cap};
}

LayerRopes ropes_of(const DecoderLayer& layer, const RopeTables& ropes) {
  const std::int64_t rotation = layer.attention.rotation;
  const ops::RopeTable* const none = ropes.none.cos.defined() ? &ropes.none : nullptr;
  if (rotation == kNoRotation) return {none, none, none};
  const ops::RopeTable* const own = &ropes.tables.at(static_cast<std::size_t>(rotation));
  const bool scaled = rotation == kMainRotation && ropes.queries.cos.defined();
  return {scaled ? &ropes.queries : own, own, none};
}

at::Tensor slice_heads(const at::Tensor& concat, std::int64_t begin, std::int64_t heads,
                       std::int64_t head_dim) {
  return concat.narrow(1, begin * head_dim, heads * head_dim).unflatten(1, {heads, head_dim});
}

AttentionHeads::AttentionHeads(const MixerCall& call)
    : layer_(call.layer),
      norms_(call.norms),
      config_(call.pass.config),
      own_(call.layer.attention),
      ropes_(ropes_of(call.layer, call.pass.ropes)) {}

Heads AttentionHeads::of(const at::Tensor& qkv) const {
  const std::int64_t n = config_.num_attention_heads, k = own_.kv_heads, d = own_.head_dim;
  const bool whole = own_.has_keys();
  base::require(qkv.size(1) == (whole ? n + 2 * k : n) * d && qkv.size(0) > 0, "fused_layer",
                "a joined q|k|v buffer");
  if (!whole) return {.q = slice_heads(qkv, 0, n, d), .k = {}, .v = {}};
  return {slice_heads(qkv, 0, n, d), slice_heads(qkv, n, k, d), slice_heads(qkv, n + k, k, d)};
}

at::Tensor AttentionHeads::take_gate(at::Tensor& qkv) const {
  if (!config_.attention_gate) return {};
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

at::Tensor AttentionHeads::with_gate(const at::Tensor& qkv, const at::Tensor& gate) const {
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

at::Tensor AttentionHeads::norm_and_rotate(const at::Tensor& qkv, bool keep) const {
  at::Tensor before;
  if (keep && norms_[NormPlace::kQ].defined()) before = qkv.narrow(1, 0, width_of_normed()).clone();
  const Heads parts = of(qkv);
  if (rotates_together()) {
    norm_and_rotate(queries_and_keys(qkv), NormPlace::kQ);
  } else {
    norm_and_rotate(parts.q, NormPlace::kQ);
    if (!own_.has_keys()) return before;
    norm_and_rotate(parts.k, NormPlace::kK);
  }
  if (norms_[NormPlace::kV].defined()) norm_and_rotate(parts.v, NormPlace::kV);
  return before;
}

void AttentionHeads::backward(const at::Tensor& d_qkv, const at::Tensor& before) const {
  const std::int64_t n = config_.num_attention_heads, k = own_.kv_heads, d = own_.head_dim;
  const Heads out = of(d_qkv);
  if (rotates_together()) {
    rotation_backward(queries_and_keys(d_qkv), {}, NormPlace::kQ);
  } else {
    rotation_backward(out.q, before.defined() ? slice_heads(before, 0, n, d) : before, NormPlace::kQ);
    if (!own_.has_keys()) return;
    rotation_backward(out.k, before.defined() ? slice_heads(before, n, k, d) : before, NormPlace::kK);
  }
  if (config_.value_norm) rotation_backward(out.v, slice_heads(before, n + k, k, d), NormPlace::kV);
}

std::optional<ops::HeadRotation> AttentionHeads::rotation() const {
  const at::Tensor &q = norms_[NormPlace::kQ], &k = norms_[NormPlace::kK];
  const auto by_head = [&](const at::Tensor& norm) {
    return !norm.defined() || norm.size(0) == own_.head_dim;
  };
  const bool is_one = own_.has_keys() && ropes_.q != nullptr && ropes_.q == ropes_.k && by_head(q) &&
                      by_head(k) && !norms_[NormPlace::kV].defined();
  if (!is_one) return std::nullopt;
  return ops::HeadRotation{.q_norm = q, .k_norm = k, .eps = config_.rms_norm_eps, .table = ropes_.q};
}

std::int64_t AttentionHeads::width_of_normed() const {
  const std::int64_t of_keys = own_.has_keys() ? (norms_[NormPlace::kV].defined() ? 2 : 1) : 0;
  return (config_.num_attention_heads + of_keys * own_.kv_heads) * own_.head_dim;
}

// Whether queries and keys are rotated alike, without a norm: then they are rotated in one call.
bool AttentionHeads::rotates_together() const {
  return own_.has_keys() && ropes_.q == ropes_.k && !norms_[NormPlace::kQ].defined() &&
         !norms_[NormPlace::kK].defined();
}

at::Tensor AttentionHeads::queries_and_keys(const at::Tensor& qkv) const {
  return slice_heads(qkv, 0, config_.num_attention_heads + own_.kv_heads, own_.head_dim);
}

// In place. A norm over the whole projection comes first; one over each head goes with the rotation.
void AttentionHeads::norm_and_rotate(const at::Tensor& heads, NormPlace place) const {
  const at::Tensor& weight = norms_[place];
  const ops::RopeTable* const rope = rope_of(place);
  const bool by_head = weight.defined() && weight.size(0) == own_.head_dim;
  if (weight.defined() && !by_head) {
    const at::Tensor rows = heads.flatten(1);
    ops::rms_norm_into(rows, rows, weight, config_.rms_norm_eps);
  }
  base::require(rope != nullptr || !by_head, "fused_layer", "a rotation after a norm of each head");
  if (rope == nullptr) return;
  ops::norm_rope_into(heads, heads, by_head ? weight : at::Tensor(), config_.rms_norm_eps, *rope);
}

// The same of norm_and_rotate() for queries or keys [T, heads, D], in place; x is their part of its copy.
void AttentionHeads::rotation_backward(const at::Tensor& d, const at::Tensor& x, NormPlace place) const {
  const double eps = config_.rms_norm_eps;
  const at::Tensor &weight = norms_[place], &trained = layer_.trained[place];
  const bool by_head = weight.defined() && weight.size(0) == own_.head_dim;
  const ops::RopeTable* const rope = rope_of(place);
  if (trained.defined() && by_head) ops::norm_rope_weight_gradient(trained.grad(), d, x, eps, *rope);
  if (rope != nullptr) ops::norm_rope_backward(d, x, by_head ? weight : at::Tensor(), eps, *rope);
  if (!weight.defined() || by_head) return;
  const at::Tensor rows = d.flatten(1), before = x.flatten(1), dx = at::zeros(rows.sizes(), rows.options());
  if (trained.defined()) ops::rms_norm_weight_gradient(trained.grad(), rows, before, eps);
  ops::rms_norm_backward_add(dx, rows, before, weight, eps);
  rows.copy_(dx);
}

const ops::RopeTable* AttentionHeads::rope_of(NormPlace place) const {
  return place == NormPlace::kQ ? ropes_.q : place == NormPlace::kK ? ropes_.k : ropes_.v;
}

}  // namespace hone::model
