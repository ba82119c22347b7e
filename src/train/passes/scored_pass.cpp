#include "train/passes/scored_pass.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "learn/sft_loss.h"
#include "train/passes/head_pass.h"

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
  void add(const TokenScores& tokens, const at::Tensor& losses) {
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

// Of d(the sum of losses / denominator): of nll the same for every token; smoothing's terms share one softmax.
HeadGradient gradient_of(const learn::SftLoss& rule, const TokenScores& scores, const at::Tensor& losses,
                         double denominator) {
  const double scale = 1 / std::max(denominator, 1.0);
  HeadGradient out{.d_logprob = at::full_like(scores.logprob.detach(), -scale)};
  if (rule.type == learn::SftLossType::kDft) out.d_logprob.mul_(scores.logprob.detach().exp());
  if (rule.smooths()) out.smoothing = scale * rule.label_smoothing;
  out.loss = learn::mean_loss(losses, denominator);
  return out;
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
  const learn::SftLoss& rule = loss.loss;
  const bool is_nll = rule.type == learn::SftLossType::kNll && !rule.smooths();
  HeadPass head(model, pass, scored.source, scored.target,
                {.mean_row = rule.smooths() ? loss.mean_row : at::Tensor(),
                 .mean_logprob = rule.smooths(),
                 .by_token = true},
                backward);
  if (pass.router_load().defined()) found.add_balance(pass.router_load().loss());
  const auto see = [&](const TokenScores& scores) {
    const at::Tensor losses = learn::token_loss(rule, scores.logprob, scores.mean_logprob);
    found.add(scores, is_nll ? at::Tensor() : losses);
    return losses;
  };
  if (backward) {
    head.backward(
        [&](const TokenScores& scores) { return gradient_of(rule, scores, see(scores), denominator); },
        loss.balance);
  } else {
    head.score([&](const TokenScores& scores) { see(scores); });
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
