#include "train/loop/step_strategy.h"

#include <cmath>
#include <utility>

#include "learn/adamw.h"
#include "train/loop/layer_steps.h"
#include "train/loop/optimizer.h"
#include "train/loop/shards.h"
#include "train/opening/run_view.h"

namespace hone::train {

bool StepResult::is_finite() const {
  return std::isfinite(loss.loss) && std::isfinite(grad_norm);
}

WholeStep::WholeStep(adapters::Adapter& adapter, double max_grad_norm, Update update)
    : adapter_(adapter), max_grad_norm_(max_grad_norm), update_(std::move(update)) {}

WholeStep::WholeStep(adapters::Adapter& adapter, double max_grad_norm, learn::Optimizer& optimizer)
    : WholeStep(adapter, max_grad_norm,
                [&optimizer](const at::Tensor& parameters, const at::Tensor& gradient, double rate) {
                  optimizer.step(parameters, gradient, rate);
                }) {}

StepResult WholeStep::measure(const StepPasses& passes) {
  StepResult out;
  if (passes.backward) {
    adapter_.zero_gradient();
    out.loss = passes.backward();
  }
  if (passes.seen) passes.seen(out.loss);
  out.grad_norm = learn::clip_gradient(adapter_.flat_gradient(), max_grad_norm_);
  return out;
}

StepResult WholeStep::step(const StepPasses& passes, double learning_rate) {
  StepResult out = measure(passes);
  if (out.is_finite()) update_(adapter_.flat(), adapter_.flat_gradient(), learning_rate);
  return out;
}

std::unique_ptr<StepStrategy> make_step_strategy(const RunView& run, learn::Optimizer& optimizer,
                                                 parallel::Ranks& ranks) {
  adapters::Adapter& adapter = *run.adapter;
  const double max_norm = run.plan.max_grad_norm;
  const DividedState divided = divided_state(run.plan);
  if (run.start.memory.layer_steps)
    return std::make_unique<LayerSteps>(*run.model, adapter, optimizer, max_norm);
  if (divided.divides())
    return std::make_unique<Shards>(ranks, *run.model, adapter, optimizer, divided.stage, max_norm);
  return std::make_unique<WholeStep>(adapter, max_norm, optimizer);
}

}  // namespace hone::train
