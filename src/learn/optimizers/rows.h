// An optimizer is a row: the sizes of its state, and its formula on one part of the flat buffer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "learn/optimizer.h"

namespace hone::learn {

// Says what a formula is called with.
enum class Units {
  kRanges,   // everything with the same weight decay, as [n]; the formula uses the threads itself
  kBlocks,   // parts of that, of a fixed size; each by one thread
  kTensors,  // each tensor in its own shape, by one thread
  kCodes,  // as kTensors; since it reads no shape, other devices get neighbors with states of one kind together, and
           // parts of a tensor that end with a state's block (kStateBlock)
};

struct StepNumbers {
  const OptimizerOptions& options;
  const OptimizerArguments& arguments;
  double weight_decay = 0;  // 0 for a part that does not decay
  double learning_rate = 0;
  std::int64_t step = 0;  // from 1
};

struct StateSize {
  std::string_view name;
  std::int64_t size = 0;
  at::ScalarType dtype = at::kFloat;
};

struct OptimizerRow {
  OptimizerKind kind;
  std::string_view name;
  Units units;
  // The state that belongs to a tensor, the same names for every tensor. For kRanges and kBlocks each has 0 or
  // as many elements as the tensor.
  std::vector<StateSize> (*state_of)(const OptimizerOptions& options, const FlatTensor& tensor);
  // Updates p, of one dtype with g: fp32, or fp64 for a reference. state[k]: the unit's part of the state k,
  // flat; floating ones in p's dtype.
  void (*apply)(const StepNumbers& numbers, at::Tensor p, const at::Tensor& g,
                std::vector<at::Tensor>& state);
};

extern const OptimizerRow kAdamWRow, kAdamW8bitRow, kAdafactorRow, kRmspropRow, kSgdRow, kAdagradRow,
    kLionRow, kLion8bitRow;
const OptimizerRow& optimizer_row(OptimizerKind kind);

}  // namespace hone::learn
