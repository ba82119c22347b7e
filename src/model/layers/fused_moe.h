// The mixture of experts without autograd: forward, and a hand-written backward. sparse_mlp() (moe.h) is the definition, and
// has the shapes.
//
// The products of all experts are asked for together (ops/experts). Backward takes the gradient of the weights w from the
// gradient of the experts' inner products: dw = (W_down^T dy) . h, so that the experts' outputs are never kept.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/layers/moe.h"

namespace hone::model {

// Holds what the forward keeps, in the linears' dtype. Undefined tensors are recomputed, with the same bits.
struct SparseTape {
  at::Tensor logits;        // [T, E] the router's, always kept
  at::Tensor router_a;      // [T, r] of a LoRA on the router
  at::Tensor gate_up;       // [S, 2 I]
  at::Tensor product;       // [S, I] act(gate) * up
  at::Tensor in_a, down_a;  // [S, r] scaled A x of the LoRAs on the stacks
};

// Which of them the forward keeps besides the small ones.
struct SparseKeeps {
  bool gate_up = false, product = false;
};

// x [T, H] in the linears' dtype -> [T, H]. `tape` and `load` may be null.
at::Tensor fused_sparse_forward(const SparseMlp& mlp, const ModelConfig& config, const at::Tensor& x,
                                const ops::PassContext& pass, const SparseKeeps& keeps, SparseTape* tape,
                                RouterLoad* load);

// d [T, H], the gradient of the output, in the linears' dtype -> that of x. Adds to the .grad of all that is trained; an
// expert without a row gets nothing. `balance` [E] or [T, E] fp32: what is added to the gradient of each token's softmax;
// or undefined. Consumes the tape.
at::Tensor fused_sparse_backward(const SparseMlp& mlp, const ModelConfig& config, const at::Tensor& x,
                                 const at::Tensor& d, const ops::PassContext& pass, SparseTape& tape,
                                 const at::Tensor& balance);

}  // namespace hone::model
