#include "train/policy_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <optional>

#include "learn/sft_loss.h"
#include "model/explicit_pass.h"
#include "ops/linear_logprob.h"

namespace hone::train {

namespace {

constexpr std::int64_t kHeadTile = 512;  // rows of the plain form's logits at a time

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

// A pass with what its forward needs by reference.
struct Run {
  Run(const model::CausalLm& lm, const PolicyPass& policy_pass, const PassKey& key, bool adapters_on)
      : model(lm),
        pass(policy_pass),
        rows(token_rows(policy_pass.batch)),
        source(index_tensor(policy_pass.source)),
        target(index_tensor(policy_pass.target)),
        context{.training = key.training,
                .adapters_on = adapters_on,
                .seed = key.seed,
                .step = key.step,
                .token_row = &rows,
                .token_position = &policy_pass.batch.positions} {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const model::CausalLm& model;
  const PolicyPass& pass;
  std::vector<std::int64_t> rows;
  at::Tensor source, target;
  ops::PassContext context;
};

// The plain head in tiles of rows, each with its graph, to `use(begin, size, tile rows, scores of the tile)`.
template <typename Use>
void plain_head(const Run& run, const at::Tensor& rows, double temperature, const ExtraScores& extra,
                const Use& use) {
  for (std::int64_t begin = 0; begin < rows.size(0); begin += kHeadTile) {
    const std::int64_t size = std::min(kHeadTile, rows.size(0) - begin);
    at::Tensor tile = rows.narrow(0, begin, size).detach();
    if (at::GradMode::is_enabled()) tile.requires_grad_(true);
    const at::Tensor logits = run.model.plain_logits(tile, run.context) / temperature;
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

PolicyScores score_plainly(const Run& run, const at::Tensor& rows, double temperature,
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
  plain_head(run, rows, temperature, extra,
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

PolicyScores scores_of(const Run& run, const ops::TokenLogprobs& found, const at::Tensor& hidden,
                       const std::optional<ops::HeadRows>& own, double temperature,
                       const ExtraScores& extra) {
  PolicyScores out{.logprob = found.logprob, .entropy = found.entropy};
  if (extra.mean_row.defined()) {
    out.is_top1 = found.is_top1;
    at::Tensor mean = extra.mean_row;
    if (own) mean = mean + ops::mean_row_change(run.model.head(), *own);
    out.mean_logit = hidden.to(at::kFloat).mv(mean) / temperature;
  }
  out.log_sum_squares = found.log_sum_squares;
  return out;
}

at::Tensor plain_rows(const Run& run) {
  return run.model.hidden(run.pass.batch, run.context).index_select(0, run.source);
}

}  // namespace

PolicyScores score_policy(const model::CausalLm& model, const PolicyPass& pass, const PassKey& key,
                          double temperature, const PassForm& form, bool adapters_on,
                          const ExtraScores& extra) {
  const at::NoGradGuard no_grad;
  const Run run(model, pass, key, adapters_on);
  if (!form.is_explicit) return score_plainly(run, plain_rows(run), temperature, extra);
  model::ExplicitPass explicit_pass(model, pass.batch, run.context);
  const at::Tensor hidden = explicit_pass.forward(run.source, std::nullopt);
  const std::optional<ops::HeadRows> own = model.head_rows(adapters_on);
  const ops::TokenLogprobs found =
      ops::linear_logprob(hidden, model.head(), run.target,
                          {.temperature = temperature, .squares = extra.squares, .own = pointer(own)});
  return scores_of(run, found, hidden, own, temperature, extra);
}

learn::PolicyGradient train_policy(const model::CausalLm& model, const PolicyPass& pass, const PassKey& key,
                                   double temperature, const PassForm& form,
                                   const std::function<learn::PolicyGradient(const PolicyScores&)>& loss,
                                   const ExtraScores& extra) {
  const Run run(model, pass, key, true);
  if (!form.is_explicit) {
    const at::AutoGradMode with_grad(true);
    const at::Tensor rows = plain_rows(run);
    learn::PolicyGradient out = loss(score_plainly(run, rows, temperature, extra));
    at::Tensor gradient = at::empty_like(rows);
    plain_head(run, rows, temperature, {},
               [&](auto begin, auto size, const auto& tile, const PolicyScores& scores) {
                 at::Tensor sum = (scores.logprob * out.d_logprob.narrow(0, begin, size)).sum();
                 if (out.d_entropy.defined())
                   sum = sum + (scores.entropy * out.d_entropy.narrow(0, begin, size)).sum();
                 sum.backward();
                 gradient.narrow(0, begin, size).copy_(tile.grad());
               });
    rows.backward(gradient);
    return out;
  }
  const at::NoGradGuard no_grad;
  model::ExplicitPass explicit_pass(model, pass.batch, run.context);
  const at::Tensor hidden = explicit_pass.forward(run.source, form.recompute);
  const std::optional<ops::HeadRows> own = model.head_rows(true);
  ops::TokenLogprobs found = ops::linear_logprob(
      hidden, model.head(), run.target,
      {.gradient = true, .temperature = temperature, .squares = extra.squares, .own = pointer(own)});
  learn::PolicyGradient out = loss(scores_of(run, found, hidden, own, temperature, extra));
  found.gradient.mul_(out.d_logprob.unsqueeze(1));
  if (out.d_entropy.defined()) {
    found.gradient.add_(ops::entropy_backward(hidden, model.head(), found.log_sum, found.entropy,
                                              out.d_entropy, temperature, pointer(own)));
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
                                 .temperature = temperature});
  }
  explicit_pass.backward(std::move(found.gradient));
  return out;
}

}  // namespace hone::train
