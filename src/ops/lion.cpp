#include "ops/lion.h"

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"
#include "ops/dynamic_codes.h"

namespace hone::ops {
namespace {

void require_flat(const at::Tensor& x, const at::Tensor& p, const char* where) {
  base::require(x.defined() && x.dim() == 1 && x.numel() == p.numel() && x.is_contiguous(), where,
                "flat contiguous tensors of one size");
}

}  // namespace

void lion(const LionStep& step) {
  for (const at::Tensor* x : {&step.p, &step.g, &step.m}) {
    require_flat(*x, step.p, "ops::lion");
    base::require(x->scalar_type() == step.p.scalar_type(), "ops::lion", "tensors of one dtype");
  }
  backend::run(step.p.device(), &backend::Operators::lion, reference::lion, step);
}

void lion_codes(const LionCodesStep& step) {
  constexpr const char* kWhere = "ops::lion_codes";
  for (const at::Tensor* x : {&step.p, &step.g, &step.codes}) require_flat(*x, step.p, kWhere);
  base::require(step.scales.numel() == (step.p.numel() + kCodeBlock - 1) / kCodeBlock, kWhere,
                "a scale a block");
  backend::run(step.p.device(), &backend::Operators::lion_codes, reference::lion_codes, step);
}

}  // namespace hone::ops
