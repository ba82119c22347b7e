// A reference model that follows the policy (TR-DPO, Gorbatovski et al. 2024, arXiv 2404.09656), with the arithmetic of TRL
// 1.16's SyncRefModelCallback. It is a second set of the trained parameters, which passes exchange with the policy's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "config/plan.h"

namespace hone::train {

class MovingReference {
 public:
  // `parameters`: the policy's [P], fp32. `values` [P]: the reference's now, which are rounded to `dtype`, that of its model.
  MovingReference(at::Tensor parameters, at::Tensor values, at::ScalarType dtype,
                  const config::ReferencePlan& plan);

  // `done` steps are done: the reference moves where ref_model_sync_steps divides them.
  void after_step(std::int64_t done);
  // Exchanges the reference's values with the policy's: before a pass of the reference, and again after it.
  void exchange() const;

  const at::Tensor& values() const { return values_; }  // [P] fp32, the policy's while they are exchanged

 private:
  at::Tensor parameters_, values_;
  at::ScalarType dtype_;
  double alpha_;
  std::int64_t steps_;
};

}  // namespace hone::train
