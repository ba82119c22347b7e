// A mixture of experts instead of a layer's MLP, in autograd form (transformers 5.23: modeling_qwen3_moe.py,
// modeling_mixtral.py, modeling_granitemoe.py, integrations/moe.py). The fused form is fused_moe.h.
//
//   y[t] = sum over s of w[t, s] down_e(act(gate_e(x[t])) * up_e(x[t])),  e = chosen[t, s]
//
// The router scores all experts and chooses k of them for each token, the one with the highest score first. Rows are sorted
// by expert (ops/experts), and nothing is padded. A token's k outputs are added in the order of s, in fp32, so that its bits do
// not depend on the other tokens.
//
// Shapes: T tokens, H hidden, E experts, k experts of a token, S = T k rows sorted by expert, I width of an expert, r rank.
//
// Precision: the router's logits and the experts have the linears' dtype. Softmax and sums are fp32. The weights are rounded
// to the linears' dtype, except Mixtral's. Under autocast transformers multiplies stacked experts in their own dtype, which
// is float32 there; hone multiplies them in the linears'.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "model/config/model_config.h"
#include "ops/experts/expert_products.h"
#include "ops/linear.h"

namespace hone::model {

struct Expert {
  ops::Linear gate, up, down;  // [I, H], [I, H], [H, I]
};

// A LoRA on stacked parameters [E, out, in] in the dtype of products: the factors of each expert.
struct StackedFactors {
  at::Tensor a;  // [E, r, in]
  at::Tensor b;  // [E, out, r]
};

// A stack's factors, expert by expert, as the fused form's products read them.
struct ExpertFactors {
  std::vector<ops::Weight> a, b;   // [r, in], [out, r]
  std::vector<ops::Weight> parts;  // of b: the rows of each linear of an expert
};

// Made again when the LoRA is another or has changed, as ops::CastWeight. `parts`: linears of an expert. Not thread-safe.
class FactorCast {
 public:
  const ExpertFactors& of(const ops::Linear& stack, std::int64_t experts, std::int64_t parts,
                          at::ScalarType dtype) const;

 private:
  mutable ExpertFactors factors_;
  mutable at::Tensor a_, b_;  // what they were made from
  mutable std::int64_t a_version_ = 0, b_version_ = 0;
};

struct SparseMlp {
  ops::Linear router;  // [E, H]
  std::vector<Expert> experts;
  // Where a LoRA on the parameters gate_up_proj [E, 2 I, H] and down_proj [E, H, I] is: linears without numbers that are
  // called as the parameters, with lora_A [r E, in] and lora_B [out, r E] of PEFT's ParamWrapper: rows e r to (e + 1) r of A,
  // every E-th column of B from e on.
  ops::Linear gate_up_stack, down_stack;
  FactorCast gate_up_cast, down_cast;                                         // of the two
  std::shared_ptr<const ops::Quantized> gate_up_codes = {}, down_codes = {};  // of ops::lay_out_experts

  // The router, then the experts: gates, ups, downs.
  std::vector<ops::Linear*> linears();
  std::vector<const ops::Linear*> linears() const;
  // Puts the experts' weights where their device multiplies them together (ops::lay_out_experts), once they are read.
  void lay_out();
};

// The factors of a stack's LoRA, differentiable in it. Undefined: it has none in this pass.
StackedFactors stacked_factors(const ops::Linear& stack, std::int64_t experts, at::ScalarType dtype,
                               const ops::PassContext& pass);

// Holds what the routers of a pass did, over all layers with experts: for the load-balancing loss
// (load_balancing_loss_func).
struct RouterLoad {
  at::Tensor assigned = {};  // [E] fp32: how often each expert was chosen
  at::Tensor scores = {};    // [E] fp32: the sum of its softmax; differentiable in the autograd form
  double rows = 0;           // tokens times layers
  // How often each token of the pass counts, [T] fp32 on the model's device, and their sum: a shared prompt once for
  // each of its completions, what a mask leaves out 0 times. Undefined: every token once.
  at::Tensor weights = {};
  double weight_sum = 0;

  bool defined() const { return assigned.defined(); }
  void clear();  // for another pass over the same tokens: the weights stay
  void add(const at::Tensor& chosen, const at::Tensor& softmax);
  // E sum over e of (assigned / rows) (scores / rows), fp32 [].
  at::Tensor loss() const;
  // The loss's gradient in one token's softmax, fp32: [E], or with weights [T, E].
  at::Tensor gradient() const;
};

// The router's choice.
struct Routing {
  at::Tensor softmax;  // [T, E] fp32, over all experts
  at::Tensor chosen;   // [T, k] int64
  at::Tensor weights;  // [T, k] as they multiply
};
// From logits [T, E]; differentiable in the softmax and the weights. torch's topk, with its order of equal scores.
Routing route(const at::Tensor& logits, const ExpertsRule& rule);

// x [T, H] -> [T, H] in the linears' dtype. Differentiable in x, the LoRA weights and the trained weights. `load` (null: not
// asked) gets the routers' numbers.
at::Tensor sparse_mlp(const SparseMlp& mlp, const ModelConfig& config, const at::Tensor& x,
                      const ops::PassContext& pass, RouterLoad* load = nullptr);

}  // namespace hone::model
