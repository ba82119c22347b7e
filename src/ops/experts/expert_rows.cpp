#include "ops/experts/expert_rows.h"

#include <ATen/ATen.h>

#include "base/error.h"

namespace hone::ops {

ExpertRows::ExpertRows(const at::Tensor& chosen, std::int64_t experts) : experts_(experts) {
  base::require(chosen.dim() == 2 && chosen.size(1) > 0 && chosen.scalar_type() == at::kLong,
                "ops::ExpertRows", "chosen [T, k] int64");
  at::Tensor order;
  std::tie(sorted_, order) = at::sort(chosen.flatten(), /*stable=*/true, 0, false);
  token_ = at::floor_divide(order, chosen.size(1));
  place_ = at::empty_like(order);
  place_.index_copy_(0, order, at::arange(order.size(0), order.options()));
  place_ = place_.view(chosen.sizes());
}

const at::Tensor& ExpertRows::ends() const {
  if (!ends_.defined()) {
    const at::Tensor all = at::arange(experts_, sorted_.options());
    ends_ = at::searchsorted(sorted_, all, /*out_int32=*/true, /*right=*/true);
  }
  return ends_;
}

const std::vector<std::int64_t>& ExpertRows::begins() const {
  if (!begins_.empty()) return begins_;
  const at::Tensor host = ends().cpu();
  const std::int32_t* const end = host.const_data_ptr<std::int32_t>();
  begins_ = {0};
  for (std::int64_t e = 0; e < experts_; ++e) begins_.push_back(end[e]);
  return begins_;
}

at::Tensor ExpertRows::of(const at::Tensor& x, std::size_t expert) const {
  return x.narrow(0, begins()[expert], rows_of(expert));
}

at::Tensor count_experts(const at::Tensor& chosen, std::int64_t experts) {
  const at::Tensor flat = chosen.flatten();
  return at::zeros({experts}, flat.options()).scatter_add_(0, flat, at::ones_like(flat));
}

}  // namespace hone::ops
