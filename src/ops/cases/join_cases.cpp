#include "ops/backend/join_attention.h"
#include "ops/cases/case.h"

namespace hone::ops::cases {
namespace join_cases {

using backend::AttentionParts;

struct Joined {
  std::int64_t tokens, heads, dim;
  at::ScalarType dtype;
  bool some;  // every third row has a prefix, the last one first
  Layout layout;
};

std::string what(const Joined& j) {
  return std::to_string(j.tokens) + " x " + std::to_string(j.heads) + " heads of " + std::to_string(j.dim) +
         ", " + describe(j.dtype) + (j.some ? ", some, " : ", all, ") + describe(j.layout);
}

at::Tensor rows_of(const Joined& j) {
  std::vector<int> rows;
  for (std::int64_t i = j.tokens - 1; j.some && i >= 0; i -= 3) rows.push_back(static_cast<int>(i));
  return j.some ? at::tensor(rows, at::kInt) : at::Tensor();
}

// Sums of very different sizes; of all rows every fifth has no keys in its second part.
AttentionParts parts_of(const Joined& j) {
  const at::Tensor rows = rows_of(j);
  const std::int64_t n = j.some ? rows.numel() : j.tokens;
  AttentionParts out{.own = noise({j.tokens, j.heads, j.dim}, 1, j.dtype),
                     .own_lse = noise({j.heads, j.tokens}, 2) * 9,
                     .part = noise({n, j.heads, j.dim}, 3, j.dtype),
                     .part_lse = noise({j.heads, n}, 4) * 9,
                     .rows = rows,
                     .may_be_empty = !j.some};
  for (std::int64_t i = 0; out.may_be_empty && i < n; i += 5) {
    out.part.select(0, i).zero_();
    out.part_lse.select(1, i).fill_(INFINITY);
  }
  return out;
}

// What other rows have stays.
at::Tensor before(const Joined& j, bool lse) {
  const at::Tensor all = lse ? noise({j.tokens, j.heads}, 5) : noise({j.tokens, j.heads, j.dim}, 6, j.dtype);
  return j.some ? all : unwritten(all.sizes(), all.scalar_type());
}

Case joined(const Joined& j) {
  Case one{.op = "join_attention", .what = what(j), .bounds = {bound_of(j.dtype, 2e-6, kOneRounding), 1e-6}};
  one.run = [=](at::Device device) {
    AttentionParts x = parts_of(j);
    const Placed out(before(j, false), device, j.layout), lse(before(j, true), device, j.layout);
    x.out = out.view();
    x.lse = lse.view();
    for (at::Tensor* moved : {&x.own, &x.own_lse, &x.part, &x.part_lse, &x.rows})
      if (moved->defined()) *moved = moved->to(device);
    backend::join_attention(x);
    return Tensors{out.taken(), lse.taken()};
  };
  one.exact = [=] {
    const AttentionParts x = parts_of(j);
    const at::Tensor out = wide(before(j, false)), lse = wide(before(j, true));
    for (std::int64_t i = 0; i < x.part.size(0); ++i) {
      const std::int64_t row = j.some ? x.rows[i].item<int>() : i;
      const at::Tensor own = wide(x.own_lse).select(1, row), part = wide(x.part_lse).select(1, i);
      const at::Tensor other = part.masked_fill(part.isinf(), -INFINITY), both = at::logaddexp(own, other);
      out.select(0, row).copy_(wide(x.own)[row] * (own - both).exp().unsqueeze(1) +
                               wide(x.part)[i] * (other - both).exp().unsqueeze(1));
      lse.select(0, row).copy_(both);
    }
    return Tensors{out, lse};
  };
  return one;
}

}  // namespace join_cases

void add_join_cases(Cases& all) {
  using namespace join_cases;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const bool some : {false, true}) {
      all.push_back(joined({1, 1, 8, dtype, some, Layout::kDense}));
      all.push_back(joined({7, 3, 40, dtype, some, Layout::kUnaligned}));
      all.push_back(joined({33, 14, 64, dtype, some, Layout::kDense}));
      all.push_back(joined({33, 2, 128, dtype, some, Layout::kStrided}));
    }
  }
}

}  // namespace hone::ops::cases
