// One pass, forward and backward, of the first layers of a run's model on its device and on the CPU, and which operator of
// the device's table makes them differ. Nothing of the run is touched: both models are read again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/records/record.h"
#include "model/causal_lm.h"
#include "train/opening/run_view.h"
#include "train/passes/batch_pass.h"

namespace hone::doctor {

// Holds what a pass gave, on the host.
struct PassNumbers {
  double loss = 0;  // the mean over scored tokens
  struct Gradient {
    std::string name;   // "model.layers.0.self_attn.q_proj.lora_A"
    at::Tensor values;  // fp32
  };
  std::vector<Gradient> gradients;
};

// Says where two passes differ most, as a share: of the loss, or of the gradient's norm.
struct PassDifference {
  double error = 0, bound = 0;  // error is infinite for what is not finite
  std::string what;             // "the loss", or the gradient's name
  double cpu = 0, device = 0;   // both values: losses, or the number that is furthest off
  bool is_right() const { return error <= bound; }
};

// Compares the CPU's numbers with a device's, computed in bf16 or fp32.
PassDifference difference_of(const PassNumbers& cpu, const PassNumbers& device, bool bf16);

// The first layers with a LoRA of rank 8 on each linear, with dropout; both sides are noise of a fixed seed.
class FirstLayers {
 public:
  FirstLayers(const train::RunView& run, std::int64_t layers, at::Device device);
  PassNumbers pass(const data::Batch& batch);

 private:
  train::PassForm form_;
  std::unique_ptr<model::CausalLm> model_;
};

// As many as are looked at: all of a small model, the first two of another, four where kinds of layers alternate.
std::int64_t looked_at_layers(const model::CausalLm& model);

// Operators of the device's table without which `layers` agrees with `cpu`.
std::vector<std::string> guilty_operators(FirstLayers& layers, at::Device device, const data::Batch& batch,
                                          const PassNumbers& cpu, bool bf16);

}  // namespace hone::doctor
