// The decoder layer without autograd: forward, and a hand-written backward, over the operators of ops/. The
// plain layer (decoder_layer.h) is its definition.
//
// It runs when every base weight is frozen and the only trainable tensors are LoRA sides of linears.
// Recompute is a property of the layer's tape, so it cannot cut a gradient; all levels give the same bits,
// because what is recomputed comes from the same functions on the same inputs.
//
// Shapes: T tokens, H hidden, N heads, K kv heads, D head_dim, I intermediate, r rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "model/decoder_layer.h"
#include "ops/attention.h"
#include "ops/kv_tiles.h"

namespace hone::model {

// What the forward keeps for the backward, in elements a token and layer of the linears' dtype (those of H
// are of the residual's but for the norms):
// clang-format off
//   kNone   2 H (layer input, after attention) + 2 H (both norms) + (N + 2 K) D (q, k, v) + N D (attention) + 2 I (gate,
//           up) + I (their product); with Q/K norm another (N + K) D
//   kCheap  the same without the norms and the product
//   kLayer  2 H + N D: layer input, after attention, attention. q, k, v, gate and up are multiplied again; attention,
//           o_proj and down_proj never are
// clang-format on
// and in each case lse (4 N bytes) and 7 r for the low-rank sides.
enum class Recompute { kNone, kCheap, kLayer };

// One layer's memory between forward and backward. Undefined tensors are recomputed.
struct LayerTape {
  at::Tensor input;               // [T, H] residual dtype
  at::Tensor attended;            // [T, H] residual stream after attention
  at::Tensor normed, normed_mlp;  // [T, H] linears' dtype
  at::Tensor qkv;                 // [T, (N + 2 K) D], q and k rotated
  at::Tensor qk_before_norm;      // [T, (N + K) D], with Q/K norm only
  at::Tensor seen;                // [T, N D] attention's output
  at::Tensor lse;                 // [T, N] fp32
  at::Tensor gate_up;             // [T, 2 I]
  at::Tensor product;             // [T, I] silu(gate) * up
  at::Tensor low[7];              // [T, r] scaled A x of q, k, v, o, gate, up, down; undefined without a side
};

// What every layer of one pass shares.
struct LayerPass {
  const ModelConfig& config;
  const ops::RopeTable& rope;
  const ops::PassContext& context;
};

// Packed rows of a training or scoring pass: a segment sees its prefix, if it has one, then itself causally.
using Segments = std::vector<ops::AttentionSegment>;

// x [T, H] -> [T, H]. With a tape, what `recompute` says is kept in it.
at::Tensor explicit_layer_forward(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                                  const Segments& segments, Recompute recompute, LayerTape* tape);

// A sequence's keys and values in one layer: all of `before` (null: nothing), then `own`.
struct StepCache {
  const ops::KvTiles* before = nullptr;
  ops::KvTiles* own = nullptr;
};

// Generation: the new tokens' rows, after what `caches` hold (one a sequence; its segment's tokens are
// appended to `own`).
at::Tensor explicit_layer_step(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                               const Segments& segments, const std::vector<StepCache>& caches);

// d [T, H]: the gradient of the layer's output on entry, of its input on return (`input_gradient` false:
// nobody below is trained, and d is left half done). Adds to the .grad of every LoRA side. The tape is used
// up: its buffers become gradients.
void explicit_layer_backward(const DecoderLayer& layer, const LayerPass& pass, const Segments& segments,
                             LayerTape& tape, at::Tensor& d, bool input_gradient = true);

}  // namespace hone::model
