#include "serve/training/trained_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "data/records/record.h"
#include "serve/training/modules.h"
#include "serve/training/moments.h"
#include "serve/training/scored_rows.h"
#include "train/passes/batch_pass.h"

namespace hone::serve {
namespace {

constexpr double kAlpha = 32;

void require_number(const char* name, double value, bool fits, const char* expected) {
  if (std::isfinite(value) && fits) return;
  throw base::UserError({.where = std::string("adam_params.") + name,
                         .expected = expected,
                         .found = std::to_string(value),
                         .cause = {},
                         .fix = {}});
}

void check_datum(const Datum& datum, const model::CausalLm& model) {
  const std::int64_t most = model.config().max_position_embeddings;
  const auto tokens = static_cast<std::int64_t>(datum.tokens.size());
  if (tokens == 0 || (most > 0 && tokens > most)) {
    throw base::UserError(
        {.where = "model_input",
         .expected = "1 to " + std::to_string(most) + " tokens, the model's maximum context length",
         .found = std::to_string(tokens),
         .cause = {},
         .fix = "cut the datum"});
  }
  base::require(datum.size() == tokens * datum.columns, "serve::TrainedModel", "targets of every position");
  model.require_ids(datum.tokens);
  const std::int64_t vocabulary = model.config().vocab_size;
  for (const std::int32_t target : datum.targets) {
    if (target >= 0 && target < vocabulary) continue;
    throw base::UserError({.where = "loss_fn_inputs['target_tokens']",
                           .expected = "token ids from 0 to " + std::to_string(vocabulary - 1),
                           .found = std::to_string(target),
                           .cause = "a label such as -100 is no token",
                           .fix = "give any token there and a weight of 0"});
  }
}

}  // namespace

void check(const AdamParams& params) {
  const auto below_one = [](double beta) { return beta >= 0 && beta < 1; };
  require_number("learning_rate", params.learning_rate, params.learning_rate >= 0, "a finite number from 0");
  require_number("beta1", params.beta1, below_one(params.beta1), "a number from 0 to below 1");
  require_number("beta2", params.beta2, below_one(params.beta2), "a number from 0 to below 1");
  require_number("eps", params.epsilon, params.epsilon >= 0, "a finite number from 0");
  require_number("weight_decay", params.weight_decay, params.weight_decay >= 0, "a finite number from 0");
  require_number("grad_clip_norm", params.grad_clip_norm, params.grad_clip_norm >= 0,
                 "a finite number from 0");
}

// The model has the LoRA of its layers, or that of its head, while it lives: the fused pass through the layers
// takes no model that has both.
class TrainedModel::Seat {
 public:
  enum class Of { kLayers, kHead };
  Seat(const TrainedModel& trained, Of of) : trained_(trained), of_(of) { exchange(); }
  ~Seat() { exchange(); }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

 private:
  void exchange() {
    for (Side& side : trained_.sides_) {
      const bool is_head = side.linear == &trained_.model_.head_linear();
      if (is_head == (of_ == Of::kHead)) std::swap(side.linear->lora, side.weights);
    }
  }
  const TrainedModel& trained_;
  const Of of_;
};

TrainedModel::TrainedModel(model::CausalLm& model, adapters::Adapter adapter, const LoraChoice& choice)
    : model_(model), adapter_(std::move(adapter)), choice_(choice) {
  for (ops::Linear* linear : model.linears_and_head()) {
    if (!linear->lora) continue;
    trains_layers_ = trains_layers_ || linear != &model.head_linear();
    sides_.push_back({linear, std::exchange(linear->lora, std::nullopt)});
  }
  state_ = learn::AdamWState::zeros_like(adapter_.flat());
}

namespace {

// What an attempt to attach an adapter leaves in the model.
struct WithoutLora {
  model::CausalLm& model;
  ~WithoutLora() {
    for (ops::Linear* linear : model.linears_and_head()) linear->lora.reset();
  }
};

}  // namespace

std::unique_ptr<TrainedModel> TrainedModel::create(model::CausalLm& model, const LoraChoice& choice) {
  const WithoutLora guard{model};
  adapters::LoraConfig config;
  config.r = choice.rank;
  config.alpha = kAlpha;
  config.target_modules = target_modules(choice, model);
  return std::unique_ptr<TrainedModel>(
      new TrainedModel(model, adapters::Adapter::attach(model, config, choice.seed), choice));
}

std::unique_ptr<TrainedModel> TrainedModel::load(model::CausalLm& model, const base::fs::path& folder,
                                                 const LoraChoice& choice, bool moments) {
  const WithoutLora guard{model};
  std::unique_ptr<TrainedModel> out(new TrainedModel(model, adapters::Adapter::load(model, folder), choice));
  if (!model.takes_other_adapters()) {
    throw base::UserError({.where = folder.string(),
                           .expected = "a LoRA of linears alone",
                           .found = "one that trains rows of the embedding, whole modules or experts",
                           .cause = "it was not saved by this server",
                           .fix = "train it with hone's commands"});
  }
  if (moments) read_moments(folder, out->state_);
  return out;
}

namespace {

bool any_gradient(const LossSpec& spec, const Datum& datum) {
  for (std::size_t i = 0; i < datum.targets.size(); ++i)
    if (may_have_gradient(spec, datum, i)) return true;
  return false;
}

}  // namespace

ScoredDatum TrainedModel::forward_backward(const Datum& datum, const LossSpec& spec, bool trains) {
  check_datum(datum, model_);
  const bool later = trains && bins_;
  ScoredDatum out = pass_of(datum, spec, trains && !later);
  // A run leaves out the sequences that have no gradient, so they take no place in a bin.
  if (later && any_gradient(spec, datum)) bins_->add(datum, spec, datums_);
  if (trains) {
    has_gradient_ = true;
    datums_ += 1;
  }
  return out;
}

ScoredDatum TrainedModel::pass_of(const Datum& datum, const LossSpec& spec, bool trains) {
  const Seat layers(*this, Seat::Of::kLayers);
  const data::Batch batch = one_sequence(datum.tokens);
  RowTargets targets{.columns = datum.columns, .targets = {}, .has_gradient = {}};
  targets.targets.assign(datum.targets.begin(), datum.targets.end());
  bool any = false;
  for (std::size_t i = 0; trains && i < datum.targets.size(); ++i) {
    targets.has_gradient.push_back(may_have_gradient(spec, datum, i));
    any = any || targets.has_gradient.back();
  }
  train::BatchPass pass(model_, batch, {}, {});
  std::vector<std::int64_t> rows(datum.tokens.size());
  std::iota(rows.begin(), rows.end(), 0);
  const at::Tensor hidden = pass.forward(rows, any && trains_layers_);
  ScoredDatum out;
  at::Tensor d_hidden;
  {
    const Seat head(*this, Seat::Of::kHead);
    d_hidden = score_rows(model_, hidden, targets, [&](const std::vector<float>& logprobs) {
      out.logprobs = logprobs;
      LossOfDatum loss = loss_of(spec, datum, logprobs);
      out.loss = loss.loss;
      return any ? std::move(loss.d_logprob) : std::vector<float>();
    });
  }
  if (any && trains_layers_ && d_hidden.defined()) pass.backward(d_hidden);
  return out;
}

void TrainedModel::begin() {
  const at::NoGradGuard no_grad;
  had_gradient_ = has_gradient_;
  datums_before_ = datums_;
  binned_before_ = bins_ ? bins_->size() : 0;
  before_ = has_gradient_ && !bins_ ? adapter_.flat_gradient().clone() : at::Tensor();
}

void TrainedModel::undo() {
  const at::NoGradGuard no_grad;
  if (bins_) bins_->truncate(binned_before_);
  if (before_.defined()) {
    adapter_.flat_gradient().copy_(before_);
  } else {
    adapter_.zero_gradient();
  }
  has_gradient_ = had_gradient_;
  datums_ = datums_before_;
  before_.reset();
}

void TrainedModel::done() {
  before_.reset();
}

void TrainedModel::add_in_bins(std::shared_ptr<DatumRoom> room) {
  base::require(!has_gradient_, "TrainedModel::add_in_bins", "a gradient was added by arrival");
  bins_.emplace(std::move(room));
}

bool TrainedModel::add_gradient() {
  if (!bins_) return false;
  return bins_->add_next(adapter_.flat_gradient(),
                         [this](const Datum& datum, const LossSpec& spec) { pass_of(datum, spec, true); });
}

StepReport TrainedModel::optim_step(const AdamParams& params) {
  check(params);
  if (!has_gradient_) {
    throw base::UserError({.where = "optim_step",
                           .expected = "a forward_backward since the last step",
                           .found = "none",
                           .cause = "its gradient would be zero",
                           .fix = "call forward_backward first"});
  }
  while (add_gradient()) {
  }
  const at::NoGradGuard no_grad;
  StepReport report;
  has_gradient_ = false;
  datums_ = 0;
  report.gradient_l2 = learn::clip_gradient(adapter_.flat_gradient(), params.grad_clip_norm);
  if (!std::isfinite(report.gradient_l2)) {
    adapter_.zero_gradient();
    throw base::UserError(
        {.where = "optim_step",
         .expected = "a finite gradient",
         .found = "infinite or not-a-number values",
         .cause = "weights or advantages were very large",
         .fix = "the gradient is dropped and the weights are as before; go on with a new one"});
  }
  const at::Tensor before = adapter_.flat().clone();
  learn::adamw_step(adapter_.flat(), adapter_.flat_gradient(), state_,
                    {.beta1 = params.beta1,
                     .beta2 = params.beta2,
                     .epsilon = params.epsilon,
                     .weight_decay = params.weight_decay},
                    params.learning_rate);
  adapter_.zero_gradient();
  report.step = state_.step;
  report.param_l2 = learn::clip_gradient(adapter_.flat(), 0);
  report.update_l2 = learn::clip_gradient(before.sub_(adapter_.flat()), 0);
  return report;
}

std::shared_ptr<const ops::AdapterSides> TrainedModel::snapshot() const {
  const at::NoGradGuard no_grad;
  ops::AdapterSides out;
  for (const Side& side : sides_) {
    ops::LoraWeights copy;
    copy.a = side.weights->a.detach().clone();
    copy.b = side.weights->b.detach().clone();
    copy.scale = side.weights->scale;
    out.emplace(side.linear, std::move(copy));
  }
  return std::make_shared<const ops::AdapterSides>(std::move(out));
}

void TrainedModel::save(const base::fs::path& folder, bool moments) const {
  adapter_.save(folder);
  if (moments) write_moments(folder, state_);
}

}  // namespace hone::serve
