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
#include <optional>
#include <string>
#include <vector>

#include "ops/weight.h"

namespace hone::ops {

struct Linear;

// The trainable weights of one linear.
struct LoraWeights {
  at::Tensor a;          // [r, in] fp32, requires grad
  at::Tensor b;          // [out, r] fp32, requires grad
  at::Tensor magnitude;  // [out] fp32, requires grad: DoRA's; undefined: LoRA
  double scale = 1.0;
  double dropout = 0.0;           // probability of dropping a feature of x
  std::uint64_t dropout_key = 0;  // (layer, module) as one number; see dropout_mask

  // A and B as the fused form's GEMM reads them, in the base's dtype `dtype`. Cached; made again when the
  // master is another tensor or has changed since (by its version counter, which code that writes through a
  // raw pointer must increment). Not thread-safe.
  const Weight& a_operand(at::ScalarType dtype) const { return operand(a, a_shadow_, dtype); }
  const Weight& b_operand(at::ScalarType dtype) const { return operand(b, b_shadow_, dtype); }

 private:
  struct Shadow {
    Weight weight;
    at::Tensor master;  // the tensor it was made from
    std::int64_t version = 0;
  };
  static const Weight& operand(const at::Tensor& master, Shadow& shadow, at::ScalarType dtype);
  mutable Shadow a_shadow_, b_shadow_;
  friend at::Tensor dora_norm(const Linear& linear);
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
  std::optional<FrozenLora> frozen_lora;
  std::optional<LoraWeights> lora;
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
};

// Differentiable in x, A and B; W, b and the frozen adapters are treated as constants.
at::Tensor linear_forward(const Linear& linear, const at::Tensor& x, const PassContext& pass);

// The [T, features] fp32 mask of 0 and 1/(1-p) for one adapted module: element (t, f) is a pure function of
// (seed, step, key, token_row[t], token_position[t], f).
at::Tensor dropout_mask(const PassContext& pass, std::uint64_t key, double p, std::int64_t features);

}  // namespace hone::ops
