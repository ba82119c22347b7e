// One batch through the model's layers and back, in either form of them: what the passes of all methods
// stand on. What comes after the layers (the head over a vocabulary, a score head) takes the output of some
// rows and hands their gradient back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "data/example.h"
#include "model/causal_lm.h"
#include "model/fused_pass.h"
#include "ops/linear.h"

namespace hone::train {

// What randomness depends on; see ops::PassContext.
struct RngKey {
  bool training = false;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  bool adapters_on = true;  // false: the base alone
};

// Which form of the layer runs (model/fused_layer.h, or the one under autograd), and what it keeps.
struct PassForm {
  bool is_fused = true;
  model::RecomputeLevel recompute = model::RecomputeLevel::kCheap;
};

// The final norm's output is given to the autograd head this many rows at a time: 512 x 152k fp32 logits are
// 311 MB, and the GEMM is at its full rate.
constexpr std::int64_t kHeadTile = 512;

class BatchPass {
 public:
  // Both must outlive it. Segment::row keys the dropout.
  BatchPass(const model::CausalLm& model, const data::Batch& batch, const RngKey& key, const PassForm& form);
  BatchPass(const BatchPass&) = delete;
  BatchPass& operator=(const BatchPass&) = delete;

  // Final-norm output of the tokens `rows`, in the linears' dtype [n, H], without a graph; a token may come
  // more than once. With `trains` what backward() needs is kept.
  at::Tensor forward(const std::vector<std::int64_t>& rows, bool trains);
  // From d [n, H] (any float dtype), the gradient of what forward() returned, to the adapter's gradients.
  void backward(at::Tensor d);

  const ops::PassContext& context() const { return context_; }
  bool is_fused() const { return form_.is_fused; }

 private:
  const model::CausalLm& model_;
  const data::Batch& batch_;
  PassForm form_;
  std::vector<std::int64_t> token_rows_;  // Segment::row of each token
  ops::PassContext context_;
  std::optional<model::FusedPass> fused_;
  at::Tensor autograd_;  // the rows with their graph
};

}  // namespace hone::train
