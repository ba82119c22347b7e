// A whole training or scoring pass in fused form: embedding, layers, final norm of the scored rows, and the
// backward into all that is trained below the head. No autograd.
//
// A prompt that several completions share is computed once, as a segment that theirs name as their prefix
// (data/records/record.h). This is exact: up to rounding, gradients are those of the prompt repeated before each
// completion, and a completion's rows have the same bits as in the sampler after a shared prompt.
//
// Shapes: T tokens of all segments, n scored rows, H hidden.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <vector>

#include "data/records/record.h"
#include "model/causal_lm.h"
#include "model/layers/fused_layer.h"
#include "model/layers/repeated_rows.h"

namespace hone::model {

// Lives from the forward to the backward; the model, the batch and the context must outlive it.
class FusedPass {
 public:
  // `load`: how tokens count in router_load(); with nothing added yet.
  FusedPass(const CausalLm& model, const data::Batch& batch, const ops::PassContext& context,
            RouterLoad load = {});

  // Final-norm output of the tokens `rows` [n] int64 (on the CPU), in the linears' dtype [n, H], on the
  // model's device. A row may occur more than once: the last row of a shared prompt predicts the first token
  // of every completion. With `recompute` a tape is kept for backward().
  at::Tensor forward(const at::Tensor& rows, std::optional<RecomputeLevel> recompute);

  // d [n, H] (any float dtype) is the gradient of forward's result. Adds to the .grad of all that is trained in the
  // layers, of the final norm, and of CausalLm::token_rows() and the embedding, for their use in the embedding; the
  // gradients of repeated rows are summed in fp32, in order. Stops at the lowest layer of which something is trained,
  // unless rows of the embedding are. Once per forward with a tape; d is released as soon as it is read.
  // `balance`: the factor of router_load().loss() in the loss, whose gradient is added.
  void backward(at::Tensor d, double balance = 0);

  // The routers of forward(); undefined for a model without experts.
  const RouterLoad& router_load() const { return load_; }

 private:
  bool trains_embedding() const;
  bool trains_per_layer() const;  // anything that layers' own inputs are made of
  // From the gradient of layers' own inputs to that of the stream that the first layer reads, added to dx.
  void per_layer_backward(const at::Tensor& d_per_layer, const at::Tensor& dx) const;

  const CausalLm& model_;
  const data::Batch& batch_;
  const ops::PassContext& context_;
  RopeTables ropes_;
  Segments segments_;
  TokenRows::Places trained_;  // tokens whose rows of the embedding are trained
  std::size_t first_adapted_ =
      0;  // the lowest layer of which something is trained, or 0 for what is below all layers
  std::vector<LayerTape> tape_;  // of layers first_adapted_ and above
  std::map<std::int64_t, SharedKeys> shared_;
  at::Tensor per_layer_;  // [T, L P], layers' own inputs
  PerLayerTape per_layer_tape_;
  RepeatedRows rows_;
  RouterLoad load_;
  at::Tensor last_;  // of the distinct rows, [u, H]: residual stream before the final norm
};

}  // namespace hone::model
