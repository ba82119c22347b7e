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

Weight Weight::slice(std::int64_t begin, std::int64_t end) const {
  base::require(begin % kPanelRows == 0 && (end % kPanelRows == 0 || end == out_) && begin >= 0 &&
                    begin <= end && end <= out_,
                "ops::Weight::slice", "whole panels");
  if (!is_packed()) return {plain().narrow(0, begin, end - begin)};
  const std::int64_t panel = kPanelRows * ((in_ + 1) / 2 * 2);
  const std::int64_t first = begin / kPanelRows, last = (end + kPanelRows - 1) / kPanelRows;
  Weight part;
  part.panels_ = panels_.narrow(0, first * panel, (last - first) * panel);
  part.out_ = end - begin;
  part.in_ = in_;
  return part;
}

at::Tensor Weight::rows(const at::Tensor& ids) const {
  return at::embedding(plain(), ids);
}

}  // namespace hone::ops
