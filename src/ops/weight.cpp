#include "ops/weight.h"

#include <ATen/ATen.h>

#include "base/error.h"

namespace hone::ops {

Weight::Weight(at::Tensor plain) : plain_(std::move(plain)) {
  if (!plain_.defined()) return;
  base::require(plain_.dim() == 2, "ops::Weight", "a matrix");
  out_ = plain_.size(0);
  in_ = plain_.size(1);
}

Weight Weight::pack(const at::Tensor& plain) {
  return {plain};  // the pack comes with gemm_kernels.cpp
}

bool Weight::can_pack(const at::Tensor&) {
  return false;
}

at::ScalarType Weight::dtype() const {
  return plain().scalar_type();
}

std::int64_t Weight::bytes() const {
  return static_cast<std::int64_t>(plain().nbytes());
}

const at::Tensor& Weight::plain() const {
  base::require(plain_.defined(), "ops::Weight", "a plain matrix");
  return plain_;
}

const at::Tensor& Weight::panels() const {
  base::require(panels_.defined(), "ops::Weight", "a packed matrix");
  return panels_;
}

at::Tensor Weight::dense() const {
  return plain();
}

at::Tensor Weight::rows(const at::Tensor& ids) const {
  return at::embedding(plain(), ids);
}

}  // namespace hone::ops
