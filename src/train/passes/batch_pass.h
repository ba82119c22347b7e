// One batch through the model's layers and back, in fused or autograd form; all methods use it. The head
// (over a vocabulary, or a score head) takes the output of some rows and returns their gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "data/records/record.h"
#include "model/causal_lm.h"
#include "model/fused_pass.h"
#include "ops/linear.h"

namespace hone::train {

// The key of the randomness; see ops::PassContext.
struct RngKey {
  bool training = false;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  bool adapters_on = true;     // false: only the base
  double embedding_noise = 0;  // NEFTune's bound; only when training
};

// The form of the layer (fused, model/layers/fused_layer.h, or autograd), and its recompute level.
struct PassForm {
  bool is_fused = true;
  model::RecomputeLevel recompute = model::RecomputeLevel::kCheap;
};

// Rows per call of the autograd head: 512 x 152k fp32 logits are 311 MB, and the GEMM is at its full rate.
constexpr std::int64_t kHeadTile = 512;

class BatchPass {
 public:
  // All must outlive it. Segment::row keys the dropout. `weights`: how often each token of the batch counts in
  // router_load(); empty: once.
  BatchPass(const model::CausalLm& model, const data::Batch& batch, const RngKey& key, const PassForm& form,
            const std::vector<float>& weights = {});
  BatchPass(const BatchPass&) = delete;
  BatchPass& operator=(const BatchPass&) = delete;

  // Final-norm output of the tokens `rows`, in the linears' dtype [n, H], without a graph; a token may occur
  // more than once. With `trains` it keeps what backward() needs.
  at::Tensor forward(const std::vector<std::int64_t>& rows, bool trains);
  // From d [n, H] (any float dtype), the gradient of what forward() returned, to the adapter's gradients.
  // `balance`: the factor of router_load().loss() in the loss.
  void backward(at::Tensor d, double balance = 0);
  // The routers of forward(); undefined for a model without experts.
  const model::RouterLoad& router_load() const { return fused_ ? fused_->router_load() : load_; }

  const ops::PassContext& context() const { return context_; }
  // The context of a head that reads rows [begin, begin + count) of what forward() returned. Valid until the next
  // call.
  const ops::PassContext& head_context(std::int64_t begin, std::int64_t count);
  bool is_fused() const { return form_.is_fused; }

 private:
  const model::CausalLm& model_;
  const data::Batch& batch_;
  PassForm form_;
  std::vector<std::int64_t> token_rows_;  // Segment::row of each token
  ops::PassContext context_;
  std::optional<model::FusedPass> fused_;
  model::RouterLoad load_;                                // in autograd form; before forward() its weights
  at::Tensor autograd_;                                   // the rows with their graph
  std::vector<std::int64_t> rows_;                        // the tokens that forward() was asked for
  std::vector<std::int64_t> head_rows_, head_positions_;  // of head_context_
  ops::PassContext head_context_;
};

}  // namespace hone::train
