// A decoder layer in autograd form (transformers 5.23), as its family describes it (families.h): attention and an MLP
// with a gate, norms before or after either, on a residual stream.
//
// Shapes: T tokens, H hidden, N heads, K kv heads, D head_dim, I intermediate.
//
// Precision under {linear bf16, residual fp32} follows what CPU autocast does to transformers' layer: norms
// in fp32; each linear rounds its input to bf16 and gives bf16; q and k become fp32 again in q_norm's weight
// and in the rotation (cos and sin have the residual's dtype); attention runs in bf16; act(gate) * up stays
// in bf16; a norm after attention or the MLP gives bf16; the residual adds in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "model/config/layer_part.h"
#include "model/config/rotations.h"
#include "model/layers/moe.h"
#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/rope.h"

namespace hone::model {

// How weights are stored and multiplied; config::Precision as dtypes: kFloat32 {float, float}, kAutocast
// {bfloat16, float}, kBFloat16 {bfloat16, bfloat16}.
struct DtypePolicy {
  at::ScalarType linear =
      at::kFloat;  // linears as they are multiplied (trained ones have fp32 masters), attention
  at::ScalarType residual = at::kFloat;  // embedding, norms, residual stream
  bool float_head = false;               // the head's matrix and products in fp32: TRL's cast_lm_head_to_fp32

  at::ScalarType head() const { return float_head ? at::kFloat : linear; }
};

// The weights of a layer's norms by their place, undefined where the family has none: [H]; of queries and keys [D], or
// over the whole projection [N D] and [K D]; of values [D], ones.
struct LayerNorms {
  std::array<at::Tensor, kNormPlaces> weights;

  const at::Tensor& operator[](NormPlace place) const { return weights[static_cast<std::size_t>(place)]; }
  at::Tensor& operator[](NormPlace place) { return weights[static_cast<std::size_t>(place)]; }
};

// The same of the tensors that are neither linears nor norms, as families.h lists them for the layer's mixer.
struct LayerTensors {
  std::array<at::Tensor, kTensorKinds> values;

  const at::Tensor& operator[](TensorKind kind) const { return values[static_cast<std::size_t>(kind)]; }
  at::Tensor& operator[](TensorKind kind) { return values[static_cast<std::size_t>(kind)]; }
};

// The linears around a layer's own input: the residual stream plus norm(projection(act(gate(stream)) * input)).
struct PerLayerLinears {
  ops::Linear gate, projection;  // [P, H], [H, P]
};

struct DecoderLayer {
  std::int64_t number = 0;              // its place in the model
  const Mixer* mixer = nullptr;         // model/config/mixer.h
  std::vector<const LayerPart*> parts;  // model/config/layer_part.h
  LayerNorms norms;                     // the base's, as they multiply: where norms add one, 1 + w in fp32
  LayerNorms stored;                    // ... as the files have them: the same tensors where nothing is added
  LayerNorms
      trained;  // fp32, as the files have them: each takes the place of its namesake while adapters are on
  LayerTensors tensors;          // in the linears' dtype, those of LayerTensor::of_stream in the residual's
  LayerTensors trained_tensors;  // fp32, in the place of `tensors` while adapters are on
  // Linears that read one input write side by side: q | k | v and gate | up, each by two or three linears or one. Of a
  // short convolution `qkv` is the linear before it, b | c | x, and `o` the one after it. Of a delta rule `qkv` are the
  // four before it, q | k | v, z, b and a, and `o` the one after it.
  std::vector<ops::Linear> qkv, gate_up;
  ops::Linear o, down;
  std::optional<SparseMlp> experts;  // instead of gate_up and down
  std::optional<PerLayerLinears> per_layer;
  LayerAttention attention;

  // They are those of its parts: in the order of Hugging Face's files; and by what they read, with stacks in the place of experts.
  std::vector<ops::Linear*> linears();
  std::vector<const ops::Linear*> linears() const;
  std::vector<std::vector<const ops::Linear*>> readers() const;
  std::vector<LinearStack> stacks();
  std::vector<LinearStack> stacks() const;  // to be read only
  // The same of one part.
  std::vector<const ops::Linear*> linears(const LayerPart& part) const;
  std::vector<std::vector<const ops::Linear*>> readers(const LayerPart& part) const;
  std::vector<LinearStack> stacks(const LayerPart& part) const;
};

// Its linears that read one tensor become one matrix where their device wants that (ops/join/join.h).
void join_linears(DecoderLayer& layer);

// The norms of this pass, as they multiply; differentiable in the trained ones.
LayerNorms norms_of(const DecoderLayer& layer, const ModelConfig& config, const ops::PassContext& pass);
// A norm's weight as it multiplies: `stored`, or 1 + it in fp32.
at::Tensor norm_weight(const at::Tensor& stored, const ModelConfig& config);

// A tensor of this pass, in the dtype of DecoderLayer::tensors, or undefined; differentiable in a trained one.
at::Tensor tensor_of(const DecoderLayer& layer, TensorKind kind, const ops::PassContext& pass);

// The outputs of linears that read x, [T, width of each]; one linear that holds several is cut into `widths`.
std::vector<at::Tensor> outputs_of(const std::vector<ops::Linear>& linears, const at::Tensor& x,
                                   const ops::PassContext& pass, const std::vector<std::int64_t>& widths);

// [begin, end) of each sequence of a packed batch, in order, without a gap.
using SegmentBorders = std::vector<std::pair<std::int64_t, std::int64_t>>;

// What a layer reads beside the residual stream, in models that have it.
struct BesideStream {
  at::Tensor per_layer;  // [T, L P], inputs of all layers (per_layer.h)
  // Keys and values [T, K, D] that later layers read, by the number of their layer; to be kept over the layers of a pass.
  std::map<std::int64_t, std::pair<at::Tensor, at::Tensor>>* shared = nullptr;
};

// The part of layer `number` of inputs [T, L P]: [T, P], rows strided.
at::Tensor per_layer_part(const at::Tensor& inputs, std::int64_t number, const ModelConfig& config);

// x [T, H] -> [T, H] in the residual's dtype. `load` gets the router's numbers. Differentiable in x, the LoRA
// weights, the trained norms, weights and biases.
at::Tensor decoder_layer(const DecoderLayer& layer, const ModelConfig& config, const at::Tensor& x,
                         const RopeTables& ropes, const ops::PassContext& pass,
                         const SegmentBorders& segments, RouterLoad* load = nullptr,
                         const BesideStream& beside = {});

}  // namespace hone::model
