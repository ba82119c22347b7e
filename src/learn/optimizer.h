// The optimizer of a run, on one flat fp32 buffer of parameters: which formula, its state, one step.
//
//   Optimizer optimizer(options, flat_layout(tensors), device);
//   optimizer.step(parameters, gradient, learning_rate);
//
// The formulas are in optimizers/, one file each, and equal those of the libraries that transformers' Trainer
// uses (tests/parity/optimizers_test.cpp). All state is fp32, but the codes of the 8-bit forms. No bit depends
// on the number of threads; those of other formulas than AdamW's may depend on the machine's vector
// instructions, because they are libtorch's operators. On other devices than the CPU a step waits for nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "learn/optimizer_options.h"

namespace hone::learn {

inline constexpr std::int64_t kNoPart = -1;

// A tensor in the flat buffer.
struct FlatTensor {
  std::string name;  // PEFT's key
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0, size = 0;  // elements
  bool decays = true;                 // weight_decay applies; as in Trainer.get_decay_parameter_names
  bool is_embedding = false;          // its state is never 8-bit, as in Trainer.create_optimizer
  std::int64_t part = kNoPart;        // step_part() takes neighboring tensors of one part: those of a layer
};
using FlatLayout = std::vector<FlatTensor>;
// Names and shapes, in the buffer's order.
FlatLayout flat_layout(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors);

// A tensor of the state: the parts that belong to each tensor of the layout, in its order.
struct StateTensor {
  std::string name;  // as in a checkpoint: "exp_avg"
  at::Tensor value;  // [its size], fp32 or uint8
};

// Elements [begin, end) of the flat buffer.
struct FlatRange {
  std::int64_t begin = 0, end = 0;
};

// Says where an optimizer that divides() keeps its state, on the CPU.
struct StatePlace {
  // These elements alone, which ascend, are stepped and restored, and alone need memory for their state; they may be none.
  // Without a list: all, and nothing else here is read. With one step_part() and reference() are not to be called.
  std::optional<std::vector<FlatRange>> held;
  // The state is in a file of this folder, and in memory for the time of a range's step; empty: in memory.
  base::fs::path offload;
};

struct OptimizerRow;  // optimizers/rows.h

class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, FlatLayout layout, at::Device device, StatePlace place = {});
  Optimizer(Optimizer&&) = default;
  Optimizer& operator=(Optimizer&&) = default;

  std::string name() const;  // "adamw", "adamw_8bit", ...: that of a checkpoint
  // One step in place. Both [P] fp32, contiguous, on the optimizer's device.
  void step(const at::Tensor& parameters, const at::Tensor& gradient, double learning_rate);
  // The same step, with the same bits, in parts of the layout, each once and in any order: of `parameters` [P] the
  // elements [offset, offset + gradient's size), which begin and end with parts.
  void begin_step() { steps_ += 1; }
  void step_part(const at::Tensor& parameters, std::int64_t offset, const at::Tensor& gradient,
                 double learning_rate);
  // Returns what the next step() makes of tensor `index`, in fp64, [its size]; changes nothing.
  at::Tensor reference(std::size_t index, const at::Tensor& parameters, const at::Tensor& gradient,
                       double learning_rate) const;

  const std::vector<FlatRange>& held() const { return held_; }  // StatePlace::held
  bool is_offloaded() const { return offloaded_; }
  // An offloaded state was read from outside, and leaves memory again; else nothing.
  void rest() const;

  std::int64_t steps() const { return steps_; }
  const std::vector<StateTensor>& state() const { return state_; }  // those that have elements
  std::int64_t state_bytes() const;                                 // of what is held
  std::int64_t memory_bytes() const;                                // of these, in memory at once
  // The state that a checkpoint holds, in this order of tensors; on any device.
  void restore(std::int64_t steps, const std::vector<at::Tensor>& state);

  const FlatLayout& layout() const { return layout_; }
  const OptimizerOptions& options() const { return options_; }
  // An element's update has about the size of the learning rate, whatever the gradient's (not so for sgd).
  bool normalizes() const { return options_.kind != OptimizerKind::kSgd; }
  // The update is the sign of a sum, which rounding may turn.
  bool takes_signs() const;

 private:
  // Holds what one call of the formula updates, and its parts of the states.
  struct Unit {
    std::int64_t offset = 0, size = 0;
    std::vector<std::int64_t> shape, state_offset, state_size;
    bool decays = true;
  };
  void make_units();
  static Unit cut_codes(const Unit& unit, std::int64_t begin, std::int64_t size);
  std::vector<Unit> code_ranges() const;
  void step_held(const at::Tensor& parameters, const at::Tensor& gradient, double learning_rate);
  void leave_memory(const FlatRange& range) const;
  // `gradient` is that of the parameters from `offset` on.
  void run(const Unit& unit, const at::Tensor& parameters, std::int64_t offset, const at::Tensor& gradient,
           double learning_rate) const;
  void run_all(const std::vector<const Unit*>& units, const at::Tensor& parameters, std::int64_t offset,
               const at::Tensor& gradient, double learning_rate) const;

  const OptimizerRow* row_;
  OptimizerOptions options_;
  at::Device device_;
  FlatLayout layout_;
  std::vector<Unit> tensors_, units_;  // one for each tensor of the layout; those of a step
  std::vector<StateTensor> all_;       // every state of the row, also those without elements
  std::vector<StateTensor> state_;
  std::vector<FlatRange> held_;
  bool divided_ = false, offloaded_ = false;  // divided_: held_ counts
  std::int64_t steps_ = 0;
};

}  // namespace hone::learn
