// adamw_bnb_8bit, adamw_8bit and the paged one: bitsandbytes' AdamW on 8-bit states, and on fp32 states for
// tensors that keep them, in the order of its CPU form.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "learn/optimizers/blockwise.h"
#include "learn/optimizers/rows.h"
#include "ops/adamw.h"
#include "ops/machine/device_memory.h"

namespace hone::learn {
namespace {

enum State : std::size_t { kCodes1, kCodes2, kScales1, kScales2, kMoment1, kMoment2 };

std::vector<StateSize> adamw8_state(const OptimizerOptions&, const FlatTensor& tensor) {
  const std::int64_t coded = is_8bit(tensor) ? tensor.size : 0, blocks = state_blocks(coded);
  const std::int64_t plain = tensor.size - coded;
  return {{"state1", coded, at::kByte}, {"state2", coded, at::kByte}, {"absmax1", blocks},
          {"absmax2", blocks},          {"exp_avg", plain},           {"exp_avg_sq", plain}};
}

struct Corrections {
  double first, second_root;
};

Corrections corrections_of(const StepNumbers& n) {
  const auto step = static_cast<double>(n.step);
  return {.first = 1.0 - std::pow(n.options.beta1, step),
          .second_root = std::sqrt(1.0 - std::pow(n.options.beta2, step))};
}

void update_moments(const StepNumbers& n, at::Tensor m, at::Tensor v, const at::Tensor& g) {
  m.mul_(n.options.beta1).add_(g, 1.0 - n.options.beta1);
  v.mul_(n.options.beta2).addcmul_(g, g, 1.0 - n.options.beta2);
}

void decay(const StepNumbers& n, at::Tensor p) {
  if (n.weight_decay > 0) p.mul_(1.0 - n.learning_rate * n.weight_decay);
}

// A tensor with fp32 states, block by block: an embedding's temporaries would be as large as its states.
void plain_apply(const StepNumbers& n, const at::Tensor& p, const at::Tensor& g,
                 const std::vector<at::Tensor>& state) {
  const std::int64_t at_once = ops::is_host(p.device()) ? 1 << 16 : std::max<std::int64_t>(1, p.numel());
  const at::Tensor p_flat = p.flatten(), g_flat = g.flatten();
  for (std::int64_t begin = 0; begin < p.numel(); begin += at_once) {
    const std::int64_t size = std::min(at_once, p.numel() - begin);
    const auto part = [&](const at::Tensor& all) { return all.narrow(0, begin, size); };
    at::Tensor to = part(p_flat);
    const at::Tensor m = part(state[kMoment1]), v = part(state[kMoment2]);
    const Corrections c = corrections_of(n);
    update_moments(n, m, v, part(g_flat));
    decay(n, to);
    to.add_(m.div(v.sqrt().add_(n.options.epsilon * c.second_root)),
            -n.learning_rate * c.second_root / c.first);
  }
}

void adamw8_apply(const StepNumbers& n, at::Tensor p, const at::Tensor& g, std::vector<at::Tensor>& state) {
  if (state[kCodes1].numel() == 0) {
    plain_apply(n, p, g, state);
    return;
  }
  const double beta1 = n.options.beta1, beta2 = n.options.beta2;
  const Corrections c = corrections_of(n);
  ops::adamw_codes({.p = p.flatten(),
                    .g = g.flatten(),
                    .codes1 = state[kCodes1],
                    .codes2 = state[kCodes2],
                    .scales1 = state[kScales1],
                    .scales2 = state[kScales2],
                    .decay = n.weight_decay > 0 ? 1.0 - n.learning_rate * n.weight_decay : 1.0,
                    .beta1 = beta1,
                    .one_minus_beta1 = 1.0 - beta1,
                    .beta2 = beta2,
                    .one_minus_beta2 = 1.0 - beta2,
                    .root_correction2 = c.second_root,
                    .epsilon = n.options.epsilon,
                    .minus_step_size = -n.learning_rate / c.first});
}

}  // namespace

const OptimizerRow kAdamW8bitRow = {OptimizerKind::kAdamW8bit, "adamw_8bit", Units::kCodes, &adamw8_state,
                                    &adamw8_apply};

}  // namespace hone::learn
