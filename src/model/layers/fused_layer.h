// The decoder layer without autograd: forward, and a hand-written backward, over the operators of ops/. The
// autograd form (decoder_layer.h) is the reference.
//
// It trains LoRA weights of linears, and the linears' weights, biases and the norms themselves (Linear::trained_weight,
// DecoderLayer::trained). Recompute is a property of the layer's tape, so it cannot cut a gradient. All levels give the
// same bits, because the same functions recompute values from the same inputs.
//
// Shapes: T tokens, H hidden, N heads, K kv heads, D head_dim, I intermediate, r rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "model/layers/decoder_layer.h"
#include "model/layers/fused_moe.h"
#include "model/layers/layer_cache.h"
#include "ops/attention.h"

namespace hone::ops {
class PageStep;
}  // namespace hone::ops

namespace hone::model {

// What the forward keeps for the backward, in elements per token and layer, of the linears' dtype (those of H
// in the residual's dtype, except the norms):
// clang-format off
//   kNone   2 H (layer input, after attention) + 2 H (what attention and the MLP read) + (N + 2 K) D (q, k, v) + N D
//           (attention) + 2 I (gate, up) + I (their product); with Q/K norm another (N + K) D
//   kCheap  the same without what they read and the product
//   kLayer  2 H + N D: layer input, after attention, attention. q, k, v, gate and up are multiplied again; attention,
//           o_proj and down_proj never are
// clang-format on
// A layer with a short convolution has 3 H (b, c, x) in the place of q, k and v, and H (its output) in that of attention's.
// One with a delta rule has the outputs of its four linears there, and the delta rule's output in that of attention's.
// With a gate of attention's output another N D (the gate) goes with q, k and v.
// With experts 2 I and I are of each token's k experts, and the router's logits are always kept.
// A layer that reads the keys of another one has only q of q, k and v; where values have a norm another K D. With an input
// of its own a layer keeps 2 H (the stream after the MLP, and what the norm after that input reads) and P (the gate).
// And always lse (4 N bytes), r for lora_a_out of every linear, and with norms after attention and the MLP another 2 H
// (their input).
enum class RecomputeLevel { kNone, kCheap, kLayer };

// A mixer's memory between forward and backward. Undefined tensors are recomputed.
struct MixerTape {
  at::Tensor in;  // [T, (N + 2 K) D], q and k rotated; of a convolution [T, 3 H]; of a delta rule q|k|v|z|b|a
  at::Tensor gate;         // [T, N D], with a gate of attention's output only
  at::Tensor before_norm;  // [T, (N + K) D], with Q/K norm only; [T, (N + 2 K) D] with a norm of values too
  // [T, N D] attention's output before its gate; of a convolution [T, H]; of a delta rule [T, V E]
  at::Tensor out;
  at::Tensor lse;  // [T, N] fp32, of attention
};

// The memory of one of a layer's parts between forward and backward. Undefined tensors are recomputed.
struct PartTape {
  at::Tensor stream;                   // [T, H] residual dtype: what it read and added to
  at::Tensor read;                     // [T, H] linears' dtype: the norm of that
  MixerTape mixer;                     // of the mixer
  at::Tensor gate_up;                  // [T, 2 I] of an MLP; [T, P], the gate of the layer's own input
  at::Tensor product;                  // [T, I] act(gate) * up
  SparseTape experts;                  // of experts
  at::Tensor branch;                   // [T, H] linears' dtype: what it adds, before a norm of that
  std::vector<at::Tensor> lora_a_out;  // [T, r] scaled A x of its linears; undefined without LoRA
};
using LayerTape = std::vector<PartTape>;  // of DecoderLayer::parts

// Keys and values of a layer that later layers read, from its forward to its backward.
struct SharedKeys {
  std::vector<LayerCache> tiles;  // one a segment; of the forward
  at::Tensor k, v;                // [T, K, D], rows strided; of a forward with a tape
  at::Tensor dk, dv;              // [T, K, D] fp32: sums over the later layers, from the last one down
};

// Shared by all layers of one pass.
struct LayerPass {
  const ModelConfig& config;
  const RopeTables& ropes;
  const ops::PassContext& context;
  RouterLoad* load = nullptr;  // of the routers, in a forward that is asked for it
  at::Tensor balance = {};     // RouterLoad::gradient() in a backward, besides; or undefined
  std::map<std::int64_t, SharedKeys>* shared = nullptr;  // by the number of the layer
  bool keeps_shared = false;                             // a backward follows this forward
  // [T, L P] in the linears' dtype, the layers' own inputs (per_layer.h); or undefined
  at::Tensor per_layer = {};
  // In a backward, where a kernel makes both at once: d in the linears' dtype, from the layer that changed d last to the linear that
  // reads it next; undefined where d was changed since. Null: not wanted.
  at::Tensor* cast = nullptr;
  at::Tensor d_per_layer = {};  // the same, their gradients, written in a backward; undefined: not wanted
  // In a sampler's step the layers that have keys in pages append to them and read them there. Null: none has.
  ops::PageStep* pages = nullptr;
};

// Packed rows of a training or scoring pass: a segment attends to its prefix, if it has one, then to itself
// causally.
using Segments = std::vector<ops::AttentionSegment>;

// x [T, H] -> [T, H]. The tape, if there is one, keeps the tensors of level `recompute`.
at::Tensor fused_layer_forward(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                               const Segments& segments, RecomputeLevel recompute, LayerTape* tape);

// A sequence keeps this in one layer: all of `before`, in order, then `own`. A delta rule reads only the last of `before`,
// which has to have what it needs of its last inputs.
struct StepCache {
  std::vector<const LayerCache*> before = {};
  LayerCache* own = nullptr;
};

// Generation: the rows of the new tokens, after those in `caches` (one per sequence; the tokens of its
// segment are appended to `own`). Where the device pools keys (ops::pools_keys), a product adds to x in place, which may be the result:
// there that is one launch less. A layer that reads the keys of another one gets that one's caches, which have the new
// tokens already.
at::Tensor fused_layer_step(const DecoderLayer& layer, const LayerPass& pass, const at::Tensor& x,
                            const Segments& segments, const std::vector<StepCache>& caches);

// d [T, H]: the gradient of the layer's output on entry, of its input on return (`input_gradient` false: no
// layer below is trained, and d is not the input's gradient afterwards). Adds to the .grad of all that is
// trained. Consumes the tape: its buffers become gradients.
void fused_layer_backward(const DecoderLayer& layer, const LayerPass& pass, const Segments& segments,
                          LayerTape& tape, at::Tensor& d, bool input_gradient = true);

}  // namespace hone::model
