#include "ops/routed_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <vector>

#include "ops/backend/reference/reference.h"
#include "ops/index_tensor.h"

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

namespace reference {

void sum_routed_rows(const Tensor& out, const Tensor& rows, const Tensor& place, const Tensor& weights,
                     const Tensor& start) {
  out.copy_(routed_sum(rows, place, weights, start));
}

void weigh_rows(const Tensor& out, const Tensor& x, const Tensor& weights) {
  out.copy_(x * weights.unsqueeze(1));
}

void weigh_rows_backward(const Tensor& d, const Tensor& x, const Tensor& weights, const Tensor& sums) {
  constexpr std::int64_t kRows = 512;  // at once: what is between the operators stays small
  const at::ScalarType inside = at::promote_types(d.scalar_type(), at::kFloat);
  for (std::int64_t first = 0; first < d.size(0); first += kRows) {
    const std::int64_t count = std::min(kRows, d.size(0) - first);
    Tensor part = d.narrow(0, first, count);
    const Tensor wide = part.to(inside);
    sums.narrow(0, first, count).copy_((wide * x.narrow(0, first, count)).sum(1));
    part.copy_(wide * weights.narrow(0, first, count).unsqueeze(1));
  }
}

void gather_rows(const Tensor& out, const Tensor& table, const Tensor& ids) {
  const at::NoGradGuard no_grad;
  if (out.scalar_type() == table.scalar_type()) {
    Tensor rows = out;
    at::index_select_out(rows, table, 0, ids);
  } else {
    out.copy_(table.index_select(0, ids));
  }
}

// On a GPU without a kernel of our own, libtorch's operator adds rows that meet in an order that depends on time.
void add_rows(const Tensor& out, const Tensor& d, std::span<const std::int64_t> rows,
              std::span<const std::int64_t> from) {
  const auto index = [&](std::span<const std::int64_t> all) {
    return index_tensor(std::vector<std::int64_t>(all.begin(), all.end()), out.device());
  };
  const Tensor some = from.empty() ? d : d.index_select(0, index(from));
  Tensor(out).index_add_(0, index(rows), some.to(at::kFloat));
}

void copy_blocks(std::span<const BlockCopy> all) {
  for (const BlockCopy& one : all) {
    Tensor out = one.out;
    one.add ? out.add_(one.x) : out.copy_(one.x);
  }
}

}  // namespace reference
}  // namespace hone::ops
