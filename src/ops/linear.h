// y = x W^T + b + (x A_f^T) B_f^T + s * ((x * dropout) A^T) B^T: the linear that every layer uses. A_f and
// B_f are the frozen adapters below the trained one, if there are any. Formula: PEFT 0.21.2 lora/layer.py
// Linear.forward; s = alpha / r, or alpha / sqrt(r) with rsLoRA. With DoRA (a magnitude m): ops/dora.h.
//
// Shapes: x [T, in], W [out, in], b [out], A [r, in], B [out, r], y [T, out].
// Precision: W's dtype decides the GEMM. x is cast to it (what autocast does), fp32 accumulation inside. A
// and B are fp32 masters and are cast, differentiably, to the GEMM's dtype.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/weight.h"

namespace hone::ops {

struct Linear;
class Join;

// A trained fp32 matrix as GEMMs read it, in the dtype of the base. Cached; made again when the matrix is another
// tensor or has changed since (by its version counter, which code that writes through a raw pointer must
// increment). Not thread-safe.
class CastWeight {
 public:
  // `packs`: packed where that is possible, which costs time after every step and pays off where one is sampled from.
  CastWeight() = default;
  explicit CastWeight(bool packs) : packs_(packs) {}
  const Weight& of(const at::Tensor& master, at::ScalarType dtype) const;
  // Frees it, until of() is called again; whoever holds a reference to it no longer does.
  void release() const;

 private:
  bool packs_ = true;
  mutable Weight weight_;
  mutable at::Tensor master_;  // the tensor it was made from
  mutable std::int64_t version_ = 0;
};

// The trainable weights of one linear.
struct LoraWeights {
  at::Tensor a;          // [r, in] fp32, requires grad
  at::Tensor b;          // [out, r] fp32, requires grad
  at::Tensor magnitude;  // [out] fp32, requires grad: DoRA's; undefined: LoRA
  double scale = 1.0;
  double dropout = 0.0;           // probability of dropping a feature of x
  std::uint64_t dropout_key = 0;  // (layer, module) as one number; see dropout_mask

  // A and B as the fused form's GEMM reads them, in the base's dtype `dtype`.
  const Weight& a_operand(at::ScalarType dtype) const { return a_cast_.of(a, dtype); }
  const Weight& b_operand(at::ScalarType dtype) const { return b_cast_.of(b, dtype); }

 private:
  CastWeight a_cast_, b_cast_;
  friend at::Tensor dora_norm(const Linear& linear, const LoraWeights& side);
  struct Norm {
    at::Tensor values, a, b;  // and the tensors it was made from
    std::int64_t a_version = 0, b_version = 0;
  };
  mutable Norm norm_;
};

// Frozen adapters under one linear: part of the base model, so on even when adapters are off, and without
// dropout. Several adapters are concatenated: A along the rows, B along the columns. In W's dtype, also when
// W is quantized. Not together with a LoraWeights that has a magnitude.
struct FrozenLora {
  Weight a;  // [r, in], the rows of each adapter times its scale
  Weight b;  // [out, r]
};

struct Linear {
  std::string name;  // Hugging Face's: "model.layers.0.self_attn.q_proj"
  Weight weight;     // [out, in], frozen
  at::Tensor bias;   // [out] or undefined
  // fp32, requires grad: each takes the place of the frozen one while adapters are on; or undefined.
  at::Tensor trained_weight;  // [out, in]
  at::Tensor trained_bias;    // [out]
  CastWeight trained_cast;    // trained_weight as products read it
  std::optional<FrozenLora> frozen_lora;
  std::optional<LoraWeights> lora;
  // The name by which adapters know it; empty: `name`. And of how many matrices `lora` holds the factors: more than one of
  // the stacked experts (model/layers/moe.h), where the weight has no numbers.
  std::string adapter_name = {};
  std::int64_t stacked = 1;
  // On a device that joins linears (ops/join/join.h) the one that has this weight, and its place there; or null.
  std::shared_ptr<const Join> join = nullptr;
  std::size_t place = 0;

  const std::string& named_in_adapters() const { return adapter_name.empty() ? name : adapter_name; }
};

// An adapter that the model does not hold itself: its side of each linear of the model that has one. Passes without
// autograd read it for some of their rows, beside other adapters' rows (PassContext::adapter_rows). All its values are
// finite, because zeros in the rows of others are multiplied by them.
using AdapterSides = std::unordered_map<const Linear*, LoraWeights>;

// Rows [begin, end) of what a pass reads go through these sides; null: through Linear::lora.
struct AdapterRows {
  std::int64_t begin = 0, end = 0;
  const AdapterSides* sides = nullptr;
};

// Dropout and adapters in this pass; passed by the caller, never global.
struct PassContext {
  bool training = false;    // dropout on
  bool adapters_on = true;  // false: the reference model
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  // [T] each: which row of the data a token came from, and its place in it. They key the dropout mask, so
  // that it does not depend on packing or batch shape. May be undefined when training is false.
  const std::vector<std::int64_t>* token_row = nullptr;
  const std::vector<std::int64_t>* token_position = nullptr;
  // NEFTune (model/layers/embedding_noise.h): the embeddings get uniform noise of at most this size in training.
  double embedding_noise = 0;
  // These say whose adapter each row goes through, in order and without a gap, in a pass without autograd and without
  // dropout. None: all rows go through Linear::lora. A row has the bits that it has in a pass of its adapter alone, by the contract of
  // ops/gemm.h. Matrices of experts know Linear::lora only.
  std::span<const AdapterRows> adapter_rows = {};
};

// `trained` in the dtype of `frozen`, whose place it takes while adapters are on; `frozen` where it is undefined.
// Differentiable in `trained`. For biases and norms' weights.
at::Tensor trained_or(const at::Tensor& frozen, const at::Tensor& trained, const PassContext& pass);

// The weight in this pass. Of a frozen one without numbers always the trained one: then adapters cannot be off.
const Weight& weight_of(const Linear& linear, const PassContext& pass);

// The bias in this pass, or undefined.
inline at::Tensor bias_of(const Linear& linear, const PassContext& pass) {
  return trained_or(linear.bias, linear.trained_bias, pass);
}

// Differentiable in x, A, B, the trained weight and the trained bias; W, b and the frozen adapters are treated as
// constants.
at::Tensor linear_forward(const Linear& linear, const at::Tensor& x, const PassContext& pass);

// The [T, features] fp32 mask of 0 and 1/(1-p) for one adapted module: element (t, f) is a pure function of
// (seed, step, key, token_row[t], token_position[t], f).
at::Tensor dropout_mask(const PassContext& pass, std::uint64_t key, double p, std::int64_t features);

}  // namespace hone::ops
