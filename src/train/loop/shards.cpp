#include "train/loop/shards.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>

#include "base/error.h"
#include "learn/adamw.h"
#include "ops/machine/device_memory.h"
#include "ops/machine/pages.h"

namespace hone::train {
namespace {

constexpr std::int64_t kDone = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kStates = 16, kParts = 1 << 20;  // of a code

// The elements of a buffer that lie in `part` and not in `own`.
void clear_others(const at::Tensor& flat, const FlatPart& part, const learn::FlatRange& own) {
  ops::clear_pages(flat, part.offset, own.begin);
  ops::clear_pages(flat, own.end, part.offset + part.size);
}

}  // namespace

Shards::Shards(parallel::Ranks& ranks, model::CausalLm& model, adapters::Adapter& adapter,
               learn::Optimizer& optimizer, int stage, double max_grad_norm)
    : ranks_(ranks),
      model_(model),
      adapter_(adapter),
      optimizer_(optimizer),
      stage_(stage),
      max_grad_norm_(max_grad_norm),
      parts_(flat_parts(optimizer.layout())),
      held_(parts_.size(), 1),
      asked_(parts_.size(), 0) {
  base::require(adapter.is_full() && ops::is_host(adapter.flat().device()) && stage >= 1 && stage <= 3,
                "train::Shards", "full fine-tuning on the CPU, and a stage");
  base::require(parts_.size() < kParts && optimizer.state().size() < kStates, "train::Shards",
                "codes for all parts and states");
  if (stage < 2) {
    adapter_.hold_gradient();
    gradient_ = adapter_.flat_gradient();
    return;
  }
  adapter_.release_gradient();
  gradient_ = ops::lazy_zeros(adapter.flat().numel(), at::kFloat);
  if (divides_parameters()) {
    for (std::size_t i = 0; i < parts_.size(); ++i) drop_parameters(i);
  }
  model_.set_pass_observer(this);
}

Shards::~Shards() {
  if (stage_ < 2) return;
  model_.set_pass_observer(nullptr);
  adapter_.release_gradient();
}

learn::FlatRange Shards::own(const FlatPart& part) const {
  const parallel::Part share = ranks_.part_of(part.size, ranks_.rank());
  return {part.offset + share.begin, part.offset + share.end};
}

at::Tensor Shards::parameters_of(const FlatPart& part) const {
  return adapter_.flat().narrow(0, part.offset, part.size);
}

std::size_t Shards::part_of_layer(std::size_t layer) const {
  if (static_cast<std::int64_t>(layer) < 0) return parts_.size();  // before layer 0
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].layer == static_cast<std::int64_t>(layer)) return i;
  }
  return parts_.size();
}

// ---- which collective is next

Shards::Ticket Shards::ask(Event event, std::size_t part, std::size_t state) {
  const std::int64_t code =
      (static_cast<std::int64_t>(event) * kStates + static_cast<std::int64_t>(state)) * kParts +
      static_cast<std::int64_t>(part);
  return thread_.post([this, code] { meet(code); });
}

void Shards::accompany() {
  if (divides_gradients()) let_go();
}

void Shards::let_go() {
  thread_.wait(thread_.post([this] { meet(kDone); }));
}

void Shards::meet(std::int64_t wanted) {
  const at::NoGradGuard no_grad;
  for (;;) {
    const std::array<std::int64_t, 1> said = {wanted};
    const std::int64_t next = ranks_.agree(said, "next part of the model").min[0];
    // what others ask for may be what a pass here works on
    if (next != wanted && !thread_.until_owner_waits()) return;
    if (next != kDone) serve(next, next == wanted);
    if (next == wanted) return;
  }
}

void Shards::serve(std::int64_t code, bool asked) {
  const auto part = static_cast<std::size_t>(code % kParts);
  const auto state = static_cast<std::size_t>(code / kParts % kStates);
  switch (static_cast<Event>(code / kParts / kStates)) {
    case Event::kParameters:
      return gather(part, asked);
    case Event::kGradients:
      return add_up(part);
    case Event::kState: {
      const FlatPart& place = parts_[part];
      const at::Tensor& values = optimizer_.state()[state].value;
      ranks_.gather_parts(values.narrow(0, place.offset, place.size), "optimizer's state of a part");
      if (!asked) give_back_state(state, part);
      return;
    }
  }
}

void Shards::give_back_state(std::size_t state, std::size_t part) {
  const FlatPart& place = parts_[part];
  const at::Tensor& values = optimizer_.state()[state].value;
  if (optimizer_.is_offloaded()) return ops::page_out(values, place.offset, place.offset + place.size);
  clear_others(values, place, own(place));
}

void Shards::gather(std::size_t part, bool asked) {
  ranks_.gather_parts(parameters_of(parts_[part]), "parameters of a part");
  if (asked) {
    held_[part] = 1;
  } else if (held_[part] == 0) {
    held_[part] = 1;
    drop_parameters(part);
  }
}

void Shards::add_up(std::size_t part) {
  const FlatPart& place = parts_[part];
  ranks_.sum_part(gradient_.narrow(0, place.offset, place.size), "gradients of a part");
  clear_others(gradient_, place, own(place));
}

// What is outside the layers stays.
void Shards::drop_parameters(std::size_t part) {
  const FlatPart& place = parts_[part];
  if (!divides_parameters() || place.outside() || held_[part] == 0) return;
  held_[part] = 0;
  clear_others(adapter_.flat(), place, own(place));
}

// ---- a pass

void Shards::ask_for_layer(std::size_t layer) {
  const std::size_t part = part_of_layer(layer);
  if (part < parts_.size() && asked_[part] == 0) asked_[part] = ask(Event::kParameters, part);
}

// The layer itself, and `next` while it is computed.
void Shards::gather_layer(std::size_t layer, std::size_t next) {
  if (!divides_parameters()) return;
  ask_for_layer(layer);
  ask_for_layer(next);
  const std::size_t part = part_of_layer(layer);
  if (part < parts_.size()) thread_.wait(asked_[part]);
}

void Shards::leave_layer(std::size_t layer) {
  const std::size_t part = part_of_layer(layer);
  if (part >= parts_.size()) return;
  drop_parameters(part);
  asked_[part] = 0;
}

void Shards::before_forward(std::size_t layer) {
  gather_layer(layer, layer + 1);
}

void Shards::after_forward(std::size_t layer) {
  leave_layer(layer);
}

void Shards::before_backward(std::size_t layer) {
  gather_layer(layer, layer - 1);  // of layer 0: none
}

void Shards::after_backward(std::size_t layer) {
  leave_layer(layer);
  const std::size_t part = part_of_layer(layer);
  if (part >= parts_.size()) return;
  adding_.push_back(ask(Event::kGradients, part));
  constexpr std::size_t kLayers =
      2;  // whose gradients are whole here at once, with that of the next backward
  if (adding_.size() < kLayers) return;
  thread_.wait(adding_.front());
  adding_.pop_front();
}

void Shards::after_pass() {
  Ticket last = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].outside()) last = ask(Event::kGradients, i);
  }
  // the next pass adds to all of these
  for (const Ticket ticket : adding_) last = std::max(last, ticket);
  thread_.wait(last);
  adding_.clear();
}

// ---- a step

StepResult Shards::measure(const StepPasses& passes) {
  begin();
  StepResult out{.loss = passes.backward()};
  out.grad_norm = end_gradient();
  if (passes.seen) passes.seen(out.loss);
  return out;
}

StepResult Shards::step(const StepPasses& passes, double learning_rate) {
  StepResult out = measure(passes);
  if (out.is_finite()) apply(learning_rate);
  return out;
}

bool Shards::end_with_gradients() {
  return !divides_gradients();
}

void Shards::begin() {
  const at::NoGradGuard no_grad;
  if (!divides_gradients()) return adapter_.zero_gradient();
  ops::clear_pages(gradient_, 0, gradient_.numel());
  adding_.clear();
  const learn::FlatLayout& layout = optimizer_.layout();
  for (std::size_t i = 0; i < layout.size(); ++i) {
    at::Tensor value = adapter_.tensors()[i].value;
    value.mutable_grad() = gradient_.narrow(0, layout[i].offset, layout[i].size).view(value.sizes());
  }
}

double Shards::end_gradient() {
  const at::NoGradGuard no_grad;
  if (divides_gradients()) {
    adapter_.release_gradient();
  } else {
    for (const FlatPart& part : parts_)
      ranks_.sum_part(gradient_.narrow(0, part.offset, part.size), "gradients of a part");
  }
  at::Tensor squares = at::zeros({1}, at::kDouble);
  for (const FlatPart& part : parts_) {
    const learn::FlatRange mine = own(part);
    const double norm =
        learn::clip_gradient(gradient_.narrow(0, mine.begin, mine.end - mine.begin), /*max_norm=*/0);
    squares.add_(norm * norm);
  }
  ranks_.sum(squares, "norm of the gradient");
  const double norm = squares.sqrt_().item<double>();
  const std::optional<float> factor = learn::clip_factor(norm, max_grad_norm_);
  for (const FlatPart& part : parts_) {
    const learn::FlatRange mine = own(part);
    if (factor) learn::scale_gradient(gradient_.narrow(0, mine.begin, mine.end - mine.begin), *factor);
  }
  return norm;
}

void Shards::apply(double learning_rate) {
  const at::NoGradGuard no_grad;
  optimizer_.step(adapter_.flat(), gradient_, learning_rate);
  for (const FlatPart& part : parts_) {
    if (!divides_parameters() || part.outside())
      ranks_.gather_parts(parameters_of(part), "parameters after the step");
  }
  adapter_.flat().unsafeGetTensorImpl()->bump_version();
}

// ---- rank 0 writes

void Shards::reading(const parallel::Ranks& /*ranks*/, const std::function<void()>& read) {
  std::exception_ptr error;
  if (ranks_.leads()) {
    try {
      read();
    } catch (const parallel::RankFault&) {
      throw;
    } catch (...) {
      error = std::current_exception();
    }
  }
  let_go();
  for (std::size_t i = 0; i < parts_.size(); ++i) drop_parameters(i);
  if (error) std::rethrow_exception(error);
}

void Shards::read_parameters(std::string_view tensor) {
  if (!divides_parameters()) return;
  const learn::FlatLayout& layout = optimizer_.layout();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    bool here = false;
    for (std::size_t t = parts_[i].first; t < parts_[i].first + parts_[i].count; ++t)
      here = here || layout[t].name == tensor;
    if (!here) drop_parameters(i);
    if (here && held_[i] == 0) thread_.wait(ask(Event::kParameters, i));
  }
}

void Shards::read_all_parameters() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (held_[i] == 0) thread_.wait(ask(Event::kParameters, i));
  }
}

void Shards::read_state(std::size_t index, const std::function<void(const at::Tensor&)>& take) {
  const at::Tensor& values = optimizer_.state()[index].value;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    thread_.wait(ask(Event::kState, i, index));
    take(values.narrow(0, parts_[i].offset, parts_[i].size));
    give_back_state(index, i);
  }
}

}  // namespace hone::train
