// log p(target) = (x_t - max) - log sum exp(x - max), row by row in blocks, so that the scratch is
// [kRowsAtOnce, V]. The maximum is taken off first: x_t - logsumexp(x) would lose digits where logits are
// large.
#include "learn/sft_loss.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "base/error.h"

namespace hone::learn {
namespace {

constexpr std::int64_t kRowsAtOnce = 128;  // as TRL's entropy_from_logits

// Calls block(first row, number of rows) over n rows.
template <typename Block>
void for_each_block(std::int64_t n, Block block) {
  for (std::int64_t row = 0; row < n; row += kRowsAtOnce) block(row, std::min(kRowsAtOnce, n - row));
}

// log-softmax of rows [row, row + count); `peak` and `log_sum` [n, 1] are each row's max and log sum exp(x -
// max).
at::Tensor block_log_softmax(const at::Tensor& logits, const at::Tensor& peak, const at::Tensor& log_sum,
                             std::int64_t row, std::int64_t count) {
  at::Tensor z = logits.narrow(0, row, count) - peak.narrow(0, row, count);
  return z.sub_(log_sum.narrow(0, row, count));
}

// Returns logprob [n], entropy [n], is_top1 [n]; only logprob has a gradient: g (onehot - softmax).
class TokenFactsFunction : public torch::autograd::Function<TokenFactsFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& logits, const at::Tensor& targets) {
    const std::int64_t n = logits.size(0);
    const at::Tensor column = targets.unsqueeze(1);
    at::Tensor peak = at::empty({n, 1}, logits.options());
    at::Tensor log_sum = at::empty({n, 1}, logits.options());
    at::Tensor logprob = at::empty({n}, logits.options());
    at::Tensor entropy = at::empty({n}, logits.options());
    at::Tensor is_top1 = at::empty({n}, logits.options());
    for_each_block(n, [&](std::int64_t row, std::int64_t count) {
      const at::Tensor block = logits.narrow(0, row, count);
      const auto [most, first] = block.max(1, /*keepdim=*/true);
      peak.narrow(0, row, count).copy_(most);
      log_sum.narrow(0, row, count).copy_((block - most).exp_().sum(1, true).log_());
      at::Tensor z = block_log_softmax(logits, peak, log_sum, row, count);
      const at::Tensor target = column.narrow(0, row, count);
      logprob.narrow(0, row, count).copy_(z.gather(1, target).squeeze(1));
      is_top1.narrow(0, row, count).copy_(first.eq(target).squeeze(1));
      z.clamp_min_(-1e30);  // finite, so that an impossible token adds 0 and not 0 * inf
      entropy.narrow(0, row, count).copy_(z.exp().mul_(z).sum(1).neg_());
    });
    context->save_for_backward({logits, targets, peak, log_sum});
    context->mark_non_differentiable({entropy, is_top1});
    return {logprob, entropy, is_top1};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& logits = saved[0];
    const at::Tensor g = gradients[0].unsqueeze(1);
    const at::Tensor column = saved[1].unsqueeze(1);
    at::Tensor out = at::empty_like(logits);
    for_each_block(logits.size(0), [&](std::int64_t row, std::int64_t count) {
      const at::Tensor z = block_log_softmax(logits, saved[2], saved[3], row, count);
      const at::Tensor scale = g.narrow(0, row, count);
      at::Tensor block = out.narrow(0, row, count);
      block.copy_(z.exp().mul_(-scale));
      block.scatter_add_(1, column.narrow(0, row, count), scale.contiguous());
    });
    return {out, at::Tensor()};
  }
};

}  // namespace

TokenFacts token_facts(const at::Tensor& logits, const at::Tensor& targets) {
  base::require(logits.dim() == 2 && logits.scalar_type() == at::kFloat, "learn::token_facts",
                "logits to be [n, V] fp32");
  base::require(targets.dim() == 1 && targets.scalar_type() == at::kLong && targets.size(0) == logits.size(0),
                "learn::token_facts", "targets to be [n] int64, one for each row of logits");
  const auto facts = TokenFactsFunction::apply(logits, targets);
  return {facts[0], facts[1], facts[2]};
}

at::Tensor mean_logprob(const at::Tensor& logits) {
  base::require(logits.dim() == 2 && logits.scalar_type() == at::kFloat, "learn::mean_logprob",
                "logits to be [n, V] fp32");
  return logits.mean(1) - logits.logsumexp(1);
}

at::Tensor token_loss(const SftLoss& loss, const at::Tensor& logprob, const at::Tensor& mean_logprob) {
  if (loss.type == SftLossType::kDft) return -logprob * logprob.detach().exp();
  if (!loss.smooths()) return -logprob;
  base::require(mean_logprob.defined(), "learn::token_loss", "the vocabulary's mean for label smoothing");
  return -(1 - loss.label_smoothing) * logprob - loss.label_smoothing * mean_logprob;
}

at::Tensor mean_loss(const at::Tensor& losses, double denominator) {
  // TRL clamps: a step without targets has loss 0, not NaN
  return losses.sum() / std::max(denominator, 1.0);
}

}  // namespace hone::learn
