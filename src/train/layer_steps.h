// The optimizer's step inside the backward of full fine-tuning, layer by layer: the gradients of a layer are measured or
// applied as soon as they are complete, and the next layer's take their memory. The gradients of what is outside the
// layers (embedding, final norm, head, score head) are kept to the end of the backward, and applied last.
//
//   LayerSteps steps(model, adapter, optimizer);
//   steps.measure();  method.backward(step);  norm = steps.finish();            // only to clip
//   steps.apply(rate, factor);  method.backward(step);  norm = steps.finish();
//
// Parameters, moments and norm get the bits of clip_gradient() and Optimizer::step() on a whole gradient: the same
// backward, and the same operations on each element. Clipping multiplies by a number that depends on every gradient, so
// it takes two backwards. A step is one pass: no gradient accumulation. Without clipping each layer waits for the device.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "adapters/lora.h"
#include "learn/adamw.h"
#include "learn/optimizer.h"
#include "model/causal_lm.h"
#include "model/pass_observer.h"
#include "train/flat_parts.h"

namespace hone::train {

class LayerSteps final : public model::PassObserver {
 public:
  // A gradient is not finite. What was applied before it stays applied: the parameters are no step's.
  struct NotFinite {};

  // Releases the adapter's gradients, which are not there afterwards either (Adapter::hold_gradient). All three must
  // outlive it.
  LayerSteps(model::CausalLm& model, adapters::Adapter& adapter, learn::Optimizer& optimizer);
  ~LayerSteps() override;
  LayerSteps(const LayerSteps&) = delete;
  LayerSteps& operator=(const LayerSteps&) = delete;

  // What the next backward's gradients are for: their norm; or the norm and the optimizer's step. `factor` multiplies
  // them first (learn::clip_factor()). Where they were not measured before, one that is not finite throws NotFinite.
  void measure();
  void apply(double learning_rate, std::optional<float> factor);
  // After that backward: what is outside the layers, and layers that it did not reach. Returns the norm before clipping.
  double finish();
  // Whether the parameters have changed since apply() or measure().
  bool has_applied() const { return applied_; }

  void before_backward(std::size_t layer) override;
  void after_backward(std::size_t layer) override;

 private:
  struct Part : FlatPart {
    at::Tensor gradient;  // [size]: of a layer a part of layer_gradient_
    bool taken = false;
  };
  void begin();
  Part* part_of(std::size_t layer);
  void lend(const Part& part);
  void take(Part& part);

  model::CausalLm& model_;
  adapters::Adapter& adapter_;
  learn::Optimizer& optimizer_;
  std::vector<Part> parts_;
  at::Tensor layer_gradient_;  // [the largest layer]
  std::optional<learn::GradientNorm> norm_;
  std::optional<double> rate_;  // empty: only measured
  std::optional<float> factor_;
  bool applied_ = false,
       measured_ = false;  // measured_: the gradients of the next apply() are known to be finite
};

}  // namespace hone::train
