// lion_32bit, lion_8bit and the paged ones: Lion (Chen et al. 2023) in the order of bitsandbytes' CPU forms.
#include <ATen/ATen.h>

#include "learn/optimizers/blockwise.h"
#include "learn/optimizers/rows.h"
#include "ops/lion.h"

namespace hone::learn {
namespace {

ops::LionRates rates_of(const StepNumbers& n) {
  return {.decay = n.weight_decay > 0 ? 1.0 - n.learning_rate * n.weight_decay : 1.0,
          .beta1 = n.options.beta1,
          .one_minus_beta1 = 1.0 - n.options.beta1,
          .beta2 = n.options.beta2,
          .one_minus_beta2 = 1.0 - n.options.beta2,
          .minus_learning_rate = -n.learning_rate};
}

void lion_step(const StepNumbers& n, const at::Tensor& p, const at::Tensor& g, const at::Tensor& m) {
  ops::lion({.p = p.flatten(), .g = g.flatten(), .m = m, .rates = rates_of(n)});
}

std::vector<StateSize> lion_state(const OptimizerOptions&, const FlatTensor& tensor) {
  return {{"exp_avg", tensor.size}};
}

void lion_apply(const StepNumbers& n, at::Tensor p, const at::Tensor& g, std::vector<at::Tensor>& state) {
  lion_step(n, p, g, state[0]);
}

std::vector<StateSize> lion8_state(const OptimizerOptions&, const FlatTensor& tensor) {
  const std::int64_t coded = is_8bit(tensor) ? tensor.size : 0;
  return {{"state1", coded, at::kByte}, {"absmax1", state_blocks(coded)}, {"exp_avg", tensor.size - coded}};
}

void lion8_apply(const StepNumbers& n, at::Tensor p, const at::Tensor& g, std::vector<at::Tensor>& state) {
  if (state[0].numel() == 0) {
    lion_step(n, p, g, state[2]);
    return;
  }
  ops::lion_codes(
      {.p = p.flatten(), .g = g.flatten(), .codes = state[0], .scales = state[1], .rates = rates_of(n)});
}

}  // namespace

const OptimizerRow kLionRow = {OptimizerKind::kLion, "lion", Units::kBlocks, &lion_state, &lion_apply};
const OptimizerRow kLion8bitRow = {OptimizerKind::kLion8bit, "lion_8bit", Units::kCodes, &lion8_state,
                                   &lion8_apply};

}  // namespace hone::learn
