#include "ops/routed_rows.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "ops/cpu/row_call.h"

namespace hone::ops {

at::Tensor routed_sum(const at::Tensor& rows, const at::Tensor& place, const at::Tensor& weights,
                      const at::Tensor& start) {
  const at::ScalarType inside = at::promote_types(rows.scalar_type(), at::kFloat);
  at::Tensor sum = start.defined() ? start.to(inside) : at::Tensor();
  for (std::int64_t s = 0; s < place.size(1); ++s) {
    at::Tensor term = rows.index_select(0, place.select(1, s));
    if (weights.defined()) term = term * weights.select(1, s).unsqueeze(1);
    sum = sum.defined() ? sum + term.to(inside) : term.to(inside);
  }
  return sum;
}

void sum_routed_rows(at::Tensor out, const at::Tensor& rows, const at::Tensor& place,
                     const at::Tensor& weights, const at::Tensor& start) {
  constexpr const char* kWhere = "ops::sum_routed_rows";
  base::require(place.dim() == 2 && place.size(1) > 0 && place.scalar_type() == at::kLong, kWhere,
                "place [T, k] int64");
  base::require(
      rows.dim() == 2 && out.dim() == 2 && out.size(0) == place.size(0) && out.size(1) == rows.size(1),
      kWhere, "rows [S, W] and out [T, W]");
  base::require(!weights.defined() || weights.sizes() == place.sizes(), kWhere, "weights [T, k]");
  base::require(!start.defined() || start.sizes() == out.sizes(), kWhere, "start [T, W]");
  const at::Tensor &other = start.defined() ? start : rows, &factors = weights.defined() ? weights : rows;
  if (!rows_fit({&out, &rows, &other, &factors}) || out.scalar_type() != rows.scalar_type() ||
      other.scalar_type() != rows.scalar_type()) {
    out.copy_(routed_sum(rows, place, weights, start));
    return;
  }
  const at::Tensor held = place.contiguous();
  const GatherArgs args = {.rows = rows_in(rows),
                           .start = start.defined() ? rows_in(start) : RowsIn{},
                           .weights = weights.defined() ? rows_in(weights) : RowsIn{},
                           .place = held.const_data_ptr<std::int64_t>(),
                           .count = held.size(1),
                           .out = rows_out(out),
                           .width = rows.size(1)};
  const RowKernels& kernels = row_kernels();
  over_rows(out.size(0), held.size(1) * rows.size(1),
            [&](std::int64_t begin, std::int64_t end) { kernels.gather(args, begin, end); });
}

at::Tensor weigh_rows_backward(at::Tensor d, const at::Tensor& x, const at::Tensor& weights) {
  base::require(d.dim() == 2 && d.sizes() == x.sizes() && d.scalar_type() == x.scalar_type(),
                "ops::weigh_rows_backward", "d and x [S, W] of one dtype");
  base::require(weights.dim() == 1 && weights.size(0) == d.size(0) && weights.scalar_type() == at::kFloat,
                "ops::weigh_rows_backward", "weights [S] fp32");
  if (!rows_fit({&d, &x, &weights})) {
    constexpr std::int64_t kRows = 512;  // at once: what is between the operators stays small
    const at::ScalarType inside = at::promote_types(d.scalar_type(), at::kFloat);
    at::Tensor sums = at::empty_like(weights);
    for (std::int64_t first = 0; first < d.size(0); first += kRows) {
      const std::int64_t count = std::min(kRows, d.size(0) - first);
      at::Tensor part = d.narrow(0, first, count);
      const at::Tensor wide = part.to(inside);
      sums.narrow(0, first, count).copy_((wide * x.narrow(0, first, count)).sum(1));
      part.copy_(wide * weights.narrow(0, first, count).unsqueeze(1));
    }
    return sums;
  }
  const at::Tensor held = weights.contiguous(), sums = at::empty_like(held);
  const WeighArgs args = {.x = rows_in(x),
                          .d = rows_out(d),
                          .weights = held.const_data_ptr<float>(),
                          .sums = sums.mutable_data_ptr<float>(),
                          .width = x.size(1)};
  const RowKernels& kernels = row_kernels();
  over_rows(x.size(0), x.size(1),
            [&](std::int64_t begin, std::int64_t end) { kernels.weigh(args, begin, end); });
  return sums;
}

}  // namespace hone::ops
