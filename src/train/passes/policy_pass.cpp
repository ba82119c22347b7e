#include "train/passes/policy_pass.h"

#include <ATen/ATen.h>

#include <vector>

#include "ops/index_tensor.h"
#include "ops/machine/device_memory.h"

namespace hone::train {

namespace {

// The scores where losses are made.
TokenScores on_host(TokenScores scores, const BatchPass& pass, double balance) {
  if (balance != 0 && pass.router_load().defined()) scores.balance = pass.router_load().loss().item<double>();
  if (ops::is_host(scores.logprob.device())) return scores;
  std::vector<at::Tensor*> fields;
  std::vector<at::Tensor> values;
  for (at::Tensor* field :
       {&scores.logprob, &scores.entropy, &scores.is_top1, &scores.mean_logit, &scores.log_sum_squares}) {
    if (!field->defined()) continue;
    fields.push_back(field);
    values.push_back(field->detach());
  }
  const at::Tensor all = at::stack(values).cpu();
  for (std::size_t i = 0; i < fields.size(); ++i) *fields[i] = all[static_cast<std::int64_t>(i)];
  return scores;
}

}  // namespace

TokenScores score_policy(const model::CausalLm& model, const PolicyPass& pass, const RngKey& key,
                         const PassForm& form, const HeadOptions& options, double balance) {
  BatchPass batch(model, pass.batch, key, form, pass.router_weights);
  HeadPass head(model, batch, pass.source, pass.target, options, /*trains=*/false);
  TokenScores out;
  head.score([&](const TokenScores& scores) { out = on_host(scores, batch, balance); });
  return out;
}

learn::PolicyGradient train_policy(const model::CausalLm& model, const PolicyPass& pass, const RngKey& key,
                                   const PassForm& form, const HeadOptions& options,
                                   const std::function<learn::PolicyGradient(const TokenScores&)>& loss,
                                   double balance) {
  BatchPass batch(model, pass.batch, key, form, pass.router_weights);
  HeadPass head(model, batch, pass.source, pass.target, options, /*trains=*/true);
  learn::PolicyGradient out;
  head.backward(
      [&](const TokenScores& scores) -> HeadGradient {
        out = loss(on_host(scores, batch, balance));
        out.d_logprob = ops::staged(out.d_logprob, model.device());
        if (out.d_entropy.defined()) out.d_entropy = ops::staged(out.d_entropy, model.device());
        return {.d_logprob = out.d_logprob, .d_entropy = out.d_entropy};
      },
      balance);
  return out;
}

}  // namespace hone::train
