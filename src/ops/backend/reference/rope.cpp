#include "ops/rope.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"
#include "ops/rms_norm.h"

namespace hone::ops {
namespace {

// The rotated columns, and those of x after them.
at::Tensor with_rest(const at::Tensor& rotated, const at::Tensor& x) {
  const std::int64_t width = rotated.size(-1), rest = x.size(-1) - width;
  return rest == 0 ? rotated : at::cat({rotated, x.narrow(-1, width, rest).to(rotated.scalar_type())}, -1);
}

// The gradient of rope_apply's input, from that of its output; in d's dtype.
at::Tensor rotated_back(const at::Tensor& d, const RopeTable& table) {
  const std::int64_t rotated = table.cos.size(1), half = rotated / 2;
  const at::Tensor first = d.narrow(-1, 0, rotated);
  const at::Tensor turned =
      first * table.sin.to(d.scalar_type()).unsqueeze(1);  // rotate_half's transpose follows
  const at::Tensor back = first * table.cos.to(d.scalar_type()).unsqueeze(1) +
                          at::cat({turned.narrow(-1, half, half), -turned.narrow(-1, 0, half)}, -1);
  return with_rest(back, d);
}

}  // namespace

at::Tensor rope_apply(const at::Tensor& x, const RopeTable& table) {
  const std::int64_t width = table.cos.size(1), half = width / 2;
  const at::Tensor first = x.narrow(-1, 0, width);
  const at::Tensor turned = at::cat({-x.narrow(-1, half, half), x.narrow(-1, 0, half)}, -1);
  return with_rest(first * table.cos.unsqueeze(1) + turned * table.sin.unsqueeze(1), x);
}

void norm_rope_weight_gradient(at::Tensor gradient, const at::Tensor& d, const at::Tensor& x, double eps,
                               const RopeTable& table) {
  // at a time: a few temporaries of this many rows
  const std::int64_t rows_at_once = backend::operators_of(x.device()).norm_rows;
  base::require(d.sizes() == x.sizes() && gradient.dim() == 1 && gradient.size(0) == x.size(2),
                "ops::norm_rope_weight_gradient", "d and x [T, N, D], gradient [D]");
  for (std::int64_t begin = 0; begin < x.size(0); begin += rows_at_once) {
    const std::int64_t count = std::min(rows_at_once, x.size(0) - begin);
    const RopeTable rows = {table.cos.narrow(0, begin, count), table.sin.narrow(0, begin, count)};
    const at::Tensor dy = rotated_back(d.narrow(0, begin, count).to(at::kFloat), rows);
    const std::int64_t heads = count * x.size(1);
    rms_norm_weight_gradient(gradient, dy.reshape({heads, x.size(2)}),
                             x.narrow(0, begin, count).reshape({heads, x.size(2)}), eps);
  }
}

namespace reference {

void norm_rope(const Tensor& out, const Tensor& x, const Tensor& norm_weight, double eps,
               const RopeTable& table) {
  const at::ScalarType inside = at::promote_types(x.scalar_type(), at::kFloat);
  const Tensor y = (norm_weight.defined() ? ops::rms_norm(x, norm_weight, eps) : x).to(inside);
  out.copy_(rope_apply(y, {table.cos.to(inside), table.sin.to(inside)}));
}

void norm_rope_backward(const Tensor& d, const Tensor& x, const Tensor& norm_weight, double eps,
                        const RopeTable& table) {
  const at::ScalarType inside = at::promote_types(d.scalar_type(), at::kFloat);
  Tensor g = rotated_back(d.to(inside), table);
  if (norm_weight.defined()) g = rms_gradient(g * norm_weight.to(inside), x.to(inside), eps);
  d.copy_(g);
}

}  // namespace reference
}  // namespace hone::ops
