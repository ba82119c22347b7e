// One call of a part of a layer in the fused form (model/config/layer_part.h), with what parts share: they read
// the residual stream through a norm, multiply linears side by side, and add to the stream. The forward and
// every level of recompute run the same lines.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "model/config/layer_part.h"
#include "model/layers/fused_layer.h"

namespace hone::model {

struct PartCall {
  const DecoderLayer& layer;
  const LayerPass& pass;
  const LayerNorms& norms;  // of this pass
  const Segments& segments;
  at::ScalarType dtype;  // of the linears
  RecomputeLevel recompute = RecomputeLevel::kNone;
  const std::vector<StepCache>* caches = nullptr;  // of a sampler's step, which has no tape
  bool onto_stream = false;                        // what is added to the stream may be added in place
  // In a backward: the linear whose output's gradient d is after this part, or null; and whether the gradient of
  // the part's input is wanted.
  const ops::Linear* next = nullptr;
  bool input_gradient = true;

  bool keeps_all() const { return recompute == RecomputeLevel::kNone; }
  bool keeps_some() const { return recompute != RecomputeLevel::kLayer; }
  bool is_gelu() const { return pass.config.activation == Activation::kGeluTanh; }

  // Returns what `readers` read of the stream: its norm, or the stream itself; in the linears' dtype.
  at::Tensor read(const at::Tensor& stream, NormPlace place, std::span<const ops::Linear> readers) const;

  // The low-rank products of linears that read x, appended to `all`.
  void lora_a_forwards(std::span<const ops::Linear> linears, const at::Tensor& x,
                       std::vector<at::Tensor>& all) const;

  // The outputs of linears that read x side by side; their low-rank products start at all[first].
  at::Tensor multiply(std::span<const ops::Linear> linears, const at::Tensor& x,
                      const std::vector<at::Tensor>& all, std::size_t first) const;

  // stream + linear(x), in the stream's dtype. With a norm after it, or a scale, the linear's output is kept apart:
  // `branch`, if there is one, becomes what the norm reads.
  at::Tensor add_linear(const at::Tensor& stream, const ops::Linear& linear, const at::Tensor& x,
                        const at::Tensor& lora_a_out, NormPlace norm_after, at::Tensor* branch) const;
  // stream + out, after the norm and the scale of what is added.
  at::Tensor add_branch(const at::Tensor& stream, at::Tensor out, NormPlace norm_after,
                        at::Tensor* branch) const;

  // From the gradient of add_linear()'s result that of the linear's output, in the linears' dtype. `linear`: where
  // one alone reads it, with the room that its join wants.
  at::Tensor linear_gradient(const at::Tensor& d, NormPlace norm_after, const at::Tensor& branch,
                             const ops::Linear* linear = nullptr) const;
  // The gradient of x, which these linears read (`wanted` false: undefined), and theirs. Their outputs lie side by
  // side in d_out; their low-rank products start at all[first].
  at::Tensor linears_gradient(std::span<const ops::Linear> linears, const std::vector<at::Tensor>& all,
                              std::size_t first, const at::Tensor& d_out, const at::Tensor& x,
                              bool wanted = true) const;
  // d += the gradient of what read() read, where it is wanted; and a trained norm gets its own.
  void read_backward(at::Tensor& d, const at::Tensor& d_read, const at::Tensor& stream,
                     NormPlace place) const;
};

}  // namespace hone::model
