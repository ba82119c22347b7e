#include "train/loop/layer_steps.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace hone::train {

LayerSteps::LayerSteps(model::CausalLm& model, adapters::Adapter& adapter, learn::Optimizer& optimizer,
                       double max_grad_norm)
    : model_(model), adapter_(adapter), optimizer_(optimizer), max_grad_norm_(max_grad_norm) {
  base::require(adapter.is_full(), "train::LayerSteps", "full fine-tuning");
  std::int64_t largest = 0;
  for (const FlatPart& part : flat_parts(optimizer.layout())) {
    parts_.push_back({part, {}, false});
    if (!part.outside()) largest = std::max(largest, part.size);
  }
  adapter_.release_gradient();
  const at::TensorOptions options = adapter.flat().options();
  layer_gradient_ = at::empty({largest}, options);
  for (Part& part : parts_) {
    part.gradient =
        part.outside() ? at::empty({part.size}, options) : layer_gradient_.narrow(0, 0, part.size);
    if (part.outside()) lend(part);
  }
  model_.set_pass_observer(this);
}

LayerSteps::~LayerSteps() {
  let_go();
}

void LayerSteps::let_go() {
  model_.set_pass_observer(nullptr);
  adapter_.release_gradient();
}

bool LayerSteps::end_with_gradients() {
  let_go();
  adapter_.hold_gradient();
  return true;
}

StepResult LayerSteps::measure(const StepPasses& passes) {
  begin({}, {});
  StepResult out = run(passes);
  if (passes.seen) passes.seen(out.loss);
  return out;
}

StepResult LayerSteps::step(const StepPasses& passes, double learning_rate) {
  if (!(max_grad_norm_ > 0)) {
    begin(learning_rate, {});
    StepResult out = run(passes);
    if (passes.seen && std::isfinite(out.grad_norm)) passes.seen(out.loss);
    return out;
  }
  StepResult out = measure(passes);
  if (!out.is_finite()) return out;
  begin(learning_rate, learn::clip_factor(out.grad_norm, max_grad_norm_));
  run(passes);
  return out;
}

// One backward, whose gradients are measured and, where there is a rate, applied.
StepResult LayerSteps::run(const StepPasses& passes) {
  try {
    StepResult out{.loss = passes.backward()};
    out.grad_norm = finish();
    out.changed = rate_ && !out.is_finite();
    return out;
  } catch (const NotFinite&) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    return {.loss = {.loss = kNone}, .grad_norm = kNone, .changed = applied_};
  }
}

void LayerSteps::begin(std::optional<double> rate, std::optional<float> factor) {
  const at::NoGradGuard no_grad;
  norm_.emplace(adapter_.flat().numel(), adapter_.flat().device());
  rate_ = rate;
  factor_ = factor;
  applied_ = false;
  if (rate) optimizer_.begin_step();
  for (Part& part : parts_) {
    part.taken = false;
    if (part.outside()) part.gradient.zero_();
  }
}

// What is outside the layers, and layers that the backward did not reach. Returns the norm before clipping.
double LayerSteps::finish() {
  for (Part& part : parts_) {
    if (part.taken) continue;
    if (!part.outside()) part.gradient.zero_();
    take(part);
  }
  const double norm = norm_->value();
  norm_.reset();
  applied_ = false;
  return norm;
}

LayerSteps::Part* LayerSteps::part_of(std::size_t layer) {
  for (Part& part : parts_) {
    if (part.layer == static_cast<std::int64_t>(layer)) return &part;
  }
  return nullptr;
}

// The .grad of the part's tensors: their places in its gradient.
void LayerSteps::lend(const Part& part) {
  for (std::size_t i = part.first; i < part.first + part.count; ++i) {
    const learn::FlatTensor& place = optimizer_.layout()[i];
    at::Tensor value = adapter_.tensors()[i].value;
    value.mutable_grad() =
        part.gradient.narrow(0, place.offset - part.offset, place.size).view(value.sizes());
  }
}

void LayerSteps::before_backward(std::size_t layer) {
  Part* const part = part_of(layer);
  if (part == nullptr) return;
  base::require(norm_.has_value() && !part->taken, "train::LayerSteps", "a backward of step() or measure()");
  part->gradient.zero_();
  lend(*part);
}

void LayerSteps::after_backward(std::size_t layer) {
  Part* const part = part_of(layer);
  if (part == nullptr) return;
  take(*part);
  for (std::size_t i = part->first; i < part->first + part->count; ++i)
    at::Tensor(adapter_.tensors()[i].value).mutable_grad().reset();  // of another layer next
}

void LayerSteps::take(Part& part) {
  const at::NoGradGuard no_grad;
  norm_->add(part.offset, part.gradient);
  part.taken = true;
  if (!rate_) return;
  if (!(max_grad_norm_ > 0) && !norm_->is_finite()) throw NotFinite();  // else it was measured
  if (factor_) learn::scale_gradient(part.gradient, *factor_);
  applied_ = true;
  optimizer_.step_part(adapter_.flat(), part.offset, part.gradient, *rate_);
}

}  // namespace hone::train
