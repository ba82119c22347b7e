// What a backend reads and writes of a DeltaState: S = scales * values, in blocks of columns.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/delta_rule.h"

namespace hone::ops {

constexpr std::int64_t kStateColumns = 32;  // of a block of S; the last block is filled with zeros

class DeltaStates {
 public:
  static const at::Tensor& values(const DeltaState& state) {
    return state.values_;
  }  // [V, blocks, D, 32] fp32
  static const at::Tensor& scales(const DeltaState& state) { return state.scales_; }  // [V] fp32
  static at::Tensor last(const DeltaState& state, std::int64_t taps) { return state.inputs_.last(taps - 1); }
  static void append(DeltaState& state, const at::Tensor& rows, const DeltaShape& shape) {
    state.inputs_.append(rows.narrow(1, 0, shape.channels()));
  }
};

}  // namespace hone::ops
