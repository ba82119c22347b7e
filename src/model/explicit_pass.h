// A whole training or scoring pass in explicit form: embedding, layers, final norm of the rows that are
// scored, and the backward into the LoRA sides and the rows of the embedding that are trained. No autograd.
//
// A prompt that several completions share is run once: a segment of its own, which theirs name as prefix
// (data/example.h). It is exact: gradients are those of the prompt repeated before each completion, to
// rounding, and a completion's rows have the bits that a sampler gives them after a shared prompt.
//
// Shapes: T tokens of all segments, n scored rows, H hidden.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "data/example.h"
#include "model/causal_lm.h"
#include "model/explicit_layer.h"
#include "model/repeated_rows.h"

namespace hone::model {

// Lives from a forward to its backward; the model, the batch and the context must outlive it.
class ExplicitPass {
 public:
  ExplicitPass(const CausalLm& model, const data::Batch& batch, const ops::PassContext& context);

  // Final-norm output of the tokens `rows` [n] int64 (on the CPU), in the linears' dtype [n, H], on the
  // model's device. A row may come more than once: the last of a shared prompt predicts the first token of
  // every completion. With `recompute` a tape is kept for backward(); without, nothing is.
  at::Tensor forward(const at::Tensor& rows, std::optional<Recompute> recompute);

  // From d [n, H] (any float dtype), the gradient of what forward returned, to the .grad of every LoRA side,
  // and of CausalLm::token_rows() as the embedding gives them, to which it is added; the gradients of one
  // row's places are added up in fp32, in order. Layers below the lowest side are not visited, unless a token
  // of the batch has a trained row. Once a taped forward; d is let go of as soon as it is read.
  void backward(at::Tensor d);

 private:
  const CausalLm& model_;
  const data::Batch& batch_;
  const ops::PassContext& context_;
  ops::RopeTable rope_;
  Segments segments_;
  TokenRows::Places trained_;      // tokens whose rows of the embedding are trained
  std::size_t first_adapted_ = 0;  // the lowest layer with a side, or that a trained row passes
  std::vector<LayerTape> tape_;    // of layers first_adapted_ and up
  RepeatedRows rows_;
  at::Tensor last_;  // of the different rows, [u, H]: residual stream before the final norm
};

}  // namespace hone::model
