#include "ops/backend/join_attention.h"

#include <ATen/ATen.h>

#include <limits>

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {
namespace reference {

void join_attention(const backend::AttentionParts& x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Tensor rows = x.rows.defined() ? x.rows.to(at::kLong) : Tensor();
  const auto of_rows = [&](const Tensor& all, std::int64_t dim) {
    return rows.defined() ? all.index_select(dim, rows) : all;
  };
  const Tensor own_lse = of_rows(x.own_lse, 1);
  const Tensor part_lse =
      x.may_be_empty ? at::nan_to_num(x.part_lse, 0.0, -kInfinity, -kInfinity) : x.part_lse;
  const Tensor share = at::sigmoid(own_lse - part_lse).t().unsqueeze(2);
  const Tensor more = of_rows(x.own, 0).to(at::kFloat).sub_(x.part);
  if (!rows.defined()) {
    Tensor out = x.out;
    at::addcmul_out(out, x.part, more, share);
    if (x.lse.defined()) x.lse.copy_(at::logaddexp(own_lse, part_lse).t());
    return;
  }
  Tensor(x.out).index_copy_(0, rows, at::addcmul(x.part.to(at::kFloat), more, share).to(x.out.scalar_type()));
  if (x.lse.defined()) Tensor(x.lse).index_copy_(0, rows, at::logaddexp(own_lse, part_lse).t());
}

}  // namespace reference

namespace backend {

void join_attention(const AttentionParts& x) {
  constexpr const char* kWhere = "ops::join_attention";
  const std::int64_t tokens = x.part.size(0), heads = x.part.size(1);
  base::require(x.out.sizes() == x.own.sizes() && x.part.sizes().slice(1) == x.own.sizes().slice(1), kWhere,
                "out and own [T, N, D], part [n, N, D]");
  base::require(x.own_lse.sizes() == at::IntArrayRef({heads, x.own.size(0)}) &&
                    x.part_lse.sizes() == at::IntArrayRef({heads, tokens}),
                kWhere, "own_lse [N, T] and part_lse [N, n]");
  base::require(x.rows.defined() ? x.rows.scalar_type() == at::kInt && x.rows.numel() == tokens
                                 : tokens == x.own.size(0),
                kWhere, "rows [n] int32");
  run(x.out.device(), &Operators::join_attention, reference::join_attention, x);
}

}  // namespace backend
}  // namespace hone::ops
