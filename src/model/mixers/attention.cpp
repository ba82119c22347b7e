// Attention: q, k and v with the norms and rotations of their heads, keys and values in tiles, and a gate
// of its output.
#include "ops/attention.h"

#include <ATen/ATen.h>

#include <optional>
#include <tuple>
#include <utility>

#include "model/config/families.h"
#include "model/layers/mixer_call.h"
#include "model/mixers/attention_heads.h"
#include "model/mixers/mixers.h"
#include "ops/rms_norm.h"
#include "ops/sampling/page_step.h"
#include "ops/sigmoid_gate.h"

namespace hone::model {
namespace {

// ---- the autograd form

// [T, heads D] -> [T, heads, D], with the norm that the projection or each head has.
at::Tensor normed_heads(const at::Tensor& flat, const at::Tensor& weight, std::int64_t head_dim,
                        const ModelConfig& config) {
  const std::vector<std::int64_t> shape = {flat.size(0), flat.size(1) / head_dim, head_dim};
  if (!weight.defined()) return flat.view(shape);
  if (weight.size(0) == head_dim) return ops::rms_norm(flat.view(shape), weight, config.rms_norm_eps);
  return ops::rms_norm(flat, weight, config.rms_norm_eps).view(shape);
}

at::Tensor rotated(const at::Tensor& x, const ops::RopeTable* rope) {
  return rope == nullptr ? x : ops::rope_apply(x, *rope);
}

// ---- keys and values in caches

// Appends each segment's keys and values, if there are any, to its cache and attends to all that the cache
// then holds. In a layer that reads those of another one the caches have them already.
void attend_after(const std::vector<StepCache>& caches, const Segments& segments, const MixerTape& tape,
                  const Heads& heads, const ops::AttentionRule& rule) {
  if (heads.k.defined()) {
    std::vector<ops::KvAppend> added;
    added.reserve(segments.size());
    for (std::size_t i = 0; i < segments.size(); ++i)
      added.push_back({.tiles = &caches[i].own->tiles, .begin = segments[i].begin, .end = segments[i].end});
    ops::append_all(added, heads.k, heads.v);
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
  ops::attend_tiles(tape.out, tape.lse, heads.q, rows, rule);
}

// Empty tiles for the keys and values of each segment.
std::vector<LayerCache> tiles_for(const MixerCall& call, const at::Tensor& qkv) {
  const LayerAttention& own = call.layer.attention;
  std::vector<LayerCache> tiles(call.segments.size());
  for (std::size_t i = 0; i < call.segments.size(); ++i) {
    const std::int64_t size = call.segments[i].end - call.segments[i].begin;
    tiles[i].mixer = call.layer.mixer;
    tiles[i].tiles = ops::KvTiles(own.kv_heads, own.head_dim, qkv.scalar_type(), size, qkv.device());
  }
  return tiles;
}

// Of a layer whose keys later layers read, or that reads those of an earlier one.
void attend_with_shared(const MixerCall& call, const MixerTape& tape, const Heads& heads) {
  const LayerAttention& attention = call.layer.attention;
  SharedKeys own;
  std::vector<LayerCache>& tiles =
      attention.has_keys() ? own.tiles : call.pass.shared->at(attention.shares).tiles;
  if (attention.has_keys()) tiles = tiles_for(call, tape.in);
  std::vector<StepCache> caches;
  for (std::size_t i = 0; i < call.segments.size(); ++i) {
    const ops::AttentionSegment& s = call.segments[i];
    caches.push_back({.before = {}, .own = &tiles[i]});
    if (s.prefix != ops::kNoSegment) caches.back().before = {&tiles[static_cast<std::size_t>(s.prefix)]};
  }
  attend_after(caches, call.segments, tape, heads, attention_rule(call.layer, call.pass.config));
  if (!attention.is_shared) return;
  if (call.pass.keeps_shared) {
    // a tape of level kLayer has no q, k and v
    own.k = call.keeps_in ? heads.k : heads.k.clone();
    own.v = call.keeps_in ? heads.v : heads.v.clone();
  }
  call.pass.shared->insert_or_assign(call.layer.number, std::move(own));
}

// ---- gradients

// Of queries that read another layer's keys and values, whose gradients are added to those of the layers
// above.
void shared_backward(const MixerCall& call, const MixerTape& tape, const at::Tensor& q,
                     const at::Tensor& d_seen) {
  SharedKeys& shared = call.pass.shared->at(call.layer.attention.shares);
  const at::Tensor dk = at::empty(shared.k.sizes(), q.options()), dv = at::empty_like(dk);
  ops::packed_attention_backward(q, dk, dv, d_seen, q, shared.k, shared.v, tape.out, tape.lse, call.segments,
                                 attention_rule(call.layer, call.pass.config));
  if (shared.dk.defined()) {
    shared.dk.add_(dk);
    shared.dv.add_(dv);
  } else {
    shared.dk = dk.to(at::kFloat);
    shared.dv = dv.to(at::kFloat);
  }
}

// The gradients of keys and values plus those of the layers above that read them; one rounding.
void take_shared_gradient(const MixerCall& call, const Heads& gradients) {
  SharedKeys& shared = call.pass.shared->at(call.layer.number);
  if (!shared.dk.defined()) return;
  gradients.k.copy_(shared.dk.add_(gradients.k));
  gradients.v.copy_(shared.dv.add_(gradients.v));
  shared = SharedKeys();
}

class Attention final : public Mixer {
 public:
  const MixerWords& words() const override {
    static constexpr MixerWords kWords{.layer_type = "full_attention",
                                       .path = ".self_attn.",
                                       .subject = "attention",
                                       .role = "attention",
                                       .tensors = "other tensors",
                                       .reference = ""};
    return kWords;
  }
  bool attends() const override { return true; }

  bool has_linear(ModuleKind kind) const override {
    return kind == ModuleKind::kQ || kind == ModuleKind::kK || kind == ModuleKind::kV ||
           kind == ModuleKind::kQkv || kind == last();
  }
  ModuleKind last() const override { return ModuleKind::kO; }
  void shape(const ModelConfig& c, std::int64_t layer, LayerLinear& linear) const override {
    const LayerAttention own = c.attention_of(layer);
    const std::int64_t q = c.num_attention_heads * own.head_dim, kv = own.kv_heads * own.head_dim;
    const bool permutes = traits_of(c.family).gguf_permutes_qk;
    linear.bias = linear.kind == ModuleKind::kO ? c.o_bias : c.qkv_bias;
    if (linear.kind == ModuleKind::kO) {
      linear.in = q;
    } else if (linear.kind == ModuleKind::kQkv) {
      linear.out = q + 2 * kv;
    } else if (linear.kind == ModuleKind::kQ) {
      linear.out = c.attention_gate ? 2 * q : q;
      linear.permuted_heads = permutes ? c.num_attention_heads : 0;
    } else {
      linear.out = kv;
      if (linear.kind == ModuleKind::kK) linear.permuted_heads = permutes ? own.kv_heads : 0;
    }
  }
  bool has_norm(const ModelConfig& config, std::int64_t layer, NormPlace place) const override {
    return place == NormPlace::kQ || (place == NormPlace::kK && config.attention_of(layer).has_keys());
  }

  MixerColumns columns(const ModelConfig& config, std::int64_t layer) const override {
    const LayerAttention own = config.attention_of(layer);
    const std::int64_t n = config.num_attention_heads, heads = n * own.head_dim,
                       keys = key_columns(config, layer);
    const bool has_norms = config.qk_norm || config.projection_qk_norm;
    return {.in = heads + 2 * keys,
            .normed = has_norms ? heads + (config.value_norm ? 2 : 1) * keys : 0,
            .gate = config.attention_gate ? heads : 0,
            .out = heads,
            .sums = n,
            .scratch = 4 * keys,  // keys and values again, in tiles, with room for odd ends
            // q and gate as the linear has them, and apart
            .step = ((config.attention_gate ? 4 : 1) * n + 2 * own.kv_heads) * own.head_dim};
  }
  std::int64_t plain_bytes(const ModelConfig& config, std::int64_t layer, std::int64_t e) const override {
    const MixerColumns one = columns(config, layer);
    return (one.in + one.out + 3 * one.gate) * e + 4 * one.sums + 4 * one.normed;
  }
  std::int64_t key_columns(const ModelConfig& config, std::int64_t layer) const override {
    const LayerAttention own = config.attention_of(layer);
    return own.has_keys() ? own.kv_heads * own.head_dim : 0;
  }

  void open(LayerCache& cache, const CacheRoom& room) const override {
    const LayerAttention own = room.config.attention_of(room.layer);
    cache.is_elsewhere = !own.has_keys();
    if (cache.is_elsewhere) return;
    cache.tiles = room.pool ? ops::KvTiles(own.kv_heads, own.head_dim, room.tokens, room.pool)
                            : ops::KvTiles(own.kv_heads, own.head_dim, room.dtype, room.tokens, room.device);
  }
  std::int64_t length(const LayerCache& cache) const override { return cache.tiles.length(); }
  bool can_truncate(const LayerCache& /*cache*/, std::int64_t /*length*/) const override { return true; }
  void truncate(LayerCache& cache, std::int64_t length) const override { cache.tiles.truncate(length); }

  at::Tensor autograd(const AutogradCall& call, const at::Tensor& read) const override {
    const auto& [layer, config, norms, ropes, pass, segments, beside, load] = call;
    const LayerAttention& own = layer.attention;
    const std::int64_t d = own.head_dim, kv = own.kv_heads * d;
    const at::ScalarType dtype = layer.o.weight.dtype();
    std::vector<std::int64_t> widths = {config.num_attention_heads * d};
    if (own.has_keys()) widths.insert(widths.end(), 2, kv);
    std::vector<at::Tensor> parts = outputs_of(layer.qkv, read, pass, widths);
    at::Tensor gate;
    if (config.attention_gate) std::tie(parts[0], gate) = queries_and_gates(parts[0], config);
    const at::Tensor q = normed_heads(parts[0], norms[NormPlace::kQ], d, config);
    const LayerRopes rope = ropes_of(layer, ropes);
    at::Tensor k, v;
    if (own.has_keys()) {
      k = rotated(normed_heads(parts[1], norms[NormPlace::kK], d, config), rope.k).to(dtype);
      v = normed_heads(parts[2], norms[NormPlace::kV], d, config).to(dtype);
      if (own.is_shared) beside.shared->insert_or_assign(layer.number, std::pair(k, v));
    } else {
      std::tie(k, v) = beside.shared->at(own.shares);
    }
    const at::Tensor out =
        ops::packed_attention(rotated(q, rope.q).to(dtype), k, v, segments, attention_rule(layer, config));
    return gate.defined() ? ops::sigmoid_gate(out, gate) : out;
  }

  bool has_gate(const ModelConfig& config) const override { return config.attention_gate; }
  void split(const MixerCall& call, MixerTape& tape) const override {
    tape.gate = AttentionHeads(call).take_gate(tape.in);
  }
  void prepare(const MixerCall& call, MixerTape& tape, bool keeps) const override {
    tape.before_norm = AttentionHeads(call).norm_and_rotate(tape.in, keeps);
  }
  void forward(const MixerCall& call, MixerTape& tape) const override {
    const ModelConfig& config = call.pass.config;
    const LayerAttention& own = call.layer.attention;
    if (call.taped)
      tape.lse = ops::empty_log_sums(tape.in.size(0), config.num_attention_heads, tape.in.options());
    const Heads heads = AttentionHeads(call).of(tape.in);
    if (!own.has_keys() || own.is_shared) return attend_with_shared(call, tape, heads);
    ops::attend_packed(tape.out, tape.lse, heads.q, heads.k, heads.v, call.segments,
                       attention_rule(call.layer, config));
  }
  void step(const MixerCall& call, const std::vector<StepCache>& caches, MixerTape& tape) const override {
    const AttentionHeads all(call);
    const Heads heads = all.of(tape.in);
    const ops::AttentionRule rule = attention_rule(call.layer, call.pass.config);
    const LayerAttention& own = call.layer.attention;
    const std::int64_t keys_of = own.shares < 0 ? call.layer.number : own.shares;
    ops::PageStep* const pages = call.pass.pages;
    if (pages == nullptr || !pages->has(keys_of)) {
      all.norm_and_rotate(tape.in, false);
      return attend_after(caches, call.segments, tape, heads, rule);
    }
    const std::optional<ops::HeadRotation> rotation = all.rotation();
    const std::int64_t count = call.pass.config.num_attention_heads + 2 * own.kv_heads;
    const bool both =
        rotation &&
        pages->append_rotated(call.layer.number, slice_heads(tape.in, 0, count, own.head_dim), *rotation);
    if (!both) all.norm_and_rotate(tape.in, false);
    if (!both && heads.k.defined()) pages->append(call.layer.number, heads.k, heads.v);
    pages->attend(keys_of, tape.out, heads.q, rule);
  }
  at::Tensor seen(const MixerTape& tape) const override {
    if (!tape.gate.defined()) return tape.out;
    at::Tensor out = at::empty_like(tape.out);
    ops::sigmoid_gate_into(out, tape.out, tape.gate);
    return out;
  }
  // Gradients take the place of q, k and v, and of the gate.
  void backward(const MixerCall& call, MixerTape& tape, at::Tensor d_seen) const override {
    const LayerAttention& own = call.layer.attention;
    const AttentionHeads all(call);
    if (tape.gate.defined()) ops::sigmoid_gate_backward(tape.gate, d_seen, tape.out);
    const Heads out = all.of(tape.in);
    if (own.has_keys()) {
      ops::packed_attention_backward(out.q, out.k, out.v, d_seen, out.q, out.k, out.v, tape.out, tape.lse,
                                     call.segments, attention_rule(call.layer, call.pass.config));
      if (own.is_shared) take_shared_gradient(call, out);
    } else {
      shared_backward(call, tape, out.q, d_seen);
    }
    all.backward(tape.in, tape.before_norm);
    d_seen.reset();
    tape.out.reset();
    tape.in = all.with_gate(tape.in, tape.gate);
    tape.gate.reset();
  }
};

}  // namespace

const Mixer& attention_mixer() {
  static const Attention mixer;
  return mixer;
}

}  // namespace hone::model
