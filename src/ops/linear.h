// y = x W^T + b + (x A_f^T) B_f^T + s * ((x * dropout) A^T) B^T: the one linear that every layer uses. A_f
// and B_f are frozen adapters below the trained one, if there are any. Formula: PEFT 0.21.2 lora/layer.py
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

// The trainable side of one linear.
struct LoraSide {
  at::Tensor a;          // [r, in] fp32, requires grad
  at::Tensor b;          // [out, r] fp32, requires grad
  at::Tensor magnitude;  // [out] fp32, requires grad: DoRA's; undefined: plain LoRA
  double scale = 1.0;
  double dropout = 0.0;           // probability of dropping a feature of x
  std::uint64_t dropout_key = 0;  // (layer, module) as one number; see dropout_mask

  // A and B as the explicit form's GEMM reads them, in the base's dtype `dtype`: made again when the master
  // is another tensor or has changed since (told by its version counter, which whoever writes through a raw
  // pointer must bump). Not for two threads at once.
  const Weight& a_operand(at::ScalarType dtype) const { return operand(a, a_shadow_, dtype); }
  const Weight& b_operand(at::ScalarType dtype) const { return operand(b, b_shadow_, dtype); }

 private:
  struct Shadow {
    Weight weight;
    at::Tensor master;  // what it was made of
    std::int64_t version = 0;
  };
  static const Weight& operand(const at::Tensor& master, Shadow& shadow, at::ScalarType dtype);
  mutable Shadow a_shadow_, b_shadow_;
  friend at::Tensor dora_norm(const Linear& linear);
  struct Norm {
    at::Tensor values, a, b;  // and what it was made of
    std::int64_t a_version = 0, b_version = 0;
  };
  mutable Norm norm_;
};

// Frozen adapters under one linear: part of the base, on where adapters are off too, and never dropped out.
// Several are one side, their A below each other and their B beside each other. In W's dtype, also where W is
// quantised. Not together with a LoraSide that has a magnitude.
struct FrozenSide {
  Weight a;  // [r, in], the rows of each adapter times its scale
  Weight b;  // [out, r]
};

struct Linear {
  std::string name;  // Hugging Face's: "model.layers.0.self_attn.q_proj"
  Weight weight;     // [out, in], frozen
  at::Tensor bias;   // [out] or undefined
  std::optional<FrozenSide> below;
  std::optional<LoraSide> lora;
};

// What randomness and adapters mean in this pass; handed down by the caller, never ambient.
struct PassContext {
  bool training = false;    // dropout on
  bool adapters_on = true;  // false: the reference model
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  // [T] each: which row of the data a token came from, and its place in it. Key the dropout mask, so that it
  // does not depend on packing or batch shape. May be undefined when training is false.
  const std::vector<std::int64_t>* token_row = nullptr;
  const std::vector<std::int64_t>* token_position = nullptr;
};

// Differentiable in x, A and B; W, b and the frozen side are treated as constants.
at::Tensor linear_forward(const Linear& linear, const at::Tensor& x, const PassContext& pass);

// The [T, features] fp32 mask of 0 and 1/(1-p) for one adapted module: element (t, f) is a pure function of
// (seed, step, key, token_row[t], token_position[t], f).
at::Tensor dropout_mask(const PassContext& pass, std::uint64_t key, double p, std::int64_t features);

}  // namespace hone::ops
