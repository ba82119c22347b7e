#include "train/scored_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "learn/sft_loss.h"
#include "ops/index_tensor.h"
#include "ops/linear_logprob.h"

namespace hone::train {

namespace {

// Where targets sit: the output at `source` is scored against `target`. [n] each.
struct Scored {
  std::vector<std::int64_t> source, target;
};

Scored scored_rows(const data::Batch& batch) {
  Scored out;
  for (std::size_t t = 1; t < batch.labels.size(); ++t) {
    if (batch.labels[t] == data::kIgnore) continue;
    out.source.push_back(static_cast<std::int64_t>(t) - 1);
    out.target.push_back(batch.labels[t]);
  }
  return out;
}

// Adds up what is known of the tokens, in one copy to the host.
void add(ScoredFacts& facts, const at::Tensor& logprob, const at::Tensor& entropy,
         const at::Tensor& is_top1) {
  const at::Tensor sums =
      at::stack({logprob.detach().sum(at::kDouble), entropy.sum(at::kDouble), is_top1.sum(at::kDouble)})
          .cpu();
  const double* const sum = sums.const_data_ptr<double>();
  facts.nll_sum -= sum[0];
  facts.entropy_sum += sum[1];
  facts.correct += static_cast<std::int64_t>(sum[2]);
}

// The autograd head, tile by tile. With `gradient` defined ([n, H]), d(nll_sum / denominator) / d(rows) is
// written into it.
void head_tiles(const model::CausalLm& model, const at::Tensor& rows, const at::Tensor& targets,
                const ops::PassContext& context, double denominator, at::Tensor gradient,
                ScoredFacts& facts) {
  const at::AutoGradMode grad_mode(gradient.defined());
  for (std::int64_t begin = 0; begin < rows.size(0); begin += kHeadTile) {
    const std::int64_t size = std::min(kHeadTile, rows.size(0) - begin);
    at::Tensor tile = rows.narrow(0, begin, size).detach();
    if (gradient.defined()) tile.requires_grad_(true);
    const auto token_facts =
        learn::token_facts(model.autograd_logits(tile, context), targets.narrow(0, begin, size));
    add(facts, token_facts.logprob, token_facts.entropy, token_facts.is_top1);
    if (!gradient.defined()) continue;
    learn::nll_loss(token_facts.logprob, denominator).backward();
    gradient.narrow(0, begin, size).copy_(tile.grad());
  }
}

void fused_head(const model::CausalLm& model, BatchPass& pass, at::Tensor hidden, const at::Tensor& targets,
                double denominator, bool backward, ScoredFacts& facts) {
  const std::optional<ops::HeadRows> own = model.head_rows(pass.context().adapters_on);
  ops::TokenLogprobs found = ops::linear_logprob(hidden, model.head(), targets,
                                                 {.gradient = backward, .own = own ? &*own : nullptr});
  add(facts, found.logprob, found.entropy, found.is_top1);
  // d(nll_sum / denominator) / d(logprob) is the same for every row.
  if (!backward) return;
  const double loss_scale = -1 / std::max(denominator, 1.0);
  found.gradient.mul_(loss_scale);
  if (own) {
    ops::add_head_rows_gradient(model.token_rows().values().grad(), *own,
                                {.hidden = hidden,
                                 .targets = targets,
                                 .own_logits = found.own_logits,
                                 .log_sum = found.log_sum,
                                 .d_logprob = at::full_like(found.logprob, loss_scale)});
    found.own_logits.reset();
  }
  hidden.reset();
  pass.backward(std::move(found.gradient));
}

ScoredFacts run_pass(const model::CausalLm& model, const data::Batch& batch, const RngKey& key,
                     double denominator, bool backward, const PassForm& form) {
  const Scored scored = scored_rows(batch);
  ScoredFacts facts;
  facts.tokens = static_cast<std::int64_t>(batch.ids.size());
  facts.scored = static_cast<std::int64_t>(scored.target.size());
  if (scored.target.empty()) return facts;
  BatchPass pass(model, batch, key, form);
  at::Tensor hidden = pass.forward(scored.source, backward);
  const at::Tensor targets = ops::index_tensor(scored.target, model.device());
  if (pass.is_fused()) {
    fused_head(model, pass, std::move(hidden), targets, denominator, backward, facts);
    return facts;
  }
  const at::Tensor gradient = backward ? at::empty_like(hidden) : at::Tensor();
  head_tiles(model, hidden, targets, pass.context(), denominator, gradient, facts);
  if (backward) pass.backward(gradient);
  return facts;
}

}  // namespace

ScoredFacts score_batch(const model::CausalLm& model, const data::Batch& batch, const RngKey& key,
                        const PassForm& form) {
  return run_pass(model, batch, key, 1.0, false, form);
}

ScoredFacts score_and_backward(const model::CausalLm& model, const data::Batch& batch, const RngKey& key,
                               double denominator, const PassForm& form) {
  return run_pass(model, batch, key, denominator, true, form);
}

std::int64_t scored_tokens(const data::Batch& batch) {
  std::int64_t count = 0;
  for (std::size_t t = 1; t < batch.labels.size(); ++t) count += batch.labels[t] != data::kIgnore ? 1 : 0;
  return count;
}

}  // namespace hone::train
