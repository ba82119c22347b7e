// A whole training or scoring pass in explicit form: embedding, layers, final norm of the rows that are
// scored, and the backward into the LoRA sides. No autograd.
//
// Shapes: T tokens of all segments, n scored rows, H hidden.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "data/example.h"
#include "model/causal_lm.h"
#include "model/explicit_layer.h"

namespace hone::model {

// Lives from a forward to its backward; the model, the batch and the context must outlive it.
class ExplicitPass {
 public:
  ExplicitPass(const CausalLm& model, const data::Batch& batch, const ops::PassContext& context);

  // Final-norm output of the tokens `rows` [n] int64 (each at most once), in the linears' dtype [n, H]. With
  // `recompute` a tape is kept for backward(); without, nothing is.
  at::Tensor forward(const at::Tensor& rows, std::optional<Recompute> recompute);

  // From d [n, H] (any float dtype), the gradient of what forward returned, to the .grad of every LoRA side,
  // to which it is added. Layers below the lowest side are not visited. Once a taped forward; d is let go of
  // as soon as it is read.
  void backward(at::Tensor d);

 private:
  const CausalLm& model_;
  const data::Batch& batch_;
  const ops::PassContext& context_;
  ops::RopeTable rope_;
  Segments segments_;
  std::size_t first_adapted_ = 0;  // the lowest layer with a side
  std::vector<LayerTape> tape_;    // of layers first_adapted_ and up
  at::Tensor rows_, last_;         // [n]; [n, H] residual stream before the final norm
};

}  // namespace hone::model
