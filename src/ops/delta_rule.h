// A gated delta rule between the projections of a layer (transformers 5.23, models/qwen3_5, Qwen3_5GatedDeltaNet; Yang et al.
// 2024). For token t this is computed in each channel c of q, k and v by itself, and in value head h with the
// key head h / (V / K):
//
//   u = silu(sum over j = 0 .. L - 1 of w[c, L - 1 - j] x[t - j, c]),   x = 0 before the first token
//   q = u_q / sqrt(sum u_q^2 + 1e-6) / sqrt(D),   k = u_k / sqrt(sum u_k^2 + 1e-6),   v = u_v
//   beta = sigmoid(b[h]),   g = exp(-exp(a_log[h]) softplus(a[h] + dt_bias[h]))
//   S = g S;   S = S + k (beta (v - S^T k))^T;   o = S^T q,   S = 0 before the first token
//   out = norm * (o / sqrt(mean o^2 + eps)) * silu(z)
//
// Shapes: T tokens of all segments, packed, K key heads of D columns, V value heads of E columns (V a multiple of K), L taps,
// C = 2 K D + V E channels, S [D, E]. A row of `in` [T, C + V E + 2 V] holds q | k | v | z | b | a; of `out` [T, V E] the
// heads. In in's dtype: the sum over taps, u, beta, o and its norm are rounded to it, as transformers rounds them; the rest is
// fp32 (fp64 for fp64).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "ops/attention.h"
#include "ops/short_conv.h"

namespace hone::ops {

struct DeltaShape {
  std::int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  double eps = 1e-6;  // of the norm

  std::int64_t keys() const { return key_heads * key_dim; }
  std::int64_t values() const { return value_heads * value_dim; }
  std::int64_t channels() const { return 2 * keys() + values(); }
  std::int64_t inputs() const { return channels() + values() + 2 * value_heads; }
};

// conv [C, 1, L] in in's dtype; a_log and dt_bias [V], norm [E] in it or in fp32.
struct DeltaWeights {
  at::Tensor conv, a_log, dt_bias, norm;
};

// in -> out. The segments cover 0..T in order without a gap; nothing is read across their borders. In chunks of 64 tokens, as
// transformers' torch_chunk_gated_delta_rule. Differentiable in `in` and the weights.
at::Tensor delta_rule(const at::Tensor& in, const DeltaWeights& weights, const DeltaShape& shape,
                      const std::vector<std::pair<std::int64_t, std::int64_t>>& segments);

// ---- the fused form: token by token, so that a sampler's steps have the bits of a trainer's pass

// Holds what a sequence keeps of its tokens: the last rows of q | k | v as the linears gave them, and S of
// each value head. No token can be taken back, but all of them.
class DeltaState {
 public:
  DeltaState() = default;
  DeltaState(const DeltaShape& shape, std::int64_t taps, at::ScalarType dtype, at::Device device = at::kCPU);

  std::int64_t length() const { return inputs_.length(); }
  bool can_truncate(std::int64_t length) const { return length == 0 || length == this->length(); }
  void truncate(std::int64_t length);
  DeltaState clone() const;  // with memory of its own; copying the object shares it
  std::int64_t bytes() const;
  static std::int64_t bytes(const DeltaShape& shape, std::int64_t taps, at::ScalarType dtype);

 private:
  friend class DeltaStates;
  ConvInputs inputs_;  // [., C]
  // S = scales_ values_ in fp32: [V], 1 or less, and [V, ceil(E / 32), D, 32]; the last columns beyond E are 0.
  at::Tensor values_, scales_;
};

// Rows [begin, end) are the next tokens of a sequence: after all of `before` (null: nothing), then those in `own`, which
// gets them. No two steps of a call share `own`.
struct DeltaStep {
  std::int64_t begin = 0, end = 0;
  const DeltaState* before = nullptr;
  DeltaState* own = nullptr;
};

// in -> out of training segments, which begin where their prefix ends; and of steps. On the CPU the bits of a row depend only
// on it and the tokens before it, not on how they are cut into steps, on the rest of the call or the number of threads. Other
// devices use delta_rule()'s chunks.
void delta_rule_into(at::Tensor out, const at::Tensor& in, const DeltaWeights& weights,
                     const DeltaShape& shape, const std::vector<AttentionSegment>& segments);
void delta_rule_step(at::Tensor out, const at::Tensor& in, const DeltaWeights& weights,
                     const DeltaShape& shape, const std::vector<DeltaStep>& steps);

// fp32, of the weights' shapes; undefined: not wanted.
struct DeltaGradients {
  at::Tensor conv, a_log, dt_bias, norm;
};

// In place: `in` holds the forward's input on entry and its gradient on return, given d [T, V E]. A prefix gets the sum over
// itself and the segments that follow it, in order. Adds to the weights' gradients, in the order of the segments.
void delta_rule_backward(at::Tensor in, const at::Tensor& d, const DeltaWeights& weights,
                         const DeltaShape& shape, const std::vector<AttentionSegment>& segments,
                         const DeltaGradients& gradients);

// Upper bound of its memory on the CPU, in bytes. `longest`: tokens of the longest sequence with all that share its prefix.
std::int64_t delta_rule_backward_bytes(const DeltaShape& shape, std::int64_t longest, std::int64_t threads);

}  // namespace hone::ops
