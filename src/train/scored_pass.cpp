#include "train/scored_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "learn/sft_loss.h"
#include "model/explicit_pass.h"
#include "ops/linear_logprob.h"

namespace hone::train {

namespace {

// Rows of the plain form's head at a time: 512 x 152k fp32 logits are 311 MB, and the GEMM is at its full
// rate.
constexpr std::int64_t kHeadTile = 512;

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

at::Tensor index_tensor(const std::vector<std::int64_t>& values) {
  at::Tensor out = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), out.mutable_data_ptr<std::int64_t>());
  return out;
}

std::vector<std::int64_t> token_rows(const data::Batch& batch) {
  std::vector<std::int64_t> rows(batch.ids.size());
  for (const data::Segment& segment : batch.segments) {
    std::fill(rows.begin() + segment.begin, rows.begin() + segment.end, segment.row);
  }
  return rows;
}

void add(ScoredFacts& facts, const learn::TokenFacts& tile) {
  facts.nll_sum -= tile.logprob.detach().sum(at::kDouble).item<double>();
  facts.entropy_sum += tile.entropy.sum(at::kDouble).item<double>();
  facts.correct += static_cast<std::int64_t>(tile.is_top1.sum(at::kDouble).item<double>());
}

// The head, tile by tile. With `gradient` defined ([n, H]), d(nll_sum / denominator) / d(rows) is written
// into it.
void head_tiles(const model::CausalLm& model, const at::Tensor& rows, const at::Tensor& targets,
                const ops::PassContext& context, double denominator, at::Tensor gradient,
                ScoredFacts& facts) {
  const at::AutoGradMode grad_mode(gradient.defined());
  for (std::int64_t begin = 0; begin < rows.size(0); begin += kHeadTile) {
    const std::int64_t size = std::min(kHeadTile, rows.size(0) - begin);
    at::Tensor tile = rows.narrow(0, begin, size).detach();
    if (gradient.defined()) tile.requires_grad_(true);
    const auto token_facts =
        learn::token_facts(model.plain_logits(tile, context), targets.narrow(0, begin, size));
    add(facts, token_facts);
    if (!gradient.defined()) continue;
    learn::nll_loss(token_facts.logprob, denominator).backward();
    gradient.narrow(0, begin, size).copy_(tile.grad());
  }
}

void score_plainly(const model::CausalLm& model, const data::Batch& batch, const ops::PassContext& context,
                   const Scored& scored, double denominator, bool backward, ScoredFacts& facts) {
  const at::AutoGradMode grad_mode(backward);
  const at::Tensor rows = model.hidden(batch, context).index_select(0, index_tensor(scored.source));
  at::Tensor gradient = backward ? at::empty_like(rows) : at::Tensor();
  head_tiles(model, rows, index_tensor(scored.target), context, denominator, gradient, facts);
  if (backward) rows.backward(gradient);
}

void score_explicitly(const model::CausalLm& model, const data::Batch& batch, const ops::PassContext& context,
                      const Scored& scored, double denominator, std::optional<model::Recompute> recompute,
                      ScoredFacts& facts) {
  model::ExplicitPass pass(model, batch, context);
  const std::optional<ops::HeadRows> own = model.head_rows(context.adapters_on);
  at::Tensor hidden = pass.forward(index_tensor(scored.source), recompute);
  const at::Tensor targets = index_tensor(scored.target);
  ops::TokenLogprobs found = ops::linear_logprob(
      hidden, model.head(), targets, {.gradient = recompute.has_value(), .own = own ? &*own : nullptr});
  facts.nll_sum = -found.logprob.sum(at::kDouble).item<double>();
  facts.entropy_sum = found.entropy.sum(at::kDouble).item<double>();
  facts.correct = static_cast<std::int64_t>(found.is_top1.sum(at::kDouble).item<double>());
  // d(nll_sum / denominator) / d(logprob) is the same for every row.
  if (!recompute) return;
  const double share = -1 / std::max(denominator, 1.0);
  found.gradient.mul_(share);
  if (own) {
    ops::add_head_rows_gradient(model.token_rows().values().grad(), *own,
                                {.hidden = hidden,
                                 .targets = targets,
                                 .own_logits = found.own_logits,
                                 .log_sum = found.log_sum,
                                 .d_logprob = at::full_like(found.logprob, share)});
    found.own_logits.reset();
  }
  hidden.reset();
  pass.backward(std::move(found.gradient));
}

ScoredFacts run_pass(const model::CausalLm& model, const data::Batch& batch, const PassKey& key,
                     double denominator, bool backward, const PassForm& form) {
  const auto rows_of_tokens = token_rows(batch);
  const ops::PassContext context = {.training = key.training,
                                    .adapters_on = key.adapters_on,
                                    .seed = key.seed,
                                    .step = key.step,
                                    .token_row = &rows_of_tokens,
                                    .token_position = &batch.positions};
  const Scored scored = scored_rows(batch);
  ScoredFacts facts;
  facts.tokens = static_cast<std::int64_t>(batch.ids.size());
  facts.scored = static_cast<std::int64_t>(scored.target.size());
  if (scored.target.empty()) return facts;
  if (form.is_explicit) {
    score_explicitly(model, batch, context, scored, denominator,
                     backward ? std::optional(form.recompute) : std::nullopt, facts);
  } else {
    score_plainly(model, batch, context, scored, denominator, backward, facts);
  }
  return facts;
}

}  // namespace

ScoredFacts score_batch(const model::CausalLm& model, const data::Batch& batch, const PassKey& key,
                        const PassForm& form) {
  return run_pass(model, batch, key, 1.0, false, form);
}

ScoredFacts score_and_backward(const model::CausalLm& model, const data::Batch& batch, const PassKey& key,
                               double denominator, const PassForm& form) {
  return run_pass(model, batch, key, denominator, true, form);
}

std::int64_t scored_tokens(const data::Batch& batch) {
  std::int64_t count = 0;
  for (std::size_t t = 1; t < batch.labels.size(); ++t) count += batch.labels[t] != data::kIgnore ? 1 : 0;
  return count;
}

}  // namespace hone::train
