// adamw_bnb_8bit, adamw_8bit and the paged one: bitsandbytes' AdamW on 8-bit states, and on fp32 states for
// tensors that keep them, in the order of its CPU form.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "learn/optimizers/blockwise.h"
#include "learn/optimizers/rows.h"
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

Corrections update_moments(const StepNumbers& n, at::Tensor m, at::Tensor v, const at::Tensor& g) {
  const double beta1 = n.options.beta1, beta2 = n.options.beta2, step = static_cast<double>(n.step);
  m.mul_(beta1).add_(g, 1.0 - beta1);
  v.mul_(beta2).addcmul_(g, g, 1.0 - beta2);
  return {.first = 1.0 - std::pow(beta1, step), .second_root = std::sqrt(1.0 - std::pow(beta2, step))};
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
    const Corrections c = update_moments(n, m, v, part(g_flat));
    decay(n, to);
    to.add_(m.div(v.sqrt().add_(n.options.epsilon * c.second_root)),
            -n.learning_rate * c.second_root / c.first);
  }
}

void adamw8_apply(const StepNumbers& n, at::Tensor p, const at::Tensor& g, std::vector<at::Tensor>& state) {
  const double epsilon = n.options.epsilon;
  if (state[kCodes1].numel() == 0) {
    plain_apply(n, p, g, state);
    return;
  }
  const auto& with_sign = ops::DynamicCodes::with_sign();
  const auto& without_sign = ops::DynamicCodes::without_sign();
  at::Tensor m = from_codes(with_sign, state[kCodes1], state[kScales1], p);
  at::Tensor v = from_codes(without_sign, state[kCodes2], state[kScales2], p);
  const Corrections c = update_moments(n, m, v, g);
  decay(n, p);
  p.addcdiv_(m, v.sqrt().div_(c.second_root).add_(epsilon), -n.learning_rate / c.first);
  to_codes(with_sign, m, state[kCodes1], state[kScales1]);
  to_codes(without_sign, v, state[kCodes2], state[kScales2]);
}

}  // namespace

const OptimizerRow kAdamW8bitRow = {OptimizerKind::kAdamW8bit, "adamw_8bit", Units::kCodes, &adamw8_state,
                                    &adamw8_apply};

}  // namespace hone::learn
