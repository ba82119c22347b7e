// Groups of rows, by products of one group after another: the host has to know where they end.
#include <ATen/ATen.h>

#include "ops/backend/reference/reference.h"

namespace hone::ops::reference {
namespace {

// work(group, first row, rows) of each group that has rows.
template <typename Work>
void each_group(const Tensor& ends, const Work& work) {
  const Tensor host = ends.cpu();
  const std::int32_t* const end = host.const_data_ptr<std::int32_t>();
  for (std::int64_t e = 0, begin = 0; e < host.size(0); begin = end[e++]) {
    if (end[e] > begin) work(e, begin, end[e] - begin);
  }
}

}  // namespace

void grouped_products(Tensor& out, const Tensor& a, const Tensor& right, const Tensor& ends) {
  out = at::empty({a.size(0), right.size(2)}, a.options());
  each_group(ends, [&](std::int64_t group, std::int64_t begin, std::int64_t rows) {
    Tensor part = out.narrow(0, begin, rows);
    at::mm_out(part, a.narrow(0, begin, rows), right.select(0, group));
  });
}

void grouped_outers(Tensor& out, const Tensor& left, const Tensor& right, const Tensor& ends) {
  const at::ScalarType inside = at::promote_types(left.scalar_type(), at::kFloat);
  out = at::zeros({ends.size(0), left.size(1), right.size(1)}, left.options().dtype(inside));
  each_group(ends, [&](std::int64_t group, std::int64_t begin, std::int64_t rows) {
    Tensor part = out.select(0, group);
    at::mm_out(part, left.narrow(0, begin, rows).t().to(inside), right.narrow(0, begin, rows).to(inside));
  });
}

}  // namespace hone::ops::reference
