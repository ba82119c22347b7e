#include "ops/routed_rows.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {

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
  backend::run(out.device(), &backend::Operators::sum_routed_rows, reference::sum_routed_rows, out, rows,
               place, weights, start);
}

void weigh_rows(at::Tensor out, const at::Tensor& x, const at::Tensor& weights) {
  base::require(out.dim() == 2 && out.sizes() == x.sizes() && out.scalar_type() == x.scalar_type(),
                "ops::weigh_rows", "out and x [S, W] of one dtype");
  base::require(weights.dim() == 1 && weights.size(0) == x.size(0) && weights.scalar_type() == at::kFloat,
                "ops::weigh_rows", "weights [S] fp32");
  backend::run(out.device(), &backend::Operators::weigh_rows, reference::weigh_rows, out, x, weights);
}

at::Tensor weigh_rows_backward(at::Tensor d, const at::Tensor& x, const at::Tensor& weights) {
  base::require(d.dim() == 2 && d.sizes() == x.sizes() && d.scalar_type() == x.scalar_type(),
                "ops::weigh_rows_backward", "d and x [S, W] of one dtype");
  base::require(weights.dim() == 1 && weights.size(0) == d.size(0) && weights.scalar_type() == at::kFloat,
                "ops::weigh_rows_backward", "weights [S] fp32");
  at::Tensor sums = at::empty(weights.sizes(), weights.options());
  backend::run(d.device(), &backend::Operators::weigh_rows_backward, reference::weigh_rows_backward, d, x,
               weights, sums);
  return sums;
}

at::Tensor gather_rows(const at::Tensor& table, const at::Tensor& ids, at::ScalarType dtype) {
  base::require(
      table.dim() == 2 && ids.dim() == 1 && ids.scalar_type() == at::kLong && ids.device() == table.device(),
      "ops::gather_rows", "table [V, W], and ids [T] int64 on its device");
  at::Tensor out = at::empty({ids.size(0), table.size(1)}, table.options().dtype(dtype));
  backend::run(table.device(), &backend::Operators::gather_rows, reference::gather_rows, out, table, ids);
  return out;
}

void add_rows(at::Tensor out, const at::Tensor& d, std::span<const std::int64_t> rows,
              std::span<const std::int64_t> from) {
  constexpr const char* kWhere = "ops::add_rows";
  base::require(out.dim() == 2 && d.dim() == 2 && out.size(1) == d.size(1) && out.scalar_type() == at::kFloat,
                kWhere, "out [V, W] fp32 and d [T, W]");
  base::require(
      from.empty() ? static_cast<std::int64_t>(rows.size()) == d.size(0) : rows.size() == from.size(), kWhere,
      "a row of d for each of out's");
  const auto within = [](std::span<const std::int64_t> all, std::int64_t count) {
    return std::all_of(all.begin(), all.end(), [=](std::int64_t one) { return one >= 0 && one < count; });
  };
  base::require(within(rows, out.size(0)) && within(from, d.size(0)), kWhere, "rows of out and d");
  if (rows.empty()) return;
  backend::run(out.device(), &backend::Operators::add_rows, reference::add_rows, out, d, rows, from);
}

void copy_blocks(std::span<const BlockCopy> all) {
  if (all.empty()) return;
  for (const BlockCopy& one : all)
    base::require(one.out.dim() == 2 && one.out.sizes() == one.x.sizes() &&
                      one.out.device() == all.front().out.device() && one.x.device() == one.out.device(),
                  "ops::copy_blocks", "matrices of one device, x of out's shape");
  backend::run(all.front().out.device(), &backend::Operators::copy_blocks, reference::copy_blocks, all);
}

bool copies_blocks(at::Device device) {
  return backend::operators_of(device).copy_blocks != nullptr;
}

}  // namespace hone::ops
