// Why trainable tensors receive a gradient of exactly 0: alternatives are tested until all tensors are
// explained. Used by probe_gradient, after its rehearsal.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/excluded.h"
#include "train/opening/run_view.h"

namespace hone::doctor {

// A trainable tensor, and its value when the run was opened.
struct StartValue {
  const adapters::TrainableTensor* tensor = nullptr;
  at::Tensor value;
};

struct ZeroGradient {
  std::string cause;  // of all of them, or suspected
  std::string fix, evidence;
  Excluded excluded;
  bool explained = false;                // false: the inputs are not the cause
  std::vector<std::string> unexplained;  // names
};

// `silent` are the tensors without a gradient in the rehearsed steps, which scored `scored` tokens with loss
// `loss` (nats) in the first; `all` are the adapter's. Tested in this order:
//   A and B of a module both 0 in the adapter to be continued; norms, linears, head or embedding of the base
//   all 0; tokens of trainable_token_indices that no row has; a saturated loss (do they receive a gradient with
//   lora_B a millionth as large?); and, if none of these explains them, the pass over the model without the
//   method, in both forms of the layer.
// Changes parameters and gradients: call it under a StateGuard.
ZeroGradient explain_zero_gradient(const train::RunView& run, const std::vector<StartValue>& all,
                                   const std::vector<const adapters::TrainableTensor*>& silent,
                                   std::int64_t scored, double loss);

// The norms and linears of the base whose values are all 0: "model.layers.0.self_attn.o_proj".
std::vector<std::string> zero_modules(const model::CausalLm& model);

}  // namespace hone::doctor
