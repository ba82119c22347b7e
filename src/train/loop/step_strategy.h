// One optimizer step, in the three forms that a run can have: the gradients are whole (here), divided among ranks
// (train/loop/shards.h), or there for one layer at a time (train/loop/layer_steps.h). Whoever makes steps gives the passes and a
// rate; the loop, lr-find and the doctor's probes do so.
//
//   const std::unique_ptr<StepStrategy> steps = make_step_strategy(run, optimizer, ranks);
//   const StepResult done = steps->step({.backward = [&] { return method.backward(index); }}, rate);
//   if (!done.is_finite()) ...  // the step was not applied
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "adapters/lora.h"
#include "learn/optimizer.h"
#include "parallel/ranks.h"
#include "train/loop/shared_work.h"
#include "train/loop/training_method.h"

namespace hone::train {

class Shards;  // train/loop/shards.h
struct RunView;

// Holds what a step is made of.
struct StepPasses {
  // Adds the step's gradients to the adapter's, which are cleared before. A pure function of the parameters: it is
  // called twice where the optimizer steps in the backward and the gradient is clipped. Empty, for WholeStep: the
  // adapter has the gradients.
  std::function<StepLoss()> backward;
  // Called when the gradients are complete; the gradients and parameters are then as RunGuard::on_backward says.
  std::function<void(const StepLoss&)> seen = {};
};

struct StepResult {
  StepLoss loss;
  double grad_norm = 0;  // before clipping
  bool changed = false;  // the result is not finite, and some parameters have taken the step
  bool is_finite() const;
};

class StepStrategy {
 public:
  virtual ~StepStrategy() = default;
  // The passes, the norm of their gradient, clipping, and, where loss and norm are finite, the update. An error of
  // the passes is thrown on.
  virtual StepResult step(const StepPasses& passes, double learning_rate) = 0;
  // The same without the update. Gradients of WholeStep and Shards are then clipped.
  virtual StepResult measure(const StepPasses& passes) = 0;

  // An error ended step() when some parameters had taken the step: they are never saved.
  virtual bool is_half_done() const { return false; }
  // Returns whether a request to stop may end the passes in the middle of a step.
  virtual bool can_be_cut() const { return true; }
  // After a result that is not finite: the adapter holds gradients, for replays of single samples. False: they stay
  // divided among ranks.
  virtual bool end_with_gradients() { return true; }

  // Whether every rank has all parameters; else rank 0 reads them in reading() after read_all_parameters().
  virtual bool divides_parameters() const { return false; }
  virtual void read_all_parameters() {}
  // Calls `read` on rank 0, which then reads what other ranks keep; all ranks call this.
  virtual void reading(const parallel::Ranks& ranks, const std::function<void()>& read) {
    if (ranks.leads()) read();
  }
  // Returns what ranks divide; null: every rank has all of it.
  virtual Shards* shards() { return nullptr; }
};

// One step on the adapter's whole gradient.
class WholeStep final : public StepStrategy {
 public:
  // As learn::Optimizer::step.
  using Update =
      std::function<void(const at::Tensor& parameters, const at::Tensor& gradient, double learning_rate)>;
  WholeStep(adapters::Adapter& adapter, double max_grad_norm, Update update);
  WholeStep(adapters::Adapter& adapter, double max_grad_norm, learn::Optimizer& optimizer);

  StepResult step(const StepPasses& passes, double learning_rate) override;
  StepResult measure(const StepPasses& passes) override;

 private:
  adapters::Adapter& adapter_;
  double max_grad_norm_;
  Update update_;
};

// The form that the run's plan and memory plan ask for. All must outlive it.
std::unique_ptr<StepStrategy> make_step_strategy(const RunView& run, learn::Optimizer& optimizer,
                                                 parallel::Ranks& ranks);

}  // namespace hone::train
