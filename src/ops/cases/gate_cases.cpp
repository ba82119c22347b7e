#include "ops/cases/case.h"
#include "ops/head/soft_cap.h"
#include "ops/sigmoid_gate.h"
#include "ops/swiglu.h"

#include <cmath>
#include <numbers>

namespace hone::ops::cases {
namespace gate_cases {

// Gates of both signs; of the first elements so large that exp() of them has no value.
at::Tensor gate_of(const Grid& grid, at::ScalarType dtype) {
  at::Tensor gate = noise({grid.rows, grid.width}, 2) * 4;
  if (grid.rows > 1) {
    gate.select(1, 0).fill_(200);
    gate.select(0, 0).narrow(0, 0, 1).fill_(-200);
  }
  return gate.to(dtype);
}

at::Tensor activated(const at::Tensor& g, bool gelu_tanh) {
  if (!gelu_tanh) return g / (1 + at::exp(-g));
  const double root = std::sqrt(2 / std::numbers::pi);
  return 0.5 * g * (1 + at::tanh(root * (g + 0.044715 * g.pow(3))));
}

std::string what(const Grid& grid, at::ScalarType dtype, bool gelu_tanh = false) {
  return describe(grid) + ", " + describe(dtype) + (gelu_tanh ? ", gelu" : "");
}

Case swiglu_of(const Grid& grid, at::ScalarType dtype, bool gelu_tanh) {
  return of_rows({.op = "swiglu",
                  .what = what(grid, dtype, gelu_tanh),
                  .make =
                      [=] {
                        return Tensors{unwritten({grid.rows, grid.width}, dtype), gate_of(grid, dtype),
                                       noise({grid.rows, grid.width}, 3, dtype)};
                      },
                  .call =
                      [=](const Tensors& t, at::Device /*device*/) {
                        swiglu_into(t[0], t[1], t[2], gelu_tanh);
                        return Tensors();
                      },
                  .exact = [=](const Tensors& t) { return Tensors{activated(t[1], gelu_tanh) * t[2]}; },
                  .bounds = {bound_of(dtype, 1e-6, kOneRounding)},
                  .layout = grid.layout,
                  .promises = dtype != at::kDouble});
}

Case swiglu_backward_of(const Grid& grid, at::ScalarType dtype, bool gelu_tanh) {
  return of_rows({.op = "swiglu_backward",
                  .what = what(grid, dtype, gelu_tanh),
                  .make =
                      [=] {
                        return Tensors{gate_of(grid, dtype), noise({grid.rows, grid.width}, 3, dtype),
                                       noise({grid.rows, grid.width}, 4, dtype)};
                      },
                  .outputs = {0, 1},
                  .call =
                      [=](const Tensors& t, at::Device /*device*/) {
                        swiglu_backward(t[0], t[1], t[2], gelu_tanh);
                        return Tensors();
                      },
                  .exact =
                      [=](const Tensors& t) {
                        // silu's own slope: exp(200) is infinite, and autograd's product with it not a number
                        const auto f = [&](const Tensors& x) {
                          return (gelu_tanh ? activated(x[0], true) : at::silu(x[0])) * x[1];
                        };
                        return gradients(f, {t[0], t[1]}, t[2]);
                      },
                  // gelu's constants are fp32
                  .bounds = {dtype == at::kDouble && gelu_tanh ? 1e-8 : bound_of(dtype, 2e-6, kOneRounding)},
                  .layout = grid.layout,
                  .promises = dtype != at::kDouble});
}

Case sigmoid_of(const Grid& grid, at::ScalarType dtype) {
  return of_rows({.op = "sigmoid_gate",
                  .what = what(grid, dtype),
                  .make =
                      [=] {
                        return Tensors{unwritten({grid.rows, grid.width}, dtype),
                                       noise({grid.rows, grid.width}, 3, dtype), gate_of(grid, dtype)};
                      },
                  .call =
                      [=](const Tensors& t, at::Device /*device*/) {
                        sigmoid_gate_into(t[0], t[1], t[2]);
                        return Tensors();
                      },
                  .exact = [=](const Tensors& t) { return Tensors{t[1] / (1 + at::exp(-t[2]))}; },
                  .bounds = {bound_of(dtype, 1e-6, kOneRounding)},
                  .layout = grid.layout,
                  .promises = dtype != at::kDouble});
}

Case sigmoid_backward_of(const Grid& grid, at::ScalarType dtype) {
  return of_rows({.op = "sigmoid_gate_backward",
                  .what = what(grid, dtype),
                  .make =
                      [=] {
                        return Tensors{gate_of(grid, dtype), noise({grid.rows, grid.width}, 3, dtype),
                                       noise({grid.rows, grid.width}, 4, dtype)};
                      },
                  .outputs = {0, 1},
                  .call =
                      [=](const Tensors& t, at::Device /*device*/) {
                        sigmoid_gate_backward(t[0], t[1], t[2]);
                        return Tensors();
                      },
                  .exact =
                      [=](const Tensors& t) {
                        const auto f = [](const Tensors& x) { return x[1] * at::sigmoid(x[0]); };
                        return gradients(f, {t[0], t[2]}, t[1]);
                      },
                  .bounds = {bound_of(dtype, 1e-6, kOneRounding)},
                  .layout = grid.layout,
                  .promises = dtype != at::kDouble});
}

Case soft_cap_of(const Grid& grid) {
  return of_rows({.op = "soft_cap",
                  .what = describe(grid),
                  .make = [=] { return Tensors{noise({grid.rows, grid.width}, 2) * 60}; },
                  .call =
                      [=](const Tensors& t, at::Device /*device*/) {
                        soft_cap_into(t[0], 30);
                        return Tensors();
                      },
                  .exact = [=](const Tensors& t) { return Tensors{at::tanh(t[0] / 30) * 30}; },
                  .bounds = {5e-7},
                  .layout = grid.layout});
}

Case soft_cap_backward_of(const Grid& grid, at::ScalarType dtype) {
  return of_rows({.op = "soft_cap_backward",
                  .what = what(grid, dtype),
                  .make =
                      [=] {
                        return Tensors{noise({grid.rows, grid.width}, 2, dtype),
                                       at::tanh(noise({grid.rows, grid.width}, 3)) * 30};
                      },
                  .call =
                      [=](const Tensors& t, at::Device /*device*/) {
                        soft_cap_backward(t[0], t[1], 30);
                        return Tensors();
                      },
                  .exact = [=](const Tensors& t) { return Tensors{t[0] * (1 - (t[1] / 30).square())}; },
                  .bounds = {bound_of(dtype, 1e-6, kOneRounding)},
                  .layout = grid.layout});
}

}  // namespace gate_cases

void add_gate_cases(Cases& all) {
  using namespace gate_cases;
  const auto add = [&](const Grid& grid, at::ScalarType dtype, bool gelu_tanh) {
    all.push_back(swiglu_of(grid, dtype, gelu_tanh));
    all.push_back(swiglu_backward_of(grid, dtype, gelu_tanh));
    if (gelu_tanh) return;
    all.push_back(sigmoid_of(grid, dtype));
    all.push_back(sigmoid_backward_of(grid, dtype));
    if (dtype != at::kDouble) all.push_back(soft_cap_backward_of(grid, dtype));
  };
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const Grid& grid : row_grid()) add(grid, dtype, false);
    for (const Grid& grid : few_rows()) add(grid, dtype, true);
  }
  for (const bool gelu_tanh : {false, true}) add(few_rows()[1], at::kDouble, gelu_tanh);
  for (const Grid& grid : row_grid()) all.push_back(soft_cap_of(grid));
}

}  // namespace hone::ops::cases
