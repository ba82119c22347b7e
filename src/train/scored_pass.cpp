#include "train/scored_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "learn/sft_loss.h"
#include "ops/head/head_rows.h"
#include "ops/head/linear_logprob.h"
#include "ops/index_tensor.h"

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

// What a pass finds, by tiles of its tokens. It leaves the device in one copy, when all that the pass does is under way.
class FoundFacts {
 public:
  // `losses` undefined: -logprob.
  void add(const learn::TokenFacts& tokens, const at::Tensor& losses) {
    const at::Tensor nll = tokens.logprob.detach().sum(at::kDouble).neg();
    sums_.insert(sums_.end(), {nll, losses.defined() ? losses.detach().sum(at::kDouble) : nll,
                               tokens.entropy.detach().sum(at::kDouble), tokens.is_top1.sum(at::kDouble)});
  }
  void add_balance(const at::Tensor& loss) { balance_ = loss.detach().to(at::kDouble); }

  void read(ScoredFacts& into) const {
    std::vector<at::Tensor> all = sums_;
    if (balance_.defined()) all.push_back(balance_);
    if (all.empty()) return;
    const at::Tensor found = at::stack(all).cpu();
    const double* sum = found.const_data_ptr<double>();
    for (std::size_t tile = 0; tile < sums_.size(); tile += 4, sum += 4) {
      into.nll_sum += sum[0];
      into.loss_sum += sum[1];
      into.entropy_sum += sum[2];
      into.correct += static_cast<std::int64_t>(sum[3]);
    }
    if (balance_.defined()) into.balance = *sum;
  }

 private:
  std::vector<at::Tensor> sums_;  // four a tile
  at::Tensor balance_;
};

// A batch's scored rows on their way through the head.
struct HeadPass {
  const model::CausalLm& model;
  BatchPass& pass;
  const at::Tensor& targets;  // [n]
  const ScoredLoss& loss;
  double denominator = 1;

  const ops::Weight& head() const { return model.head(pass.context().adapters_on); }
  bool is_nll() const { return loss.loss.type == learn::SftLossType::kNll && !loss.loss.smooths(); }
};

// The autograd head, tile by tile. With `gradient` defined ([n, H]), d(loss_sum / denominator) / d(rows) is
// written into it.
void head_tiles(const HeadPass& head, const at::Tensor& rows, at::Tensor gradient, FoundFacts& facts) {
  const at::AutoGradMode grad_mode(gradient.defined());
  for (std::int64_t begin = 0; begin < rows.size(0); begin += kHeadTile) {
    const std::int64_t size = std::min(kHeadTile, rows.size(0) - begin);
    at::Tensor tile = rows.narrow(0, begin, size).detach();
    if (gradient.defined()) tile.requires_grad_(true);
    const at::Tensor logits = head.model.autograd_logits(tile, head.pass.head_context(begin, size));
    const auto token_facts = learn::token_facts(logits, head.targets.narrow(0, begin, size));
    const at::Tensor losses =
        learn::token_loss(head.loss.loss, token_facts.logprob,
                          head.loss.loss.smooths() ? learn::mean_logprob(logits) : at::Tensor());
    facts.add(token_facts, head.is_nll() ? at::Tensor() : losses);
    if (!gradient.defined()) continue;
    learn::mean_loss(losses, head.denominator).backward();
    gradient.narrow(0, begin, size).copy_(tile.grad());
  }
}

// What smoothing e adds to d loss / d hidden, whose -d log p / d hidden has both terms' softmax: e (W_target - the
// mean of W's rows), since d mean_v log p(v) / d hidden = d log p / d hidden - W_target + that mean.
void add_smoothing(const HeadPass& head, const at::Tensor& hidden, const std::optional<ops::HeadRows>& own,
                   const at::Tensor& mean_row, double scale, const at::Tensor& gradient) {
  const ops::HeadRows* const rows = own ? &*own : nullptr;
  gradient.add_(ops::rows_of(head.head(), rows, head.targets).sub_(mean_row), scale);
  if (const at::Tensor& trained = head.model.trained_parts().head; trained.defined()) {
    const at::Tensor wide = hidden.to(at::kFloat);
    trained.grad().index_add_(0, head.targets, wide, scale);
    trained.grad().sub_(wide.sum(0), scale / static_cast<double>(trained.size(0)));
  }
  if (!own) return;
  const at::Tensor ids = ops::index_tensor(own->ids, hidden.device());
  const at::Tensor is_target = head.targets.unsqueeze(1).eq(ids.unsqueeze(0)).to(at::kFloat);
  const at::Tensor d_logits = is_target.sub(1.0 / static_cast<double>(head.model.head().out())).mul_(scale);
  head.model.token_rows().values().grad().addmm_(d_logits.t(), hidden.to(at::kFloat));
}

void fused_head(const HeadPass& head, at::Tensor hidden, bool backward, FoundFacts& facts) {
  const std::optional<ops::HeadRows> own = head.model.head_rows(head.pass.context().adapters_on);
  const learn::SftLoss& loss = head.loss.loss;
  const double cap = head.model.config().logits_soft_cap;
  ops::TokenLogprobs found =
      ops::linear_logprob(hidden, head.head(), head.targets,
                          {.gradient = backward, .own = own ? &*own : nullptr, .soft_cap = cap});
  at::Tensor mean_row = head.loss.mean_row, mean;
  if (loss.smooths()) {
    base::require(mean_row.defined(), "train::fused_head", "the mean of the head's rows for label smoothing");
    mean_row = head.model.mean_head_row(mean_row, head.pass.context().adapters_on);
    if (own) mean_row = mean_row + ops::mean_row_change(head.model.head(), *own);
    mean = hidden.to(at::kFloat).mv(mean_row) - found.log_sum;
  }
  facts.add({found.logprob, found.entropy, found.is_top1},
            head.is_nll() ? at::Tensor() : learn::token_loss(loss, found.logprob, mean));
  if (!backward) return;
  // d(loss_sum / denominator) / d(logprob): of nll the same for every row; smoothing's terms share one softmax.
  const double scale = 1 / std::max(head.denominator, 1.0);
  at::Tensor d_logprob = at::full_like(found.logprob, -scale);
  if (loss.type == learn::SftLossType::kDft) {
    d_logprob.mul_(found.logprob.exp());
    found.gradient.mul_(d_logprob.unsqueeze(1));
  } else {
    found.gradient.mul_(-scale);
  }
  if (own) {
    ops::add_head_rows_gradient(head.model.token_rows().values().grad(), *own,
                                {.hidden = hidden,
                                 .targets = head.targets,
                                 .own_logits = found.own_logits,
                                 .log_sum = found.log_sum,
                                 .d_logprob = d_logprob,
                                 .soft_cap = cap});
    found.own_logits.reset();
  }
  if (const at::Tensor& trained = head.model.trained_parts().head; trained.defined()) {
    ops::add_head_gradient(trained.grad(), head.head(),
                           {.hidden = hidden,
                            .targets = head.targets,
                            .log_sum = found.log_sum,
                            .d_logprob = d_logprob,
                            .soft_cap = cap});
  }
  if (loss.smooths()) {
    add_smoothing(head, hidden, own, mean_row, scale * loss.label_smoothing, found.gradient);
  }
  hidden.reset();
  head.pass.backward(std::move(found.gradient), head.loss.balance);
}

// A batch without a target: only the routers have a loss, as in TRL. One row is scored, with a gradient of 0.
void balance_only(BatchPass& pass, bool backward, double balance, FoundFacts& facts) {
  backward = backward && balance != 0;
  const at::Tensor hidden = pass.forward({0}, backward);
  if (!pass.router_load().defined()) return;  // all layers are dense
  facts.add_balance(pass.router_load().loss());
  if (backward) pass.backward(at::zeros_like(hidden), balance);
}

ScoredFacts run_pass(const model::CausalLm& model, const data::Batch& batch, const RngKey& key,
                     double denominator, bool backward, const PassForm& form, const ScoredLoss& loss) {
  const Scored scored = scored_rows(batch);
  ScoredFacts facts;
  facts.tokens = static_cast<std::int64_t>(batch.ids.size());
  facts.scored = static_cast<std::int64_t>(scored.target.size());
  const bool routes = model.config().experts.count > 0 && !batch.ids.empty();
  if (scored.target.empty() && !routes) return facts;
  BatchPass pass(model, batch, key, form);
  FoundFacts found;
  if (scored.target.empty()) {
    balance_only(pass, backward, loss.balance, found);
    found.read(facts);
    return facts;
  }
  at::Tensor hidden = pass.forward(scored.source, backward);
  if (pass.router_load().defined()) found.add_balance(pass.router_load().loss());
  const at::Tensor targets = ops::index_tensor(scored.target, model.device());
  const HeadPass head{model, pass, targets, loss, denominator};
  // the mean of capped logits is no product of the mean of the head's rows
  const bool by_tiles = loss.loss.smooths() && model.config().logits_soft_cap > 0;
  if (pass.is_fused() && !by_tiles) {
    fused_head(head, std::move(hidden), backward, found);
  } else {
    const at::Tensor gradient = backward ? at::empty_like(hidden) : at::Tensor();
    head_tiles(head, hidden, gradient, found);
    if (backward) pass.backward(gradient, loss.balance);
  }
  found.read(facts);
  return facts;
}

}  // namespace

ScoredFacts score_batch(const model::CausalLm& model, const data::Batch& batch, const RngKey& key,
                        const PassForm& form, const ScoredLoss& loss) {
  return run_pass(model, batch, key, 1.0, false, form, loss);
}

ScoredFacts score_and_backward(const model::CausalLm& model, const data::Batch& batch, const RngKey& key,
                               double denominator, const PassForm& form, const ScoredLoss& loss) {
  return run_pass(model, batch, key, denominator, true, form, loss);
}

std::int64_t scored_tokens(const data::Batch& batch) {
  std::int64_t count = 0;
  for (std::size_t t = 1; t < batch.labels.size(); ++t) count += batch.labels[t] != data::kIgnore ? 1 : 0;
  return count;
}

}  // namespace hone::train
