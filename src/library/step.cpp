#include "hone/step.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/records/record.h"
#include "hone/error.h"
#include "learn/adamw.h"
#include "library/parts.h"
#include "serve/training/scored_rows.h"
#include "train/passes/batch_pass.h"

namespace hone {

struct Step::Parts {
  Adapter::Parts& of;
  AdamOptions options;
  learn::AdamWState state;
};

namespace {

void check(const Example& example, const model::CausalLm& model) {
  const std::int64_t most = model.config().max_position_embeddings;
  const auto tokens = static_cast<std::int64_t>(example.tokens.size());
  if (tokens == 0 || (most > 0 && tokens > most)) {
    throw UserError({.where = "hone::Example::tokens",
                     .expected = "1 to " + std::to_string(most) + " tokens, the model's context",
                     .found = std::to_string(tokens),
                     .cause = {},
                     .fix = {}});
  }
  if (example.targets.size() != example.tokens.size()) {
    throw UserError({.where = "hone::Example::targets",
                     .expected = std::to_string(tokens) + " targets, one after each token",
                     .found = std::to_string(example.targets.size()),
                     .cause = {},
                     .fix = {}});
  }
  model.require_ids(example.tokens);
  model.require_ids(example.targets);
}

// d loss / d log-probability, times `scale`.
std::vector<float> derivative_of(LossValue value, std::size_t count, double scale) {
  const bool finite = std::isfinite(value.loss) &&
                      std::all_of(value.d_logprob.begin(), value.d_logprob.end(),
                                  [scale](float d) { return std::isfinite(static_cast<float>(d * scale)); });
  if (value.d_logprob.size() != count || !finite) {
    throw UserError({.where = "hone::LossValue",
                     .expected = std::to_string(count) + " finite derivatives, and a finite loss",
                     .found = finite ? std::to_string(value.d_logprob.size()) + " derivatives"
                                     : "an infinite value, or one that is not a number",
                     .cause = {},
                     .fix = "the step is as it was before this example"});
  }
  for (float& d : value.d_logprob) d = static_cast<float>(d * scale);
  return std::move(value.d_logprob);
}

void require_attached(const Adapter::Parts& of) {
  if (of.model.adapter == &of) return;
  throw UserError({.where = "hone::Step",
                   .expected = "the adapter that the model has",
                   .found = "one whose place another adapter took",
                   .cause = "a model has one adapter at a time",
                   .fix = "make the step of the newer adapter"});
}

Scored pass_over(const Adapter::Parts& of, const Example& example, const Loss& loss, double scale,
                 bool trains) {
  const model::CausalLm& model = of.model.model;
  require_attached(of);
  check(example, model);
  const data::Batch batch = serve::one_sequence(example.tokens);
  serve::RowTargets targets{.columns = 1, .targets = {}, .has_gradient = {}};
  targets.targets.assign(example.targets.begin(), example.targets.end());
  if (trains) targets.has_gradient.assign(example.targets.size(), true);
  train::BatchPass pass(model, batch, {}, {});
  std::vector<std::int64_t> rows(example.tokens.size());
  std::iota(rows.begin(), rows.end(), 0);
  Scored out;
  const at::Tensor d_hidden =
      serve::score_rows(model, pass.forward(rows, trains), targets, [&](const std::vector<float>& logprobs) {
        out.logprobs = logprobs;
        LossValue value = loss(logprobs, example);
        out.loss = value.loss;
        return trains ? derivative_of(std::move(value), logprobs.size(), scale) : std::vector<float>();
      });
  if (trains && d_hidden.defined()) pass.backward(d_hidden);
  return out;
}

}  // namespace

Step::Step(Adapter& adapter, const AdamOptions& options)
    : parts_(new Parts{.of = adapter.parts(),
                       .options = options,
                       .state = learn::AdamWState::zeros_like(adapter.parts().adapter.flat())}) {}
Step::Step(Step&&) noexcept = default;
Step& Step::operator=(Step&&) noexcept = default;
Step::~Step() = default;

Scored Step::add(const Example& example, const Loss& loss, double scale) {
  Scored out = pass_over(parts_->of, example, loss, scale, /*trains=*/true);
  parts_->of.has_gradient = true;
  return out;
}

Scored Step::score(const Example& example, const Loss& loss) const {
  return pass_over(parts_->of, example, loss, 1, /*trains=*/false);
}

StepReport Step::take(double learning_rate) {
  Adapter::Parts& of = parts_->of;
  require_attached(of);
  if (!of.has_gradient || !(learning_rate >= 0 && std::isfinite(learning_rate))) {
    throw UserError(
        {.where = "hone::Step::take",
         .expected = "a gradient, and a learning rate from 0",
         .found = of.has_gradient ? std::to_string(learning_rate) : "no example since the last step",
         .cause = {},
         .fix = {}});
  }
  const at::NoGradGuard no_grad;
  const AdamOptions& options = parts_->options;
  of.has_gradient = false;
  const double norm = learn::clip_gradient(of.adapter.flat_gradient(), options.max_grad_norm);
  if (!std::isfinite(norm)) {
    of.adapter.zero_gradient();
    throw UserError({.where = "hone::Step::take",
                     .expected = "a finite gradient",
                     .found = "infinite or not-a-number values",
                     .cause = "derivatives of the loss were very large",
                     .fix = "the gradient is dropped, and the weights are as before"});
  }
  learn::adamw_step(of.adapter.flat(), of.adapter.flat_gradient(), parts_->state,
                    {.beta1 = options.beta1,
                     .beta2 = options.beta2,
                     .epsilon = options.epsilon,
                     .weight_decay = options.weight_decay},
                    learning_rate);
  of.adapter.zero_gradient();
  return {.step = parts_->state.step, .grad_norm = norm};
}

}  // namespace hone
