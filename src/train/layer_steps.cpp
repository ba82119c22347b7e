#include "train/layer_steps.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/error.h"

namespace hone::train {

LayerSteps::LayerSteps(model::CausalLm& model, adapters::Adapter& adapter, learn::Optimizer& optimizer)
    : model_(model), adapter_(adapter), optimizer_(optimizer) {
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
  model_.set_pass_observer(nullptr);
  adapter_.release_gradient();
}

void LayerSteps::measure() {
  begin();
  rate_.reset();
  measured_ = true;
}

void LayerSteps::apply(double learning_rate, std::optional<float> factor) {
  begin();
  rate_ = learning_rate;
  factor_ = factor;
  optimizer_.begin_step();
}

void LayerSteps::begin() {
  const at::NoGradGuard no_grad;
  norm_.emplace(adapter_.flat().numel(), adapter_.flat().device());
  applied_ = false;
  for (Part& part : parts_) {
    part.taken = false;
    if (part.outside()) part.gradient.zero_();
  }
}

double LayerSteps::finish() {
  base::require(norm_.has_value(), "train::LayerSteps::finish", "measure() or apply() before it");
  for (Part& part : parts_) {
    if (part.taken) continue;
    if (!part.outside()) part.gradient.zero_();  // the backward did not reach it
    take(part);
  }
  const double norm = norm_->value();
  norm_.reset();
  if (rate_) measured_ = false;
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
  base::require(norm_.has_value() && !part->taken, "train::LayerSteps",
                "one backward between measure() or apply() and finish()");
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
  if (!measured_ && !norm_->is_finite()) throw NotFinite();
  if (factor_) learn::scale_gradient(part.gradient, *factor_);
  applied_ = true;
  optimizer_.step_part(adapter_.flat(), part.offset, part.gradient, *rate_);
}

}  // namespace hone::train
