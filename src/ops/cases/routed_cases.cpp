#include "ops/cases/case.h"
#include "ops/routed_rows.h"

namespace hone::ops::cases {
namespace routed_cases {

struct Routed {
  std::int64_t tokens, experts, width;
  at::ScalarType dtype, of_weights;
  bool weights, start;
  Layout layout;
};

std::string what(const Routed& r) {
  return std::to_string(r.tokens) + " tokens of " + std::to_string(r.experts) + " rows of " +
         std::to_string(r.width) + ", " + describe(r.dtype) +
         (r.weights ? ", weights " + describe(r.of_weights) : "") + (r.start ? ", start, " : ", ") +
         describe(r.layout);
}

// Row t * experts + s of the matrix belongs to some token.
at::Tensor places(const Routed& r) {
  return (at::arange(r.tokens * r.experts, at::kLong) * 7 + 3)
      .remainder(std::max<std::int64_t>(1, r.tokens * r.experts))
      .view({r.tokens, r.experts});
}

at::Tensor matrix(const Routed& r) {
  return noise({r.tokens * r.experts, r.width}, 2, r.dtype);
}

Case sum_of(const Routed& r) {
  return of_rows({.op = "sum_routed_rows",
                  .what = what(r),
                  .make =
                      [=] {
                        Tensors t{unwritten({r.tokens, r.width}, r.dtype),
                                  r.start ? noise({r.tokens, r.width}, 3, r.dtype) : at::Tensor(), places(r)};
                        t.push_back(r.weights ? noise({r.tokens, r.experts}, 4, r.of_weights) : at::Tensor());
                        return t;
                      },
                  .call =
                      [=](const Tensors& t, at::Device device) {
                        const Placed rows(matrix(r), device, r.layout);
                        sum_routed_rows(t[0], rows.view(), t[2], t[3], t[1]);
                        return Tensors();
                      },
                  .exact =
                      [=](const Tensors& t) {
                        at::Tensor terms = wide(matrix(r)).index_select(0, t[2].reshape({-1}));
                        terms = terms.view({r.tokens, r.experts, r.width});
                        if (r.weights) terms = terms * t[3].unsqueeze(2);
                        return Tensors{r.start ? terms.sum(1) + t[1] : terms.sum(1)};
                      },
                  .bounds = {bound_of(r.dtype, 1e-6, 3 * kOneRounding)},
                  .layout = r.layout,
                  .dense_from = 2,
                  .promises = r.dtype != at::kDouble});
}

Case weighed_of(const Grid& grid, at::ScalarType dtype) {
  return of_rows({.op = "weigh_rows",
                  .what = describe(grid) + ", " + describe(dtype),
                  .make =
                      [=] {
                        return Tensors{unwritten({grid.rows, grid.width}, dtype),
                                       noise({grid.rows, grid.width}, 3, dtype), noise({grid.rows}, 4)};
                      },
                  .call =
                      [=](const Tensors& t, at::Device /*device*/) {
                        weigh_rows(t[0], t[1], t[2]);
                        return Tensors();
                      },
                  .exact = [=](const Tensors& t) { return Tensors{t[1] * t[2].unsqueeze(1)}; },
                  .bounds = {bound_of(dtype, 1e-6, kOneRounding)},
                  .layout = grid.layout,
                  .dense_from = 2,
                  .promises = dtype != at::kDouble});
}

Case weigh_of(const Grid& grid, at::ScalarType dtype) {
  return of_rows(
      {.op = "weigh_rows_backward",
       .what = describe(grid) + ", " + describe(dtype),
       .make =
           [=] {
             return Tensors{noise({grid.rows, grid.width}, 2, dtype),
                            noise({grid.rows, grid.width}, 3, dtype), noise({grid.rows}, 4)};
           },
       .call = [=](const Tensors& t,
                   at::Device /*device*/) { return Tensors{weigh_rows_backward(t[0], t[1], t[2])}; },
       .exact = [=](const Tensors& t) { return Tensors{t[0] * t[2].unsqueeze(1), (t[0] * t[1]).sum(1)}; },
       .bounds = {bound_of(dtype, 1e-6, kOneRounding), 2e-6},
       .layout = grid.layout,
       .dense_from = 2,
       .promises = dtype != at::kDouble});
}

}  // namespace routed_cases

void add_routed_cases(Cases& all) {
  using namespace routed_cases;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const Grid& grid : row_grid()) {
      if (grid.rows < 4096) all.push_back(weigh_of(grid, dtype));
      all.push_back(weighed_of(grid, dtype));
    }
    for (const bool start : {false, true}) {
      all.push_back(sum_of({7, 3, 75, dtype, at::kFloat, true, start, Layout::kStrided}));
      all.push_back(sum_of({7, 3, 75, dtype, at::kFloat, false, start, Layout::kUnaligned}));
      all.push_back(sum_of({33, 4, 896, dtype, at::kBFloat16, true, start, Layout::kDense}));
      all.push_back(sum_of({1, 8, 2048, dtype, at::kFloat, true, start, Layout::kDense}));
    }
    all.push_back(sum_of({257, 2, 64, dtype, at::kFloat, true, true, Layout::kStrided}));
    all.push_back(sum_of({0, 2, 64, dtype, at::kFloat, true, true, Layout::kDense}));
  }
  all.push_back(weigh_of(few_rows()[1], at::kDouble));
  all.push_back(sum_of({7, 3, 75, at::kDouble, at::kFloat, true, true, Layout::kStrided}));
}

}  // namespace hone::ops::cases
