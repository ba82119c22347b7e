// The optimizer's step inside the backward of full fine-tuning, layer by layer: the gradients of a layer are measured or
// applied as soon as they are complete, and the next layer's take their memory. The gradients of what is outside the
// layers (embedding, final norm, head, score head) are kept to the end of the backward, and applied last.
//
// Parameters, moments and norm get the bits of clip_gradient() and Optimizer::step() on a whole gradient: the same
// backward, and the same operations on each element. Clipping multiplies by a number that depends on every gradient, so
// it takes two backwards. A step is one pass: no gradient accumulation. Without clipping each layer waits for the device,
// and where a gradient is found that is not finite, what was applied before it stays applied.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "adapters/lora.h"
#include "learn/adamw.h"
#include "learn/optimizer.h"
#include "model/causal_lm.h"
#include "model/pass_observer.h"
#include "train/loop/step_strategy.h"
#include "train/passes/flat_parts.h"

namespace hone::train {

class LayerSteps final : public model::PassObserver, public StepStrategy {
 public:
  // Releases the adapter's gradients, which are not there afterwards either (Adapter::hold_gradient). All three must
  // outlive it.
  LayerSteps(model::CausalLm& model, adapters::Adapter& adapter, learn::Optimizer& optimizer,
             double max_grad_norm);
  ~LayerSteps() override;
  LayerSteps(const LayerSteps&) = delete;
  LayerSteps& operator=(const LayerSteps&) = delete;

  StepResult step(const StepPasses& passes, double learning_rate) override;
  StepResult measure(const StepPasses& passes) override;
  bool is_half_done() const override { return applied_; }
  bool can_be_cut() const override { return false; }
  bool end_with_gradients() override;

  void before_backward(std::size_t layer) override;
  void after_backward(std::size_t layer) override;

 private:
  struct Part : FlatPart {
    at::Tensor gradient;  // [size]: of a layer a part of layer_gradient_
    bool taken = false;
  };
  struct NotFinite {};  // thrown in the backward, and caught in run()
  void begin(std::optional<double> rate, std::optional<float> factor);
  StepResult run(const StepPasses& passes);
  double finish();
  void let_go();
  Part* part_of(std::size_t layer);
  void lend(const Part& part);
  void take(Part& part);

  model::CausalLm& model_;
  adapters::Adapter& adapter_;
  learn::Optimizer& optimizer_;
  double max_grad_norm_;
  std::vector<Part> parts_;
  at::Tensor layer_gradient_;  // [the largest layer]
  std::optional<learn::GradientNorm> norm_;
  std::optional<double> rate_;   // of a backward that applies; empty: it only measures
  std::optional<float> factor_;  // of its gradients
  bool applied_ = false;         // some parameters have taken the step, others have not
};

}  // namespace hone::train
