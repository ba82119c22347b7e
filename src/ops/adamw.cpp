#include "ops/adamw.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"
#include "ops/dynamic_codes.h"

namespace hone::ops {
namespace {

void require_flat(const at::Tensor& x, const char* where) {
  base::require(x.defined() && x.dim() == 1 && x.scalar_type() == at::kFloat && x.is_contiguous(), where,
                "flat contiguous fp32 tensors");
}

}  // namespace

void adamw(const AdamwStep& step) {
  for (const at::Tensor* x : {&step.p, &step.g, &step.m, &step.v}) {
    require_flat(*x, "ops::adamw");
    base::require(x->numel() == step.p.numel(), "ops::adamw", "tensors of one size");
  }
  backend::run(step.p.device(), &backend::Operators::adamw, reference::adamw, step);
}

void adamw_codes(const AdamwCodesStep& step) {
  constexpr const char* kWhere = "ops::adamw_codes";
  const std::int64_t size = step.p.numel(), blocks = (size + kCodeBlock - 1) / kCodeBlock;
  for (const at::Tensor* x : {&step.p, &step.g, &step.codes1, &step.codes2})
    base::require(x->dim() == 1 && x->numel() == size && x->is_contiguous(), kWhere,
                  "flat tensors of one size");
  base::require(step.scales1.numel() == blocks && step.scales2.numel() == blocks, kWhere, "a scale a block");
  backend::run(step.p.device(), &backend::Operators::adamw_codes, reference::adamw_codes, step);
}

void block_sums_of_squares_into(at::Tensor sums, const at::Tensor& x) {
  require_flat(x, "ops::block_sums_of_squares");
  base::require(sums.scalar_type() == at::kDouble && sums.device() == x.device() && sums.is_contiguous() &&
                    sums.numel() == (x.numel() + kSumBlock - 1) / kSumBlock,
                "ops::block_sums_of_squares", "fp64 sums of the blocks on x's device");
  backend::run(x.device(), &backend::Operators::block_sums_of_squares, reference::block_sums_of_squares, sums,
               x);
}

at::Tensor block_sums_of_squares(const at::Tensor& x) {
  const at::Tensor sums =
      at::empty({(x.numel() + kSumBlock - 1) / kSumBlock}, x.options().dtype(at::kDouble));
  block_sums_of_squares_into(sums, x);
  return sums.cpu();
}

void scale(at::Tensor x, float factor) {
  require_flat(x, "ops::scale");
  backend::run(x.device(), &backend::Operators::scale, reference::scale, x, factor);
}

}  // namespace hone::ops
