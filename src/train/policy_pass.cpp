#include "train/policy_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <optional>

#include "ops/head/linear_logprob.h"
#include "ops/index_tensor.h"
#include "ops/machine/device_memory.h"

namespace hone::train {

namespace {

// A pass with its targets [n], on the model's device.
struct Run {
  Run(const model::CausalLm& lm, const PolicyPass& policy_pass, const RngKey& key, const PassForm& form)
      : model(lm),
        pass(lm, policy_pass.batch, key, form),
        target(ops::index_tensor(policy_pass.target, lm.device())) {}

  const model::CausalLm& model;
  BatchPass pass;
  at::Tensor target;
};

// The autograd head in tiles of rows, each with its graph, to `use(begin, size, tile rows, scores of the tile)`.
template <typename Use>
void autograd_head(Run& run, const at::Tensor& rows, double temperature, const ExtraScores& extra,
                   const Use& use) {
  for (std::int64_t begin = 0; begin < rows.size(0); begin += kHeadTile) {
    const std::int64_t size = std::min(kHeadTile, rows.size(0) - begin);
    at::Tensor tile = rows.narrow(0, begin, size).detach();
    if (at::GradMode::is_enabled()) tile.requires_grad_(true);
    const at::Tensor logits =
        run.model.autograd_logits(tile, run.pass.head_context(begin, size)) / temperature;
    const at::Tensor z = at::log_softmax(logits, -1);
    const at::Tensor target = run.target.narrow(0, begin, size);
    PolicyScores scores{.logprob = z.gather(1, target.unsqueeze(1)).squeeze(1),
                        .entropy = -(z.exp() * z).sum(-1)};
    if (extra.mean_row.defined()) {
      scores.is_top1 = logits.argmax(-1).eq(target).to(at::kFloat);
      scores.mean_logit = logits.mean(-1);
    }
    if (extra.squares) scores.log_sum_squares = at::logsumexp(2 * z, -1);
    use(begin, size, tile, scores);
  }
}

PolicyScores score_under_autograd(Run& run, const at::Tensor& rows, double temperature,
                                  const ExtraScores& extra) {
  const at::NoGradGuard no_grad;
  const auto column = [&](bool wanted) {
    return wanted ? at::empty({rows.size(0)}, rows.options().dtype(at::kFloat)) : at::Tensor();
  };
  const bool facts = extra.mean_row.defined();
  PolicyScores out{.logprob = column(true),
                   .entropy = column(true),
                   .is_top1 = column(facts),
                   .mean_logit = column(facts),
                   .log_sum_squares = column(extra.squares)};
  autograd_head(run, rows, temperature, extra,
                [&](auto begin, auto size, const auto&, const PolicyScores& tile) {
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

// Rows of the head that the adapter trains, as the operators take them.
const ops::HeadRows* pointer(const std::optional<ops::HeadRows>& own) {
  return own ? &*own : nullptr;
}

ops::LogprobOptions logprob_options(const model::CausalLm& model, double temperature,
                                    const ExtraScores& extra, const ops::HeadRows* own, bool gradient) {
  const double cap = model.config().logits_soft_cap;
  return {.gradient = gradient,
          .temperature = temperature,
          .squares = extra.squares,
          .own = own,
          .soft_cap = cap,
          .mean_logit = cap > 0 && extra.mean_row.defined()};
}

// The mean of a row's logits without making them.
at::Tensor mean_of_products(const Run& run, const at::Tensor& hidden, const std::optional<ops::HeadRows>& own,
                            const ExtraScores& extra) {
  at::Tensor mean = run.model.mean_head_row(extra.mean_row, run.pass.context().adapters_on);
  if (own) mean = mean + ops::mean_row_change(run.model.head(), *own);
  return hidden.to(at::kFloat).mv(mean);
}

PolicyScores scores_of(const Run& run, const ops::TokenLogprobs& found, const at::Tensor& hidden,
                       const std::optional<ops::HeadRows>& own, double temperature,
                       const ExtraScores& extra) {
  PolicyScores out{.logprob = found.logprob, .entropy = found.entropy};
  if (extra.mean_row.defined()) {
    out.is_top1 = found.is_top1;
    out.mean_logit = found.mean_logit.defined() ? found.mean_logit / temperature
                                                : mean_of_products(run, hidden, own, extra) / temperature;
  }
  out.log_sum_squares = found.log_sum_squares;
  return out;
}

// The scores where losses are made.
PolicyScores on_host(PolicyScores scores) {
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

// What `loss` makes of the scores, with its gradients on the model's device.
learn::PolicyGradient gradient_of(const std::function<learn::PolicyGradient(const PolicyScores&)>& loss,
                                  const PolicyScores& scores, at::Device device) {
  learn::PolicyGradient out = loss(on_host(scores));
  out.d_logprob = ops::staged(out.d_logprob, device);
  if (out.d_entropy.defined()) out.d_entropy = ops::staged(out.d_entropy, device);
  return out;
}

}  // namespace

PolicyScores score_policy(const model::CausalLm& model, const PolicyPass& pass, const RngKey& key,
                          double temperature, const PassForm& form, const ExtraScores& extra) {
  const at::NoGradGuard no_grad;
  Run run(model, pass, key, form);
  const at::Tensor hidden = run.pass.forward(pass.source, /*trains=*/false);
  if (!form.is_fused) return on_host(score_under_autograd(run, hidden, temperature, extra));
  const std::optional<ops::HeadRows> own = model.head_rows(key.adapters_on);
  const ops::TokenLogprobs found =
      ops::linear_logprob(hidden, model.head(key.adapters_on), run.target,
                          logprob_options(model, temperature, extra, pointer(own), /*gradient=*/false));
  return on_host(scores_of(run, found, hidden, own, temperature, extra));
}

learn::PolicyGradient train_policy(const model::CausalLm& model, const PolicyPass& pass, const RngKey& key,
                                   double temperature, const PassForm& form,
                                   const std::function<learn::PolicyGradient(const PolicyScores&)>& loss,
                                   const ExtraScores& extra) {
  Run run(model, pass, key, form);
  const at::Tensor hidden = run.pass.forward(pass.source, /*trains=*/true);
  if (!form.is_fused) {
    const at::AutoGradMode with_grad(true);
    learn::PolicyGradient out =
        gradient_of(loss, score_under_autograd(run, hidden, temperature, extra), model.device());
    at::Tensor gradient = at::empty_like(hidden);
    autograd_head(run, hidden, temperature, {},
                  [&](auto begin, auto size, const auto& tile, const PolicyScores& scores) {
                    at::Tensor sum = (scores.logprob * out.d_logprob.narrow(0, begin, size)).sum();
                    if (out.d_entropy.defined())
                      sum = sum + (scores.entropy * out.d_entropy.narrow(0, begin, size)).sum();
                    sum.backward();
                    gradient.narrow(0, begin, size).copy_(tile.grad());
                  });
    run.pass.backward(gradient);
    return out;
  }
  const at::NoGradGuard no_grad;
  const std::optional<ops::HeadRows> own = model.head_rows(true);
  const double cap = model.config().logits_soft_cap;
  ops::TokenLogprobs found =
      ops::linear_logprob(hidden, model.head(true), run.target,
                          logprob_options(model, temperature, extra, pointer(own), /*gradient=*/true));
  learn::PolicyGradient out =
      gradient_of(loss, scores_of(run, found, hidden, own, temperature, extra), model.device());
  found.gradient.mul_(out.d_logprob.unsqueeze(1));
  if (out.d_entropy.defined()) {
    found.gradient.add_(ops::entropy_backward(hidden, model.head(true), found.log_sum, found.entropy,
                                              out.d_entropy, temperature, pointer(own), cap));
  }
  if (own) {
    ops::add_head_rows_gradient(model.token_rows().values().grad(), *own,
                                {.hidden = hidden,
                                 .targets = run.target,
                                 .own_logits = found.own_logits,
                                 .log_sum = found.log_sum,
                                 .d_logprob = out.d_logprob,
                                 .entropy = found.entropy,
                                 .d_entropy = out.d_entropy,
                                 .temperature = temperature,
                                 .soft_cap = cap});
  }
  if (const at::Tensor& head = model.trained_parts().head; head.defined()) {
    ops::add_head_gradient(head.grad(), model.head(true),
                           {.hidden = hidden,
                            .targets = run.target,
                            .log_sum = found.log_sum,
                            .d_logprob = out.d_logprob,
                            .entropy = found.entropy,
                            .d_entropy = out.d_entropy,
                            .temperature = temperature,
                            .soft_cap = cap});
  }
  run.pass.backward(std::move(found.gradient));
  return out;
}

}  // namespace hone::train
