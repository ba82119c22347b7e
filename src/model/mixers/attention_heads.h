// Queries, keys, values and gates of one layer's attention, as its linears give them side by side: q | k |
// v, and with a gate of attention's output q and gate by head in the place of q. A layer that reads the
// keys of another one has only q.
//
// Shapes: T tokens, N heads, K kv heads, D head_dim.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "model/layers/mixer_call.h"
#include "ops/sampling/head_rotation.h"

namespace hone::model {

// Outputs of a gated linear of queries, [T, 2 N D] -> queries and gates, [T, N D] each.
std::pair<at::Tensor, at::Tensor> queries_and_gates(const at::Tensor& both, const ModelConfig& config);

// The rule of this layer's attention.
ops::AttentionRule attention_rule(const DecoderLayer& layer, const ModelConfig& config);

// Of this layer's queries and keys; null: it does not rotate. Values have theirs for their norm.
struct LayerRopes {
  const ops::RopeTable *q = nullptr, *k = nullptr, *v = nullptr;
};
LayerRopes ropes_of(const DecoderLayer& layer, const RopeTables& ropes);

// Heads [begin, begin + heads) of a concatenated buffer: [T, heads, D], rows strided.
at::Tensor slice_heads(const at::Tensor& concat, std::int64_t begin, std::int64_t heads,
                       std::int64_t head_dim);

// The slices of a concatenated [T, (N + 2 K) D] buffer.
struct Heads {
  at::Tensor q, k, v;  // [T, N or K, D], rows strided
};

// One layer's calls on its heads, so that the forward and every level of recompute run the same lines.
class AttentionHeads {
 public:
  explicit AttentionHeads(const MixerCall& call);

  Heads of(const at::Tensor& qkv) const;

  // Takes the gates out of what the linears gave: `qkv` is q|k|v afterwards. Returns them, [T, N D];
  // undefined, and `qkv` as it was, without any.
  at::Tensor take_gate(at::Tensor& qkv) const;
  // The way back: q|k|v and gates side by side as the linears have them.
  at::Tensor with_gate(const at::Tensor& qkv, const at::Tensor& gate) const;

  // In place; returns a copy of q|k, or q|k|v, from before when there is a norm to go back through and
  // `keep`.
  at::Tensor norm_and_rotate(const at::Tensor& qkv, bool keep) const;
  // From the gradients of q|k|v after norm and rotation those before, in place; `before` is the copy.
  void backward(const at::Tensor& d_qkv, const at::Tensor& before) const;

  // What norm_and_rotate() does to the heads of queries and keys, where it is one rule for each and nothing
  // is done to values.
  std::optional<ops::HeadRotation> rotation() const;

 private:
  std::int64_t width_of_normed() const;  // of q, k and v those that have a norm
  bool rotates_together() const;
  at::Tensor queries_and_keys(const at::Tensor& qkv) const;
  void norm_and_rotate(const at::Tensor& heads, NormPlace place) const;
  void rotation_backward(const at::Tensor& d, const at::Tensor& x, NormPlace place) const;
  const ops::RopeTable* rope_of(NormPlace place) const;

  const DecoderLayer& layer_;
  const LayerNorms& norms_;
  const ModelConfig& config_;
  const LayerAttention& own_;
  const LayerRopes ropes_;
};

}  // namespace hone::model
