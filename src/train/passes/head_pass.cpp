#include "train/passes/head_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "learn/sft_loss.h"
#include "ops/head/head_rows.h"
#include "ops/head/linear_logprob.h"
#include "ops/index_tensor.h"

namespace hone::train {

namespace {

// The head of a pass as the operators take it.
struct FusedHead {
  FusedHead(const model::CausalLm& lm, bool adapters_on)
      : model(lm),
        adapters(adapters_on),
        weight(lm.head(adapters_on)),
        own(lm.head_rows(adapters_on)),
        cap(lm.config().logits_soft_cap) {}

  const ops::HeadRows* rows() const { return own ? &*own : nullptr; }
  // [H] fp32: the mean of the head's rows, given that of the frozen ones.
  at::Tensor mean_row(const at::Tensor& frozen) const {
    const at::Tensor mean = model.mean_head_row(frozen, adapters);
    return own ? mean + ops::mean_row_change(model.head(), *own) : mean;
  }

  const model::CausalLm& model;
  bool adapters;
  const ops::Weight& weight;
  std::optional<ops::HeadRows> own;  // that the adapter trains
  double cap;
};

ops::TokenLogprobs run_head(const FusedHead& head, const at::Tensor& hidden, const at::Tensor& target,
                            const HeadOptions& options, bool gradient) {
  return ops::linear_logprob(hidden, head.weight, target,
                             {.gradient = gradient,
                              .temperature = options.temperature,
                              .squares = options.squares,
                              .own = head.rows(),
                              .soft_cap = head.cap,
                              .mean_logit = head.cap > 0 && options.mean_row.defined()});
}

// `mean_row`: of the head, where options.mean_row is defined.
TokenScores scores_of(const ops::TokenLogprobs& found, const at::Tensor& hidden, const at::Tensor& mean_row,
                      const HeadOptions& options) {
  TokenScores out{.logprob = found.logprob, .entropy = found.entropy};
  if (options.by_token || mean_row.defined()) out.is_top1 = found.is_top1;
  if (mean_row.defined()) {
    const at::Tensor mean =
        found.mean_logit.defined() ? found.mean_logit : hidden.to(at::kFloat).mv(mean_row);
    if (options.mean_logprob) {
      out.mean_logprob = mean - found.log_sum;
    } else {
      out.mean_logit = mean / options.temperature;
    }
  }
  out.log_sum_squares = found.log_sum_squares;
  return out;
}

// What HeadGradient::smoothing adds to d loss / d hidden, whose d_logprob has both terms' softmax: smoothing (W_target -
// the mean of W's rows), since d mean_v log p(v) / d hidden = d log p / d hidden - W_target + that mean.
void add_smoothing(const FusedHead& head, const at::Tensor& hidden, const at::Tensor& targets,
                   const at::Tensor& mean_row, double smoothing, const at::Tensor& gradient) {
  gradient.add_(ops::rows_of(head.weight, head.rows(), targets).sub_(mean_row), smoothing);
  if (const at::Tensor& trained = head.model.trained_parts().head; trained.defined()) {
    const at::Tensor wide = hidden.to(at::kFloat);
    trained.grad().index_add_(0, targets, wide, smoothing);
    trained.grad().sub_(wide.sum(0), smoothing / static_cast<double>(trained.size(0)));
  }
  if (!head.own) return;
  const at::Tensor ids = ops::index_tensor(head.own->ids, hidden.device());
  const at::Tensor is_target = targets.unsqueeze(1).eq(ids.unsqueeze(0)).to(at::kFloat);
  const at::Tensor d_logits =
      is_target.sub(1.0 / static_cast<double>(head.model.head().out())).mul_(smoothing);
  head.model.token_rows().values().grad().addmm_(d_logits.t(), hidden.to(at::kFloat));
}

// The gradients of rows of the head that the adapter trains, and of a head that is trained in full.
void add_head_gradients(const FusedHead& head, const at::Tensor& hidden, const at::Tensor& targets,
                        ops::TokenLogprobs& found, const HeadGradient& loss, double temperature) {
  const ops::HeadLoss of_head{.hidden = hidden,
                              .targets = targets,
                              .log_sum = found.log_sum,
                              .d_logprob = loss.d_logprob,
                              .entropy = found.entropy,
                              .d_entropy = loss.d_entropy,
                              .temperature = temperature,
                              .soft_cap = head.cap};
  if (head.own) {
    ops::add_head_rows_gradient(head.model.token_rows().values().grad(), *head.own, found.own_logits,
                                of_head);
    found.own_logits.reset();
  }
  if (const at::Tensor& trained = head.model.trained_parts().head; trained.defined())
    ops::add_head_gradient(trained.grad(), head.weight, of_head);
}

}  // namespace

HeadPass::HeadPass(const model::CausalLm& model, BatchPass& pass, const std::vector<std::int64_t>& source,
                   const std::vector<std::int64_t>& target, HeadOptions options, bool trains)
    : model_(model),
      pass_(pass),
      options_(std::move(options)),
      hidden_(pass.forward(source, trains)),
      target_(ops::index_tensor(target, model.device())),
      // the mean of capped logits is no product of the mean of the head's rows, of which the backward would need one
      is_fused_(pass.is_fused() && !(options_.mean_logprob && model.config().logits_soft_cap > 0)) {
  base::require(!options_.mean_logprob || options_.mean_row.defined(), "train::HeadPass",
                "the mean of the head's rows for label smoothing");
}

void HeadPass::score(const std::function<void(const TokenScores&)>& see) {
  const at::NoGradGuard no_grad;
  if (is_fused_) {
    const FusedHead head(model_, pass_.context().adapters_on);
    const at::Tensor mean = options_.mean_row.defined() ? head.mean_row(options_.mean_row) : at::Tensor();
    see(scores_of(run_head(head, hidden_, target_, options_, /*gradient=*/false), hidden_, mean, options_));
  } else if (options_.by_token) {
    each_tile([&](std::int64_t, std::int64_t, const at::Tensor&, const TokenScores& tile) { see(tile); });
  } else {
    see(scores_by_tiles());
  }
}

void HeadPass::backward(const LossOfScores& loss, double balance) {
  at::Tensor gradient = is_fused_ ? backward_fused(loss) : backward_by_tiles(loss);
  hidden_.reset();
  pass_.backward(std::move(gradient), balance);
}

// ---- the autograd form

// use(begin, size, tile's hidden rows, its scores with their graph); under NoGradGuard without one.
template <typename Use>
void HeadPass::each_tile(const Use& use) {
  for (std::int64_t begin = 0; begin < hidden_.size(0); begin += kHeadTile) {
    const std::int64_t size = std::min(kHeadTile, hidden_.size(0) - begin);
    at::Tensor tile = hidden_.narrow(0, begin, size).detach();
    if (at::GradMode::is_enabled()) tile.requires_grad_(true);
    const at::Tensor logits = model_.autograd_logits(tile, pass_.head_context(begin, size));
    use(begin, size, tile, tile_scores(logits, target_.narrow(0, begin, size)));
  }
}

TokenScores HeadPass::tile_scores(const at::Tensor& unscaled, const at::Tensor& target) const {
  if (options_.by_token) {
    const learn::TokenFacts facts = learn::token_facts(unscaled, target);
    return {.logprob = facts.logprob,
            .entropy = facts.entropy,
            .is_top1 = facts.is_top1,
            .mean_logprob = options_.mean_logprob ? learn::mean_logprob(unscaled) : at::Tensor()};
  }
  const at::Tensor logits = unscaled / options_.temperature;
  const at::Tensor z = at::log_softmax(logits, -1);
  TokenScores out{.logprob = z.gather(1, target.unsqueeze(1)).squeeze(1), .entropy = -(z.exp() * z).sum(-1)};
  if (at::GradMode::is_enabled()) return out;  // the others have no gradient
  if (options_.mean_row.defined()) {
    out.is_top1 = logits.argmax(-1).eq(target).to(at::kFloat);
    out.mean_logit = logits.mean(-1);
  }
  if (options_.squares) out.log_sum_squares = at::logsumexp(2 * z, -1);
  return out;
}

TokenScores HeadPass::scores_by_tiles() {
  const at::NoGradGuard no_grad;
  const auto column = [&](bool wanted) {
    return wanted ? at::empty({hidden_.size(0)}, hidden_.options().dtype(at::kFloat)) : at::Tensor();
  };
  const bool facts = options_.mean_row.defined();
  TokenScores out{.logprob = column(true),
                  .entropy = column(true),
                  .is_top1 = column(facts),
                  .mean_logit = column(facts),
                  .log_sum_squares = column(options_.squares)};
  each_tile([&](std::int64_t begin, std::int64_t size, const at::Tensor&, const TokenScores& tile) {
    const auto put = [&](const at::Tensor& to, const at::Tensor& from) {
      if (to.defined()) to.narrow(0, begin, size).copy_(from);
    };
    put(out.logprob, tile.logprob);
    put(out.entropy, tile.entropy);
    put(out.is_top1, tile.is_top1);
    put(out.mean_logit, tile.mean_logit);
    put(out.log_sum_squares, tile.log_sum_squares);
  });
  return out;
}

at::Tensor HeadPass::backward_by_tiles(const LossOfScores& loss) {
  HeadGradient all;
  if (!options_.by_token) all = loss(scores_by_tiles());
  const at::AutoGradMode with_grad(true);
  at::Tensor gradient = at::empty_like(hidden_);
  each_tile([&](std::int64_t begin, std::int64_t size, const at::Tensor& tile, const TokenScores& scores) {
    at::Tensor sum;
    if (options_.by_token) {
      sum = loss(scores).loss;
    } else {
      sum = (scores.logprob * all.d_logprob.narrow(0, begin, size)).sum();
      if (all.d_entropy.defined()) sum = sum + (scores.entropy * all.d_entropy.narrow(0, begin, size)).sum();
    }
    sum.backward();
    gradient.narrow(0, begin, size).copy_(tile.grad());
  });
  return gradient;
}

// ---- the fused form

at::Tensor HeadPass::backward_fused(const LossOfScores& loss_of) {
  const at::NoGradGuard no_grad;
  const FusedHead head(model_, pass_.context().adapters_on);
  const at::Tensor mean = options_.mean_row.defined() ? head.mean_row(options_.mean_row) : at::Tensor();
  ops::TokenLogprobs found = run_head(head, hidden_, target_, options_, /*gradient=*/true);
  const HeadGradient loss = loss_of(scores_of(found, hidden_, mean, options_));
  found.gradient.mul_(loss.d_logprob.unsqueeze(1));
  if (loss.d_entropy.defined()) {
    found.gradient.add_(ops::entropy_backward(hidden_, head.weight, found.log_sum, found.entropy,
                                              loss.d_entropy, options_.temperature, head.rows(), head.cap));
  }
  add_head_gradients(head, hidden_, target_, found, loss, options_.temperature);
  if (loss.smoothing != 0) add_smoothing(head, hidden_, target_, mean, loss.smoothing, found.gradient);
  return std::move(found.gradient);
}

}  // namespace hone::train
