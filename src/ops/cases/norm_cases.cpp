#include "ops/cases/case.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"

namespace hone::ops::cases {
namespace norm_cases {

constexpr double kEps = 1e-5;

// x of the residual stream, and what the linears around it read and write.
struct Dtypes {
  at::ScalarType residual, linear;
};
constexpr Dtypes kDtypes[] = {{at::kFloat, at::kFloat},
                              {at::kBFloat16, at::kBFloat16},
                              {at::kFloat, at::kBFloat16},
                              {at::kBFloat16, at::kFloat}};

double bound(const Dtypes& dtypes, double of_float) {
  const bool half = dtypes.residual == at::kBFloat16 || dtypes.linear == at::kBFloat16;
  return half ? 2 * kOneRounding : bound_of(dtypes.residual, of_float, 0);
}

at::Tensor normed(const at::Tensor& x) {
  return x * at::rsqrt(x.square().mean(-1, true) + kEps);
}

Case forward(const Grid& grid, const Dtypes& dtypes) {
  const auto weight = [=] { return noise({grid.width}, 1, dtypes.residual); };
  return of_rows(
      {.op = "rms_norm",
       .what = describe(grid) + ", " + describe(dtypes.residual) + " to " + describe(dtypes.linear),
       .make =
           [=] {
             return Tensors{unwritten({grid.rows, grid.width}, dtypes.linear),
                            noise({grid.rows, grid.width}, 2, dtypes.residual)};
           },
       .call =
           [=](const Tensors& t, at::Device device) {
             rms_norm_into(t[0], t[1], weight().to(device), kEps);
             return Tensors();
           },
       .exact = [=](const Tensors& t) { return Tensors{wide(weight()) * normed(t[1])}; },
       .bounds = {bound(dtypes, 1e-6)},
       .layout = grid.layout,
       .promises = dtypes.residual != at::kDouble});
}

Case backward(const Grid& grid, const Dtypes& dtypes) {
  const auto weight = [=] { return noise({grid.width}, 1, dtypes.residual); };
  return of_rows(
      {.op = "rms_norm_backward",
       .what = describe(grid) + ", " + describe(dtypes.residual) + " of " + describe(dtypes.linear),
       .make =
           [=] {
             return Tensors{noise({grid.rows, grid.width}, 2, dtypes.residual),
                            noise({grid.rows, grid.width}, 3, dtypes.linear),
                            noise({grid.rows, grid.width}, 4, dtypes.residual)};
           },
       .call =
           [=](const Tensors& t, at::Device device) {
             rms_norm_backward_add(t[0], t[1], t[2], weight().to(device), kEps);
             return Tensors();
           },
       .exact =
           [=](const Tensors& t) {
             const at::Tensor w = wide(weight());
             const auto f = [&](const Tensors& x) { return w * normed(x[0]); };
             return Tensors{t[0] + gradients(f, {t[2]}, t[1])[0]};
           },
       .bounds = {bound(dtypes, 2e-6)},
       .layout = grid.layout,
       .promises = dtypes.residual != at::kDouble});
}

// The same with dx in bf16 beside it.
Case backward_cast(const Grid& grid, const Dtypes& dtypes) {
  const auto weight = [=] { return noise({grid.width}, 1, dtypes.residual); };
  return of_rows(
      {.op = "rms_norm_backward_cast",
       .what = describe(grid) + ", " + describe(dtypes.residual) + " of " + describe(dtypes.linear),
       .make =
           [=] {
             return Tensors{noise({grid.rows, grid.width}, 2, dtypes.residual),
                            unwritten({grid.rows, grid.width}, at::kBFloat16),
                            noise({grid.rows, grid.width}, 3, dtypes.linear),
                            noise({grid.rows, grid.width}, 4, dtypes.residual)};
           },
       .outputs = {0, 1},
       .call =
           [=](const Tensors& t, at::Device device) {
             rms_norm_backward_add(t[0], t[2], t[3], weight().to(device), kEps, t[1]);
             return Tensors();
           },
       .exact =
           [=](const Tensors& t) {
             const at::Tensor w = wide(weight());
             const auto f = [&](const Tensors& x) { return w * normed(x[0]); };
             const at::Tensor dx = t[0] + gradients(f, {t[3]}, t[2])[0];
             return Tensors{dx, dx};
           },
       .bounds = {bound(dtypes, 2e-6), 2 * kOneRounding},
       .layout = grid.layout});
}

}  // namespace norm_cases

void add_norm_cases(Cases& all) {
  using namespace norm_cases;
  for (const Dtypes& dtypes : kDtypes) {
    for (const Grid& grid : dtypes.residual == dtypes.linear ? row_grid() : few_rows()) {
      all.push_back(forward(grid, dtypes));
      all.push_back(backward(grid, dtypes));
    }
    for (const Grid& grid : few_rows()) all.push_back(backward_cast(grid, dtypes));
  }
  all.push_back(forward(few_rows()[1], {at::kDouble, at::kDouble}));
  all.push_back(backward(few_rows()[1], {at::kDouble, at::kDouble}));
}

// ---- norm and rotation of heads

namespace rope_cases {

constexpr double kEps = 1e-5;

struct Heads {
  std::int64_t tokens, heads, dim, rotated;
  bool norm;
  Layout layout;
  at::ScalarType linear, table;  // dtypes of x, and of the table and the norm's weight
};

std::string what(const Heads& h) {
  return std::to_string(h.tokens) + " x " + std::to_string(h.heads) + " heads of " + std::to_string(h.dim) +
         ", " + std::to_string(h.rotated) + " rotated" + (h.norm ? ", norm, " : ", ") + describe(h.layout) +
         ", " + describe(h.linear) + ", table " + describe(h.table);
}

at::Tensor weight_of(const Heads& h) {
  return h.norm ? noise({h.dim}, 1, h.table) : at::Tensor();
}

RopeTable table_of(const Heads& h, const at::Tensor& positions, at::Device device) {
  const at::Tensor host = positions.cpu();
  const std::int64_t* const first = host.const_data_ptr<std::int64_t>();
  return rope_table(rope_inverse_frequencies(1e4, h.rotated).to(device), {first, first + host.numel()},
                    h.table, 1.25);
}

at::Tensor positions_of(const Heads& h) {
  return at::arange(h.tokens, at::kLong) * 37 % 1009;
}

// In fp64, with the table as it was rounded.
at::Tensor rotated(const Heads& h, const at::Tensor& x, const at::Tensor& positions) {
  const RopeTable table = table_of(h, positions, at::kCPU);
  const at::Tensor cos = wide(table.cos).unsqueeze(1), sin = wide(table.sin).unsqueeze(1);
  at::Tensor y = x;
  if (h.norm) y = wide(weight_of(h)) * (x * at::rsqrt(x.square().mean(-1, true) + kEps));
  const std::int64_t half = h.rotated / 2;
  const at::Tensor first = y.narrow(2, 0, h.rotated);
  const at::Tensor turned = at::cat({-first.narrow(2, half, half), first.narrow(2, 0, half)}, 2);
  return at::cat({first * cos + turned * sin, y.narrow(2, h.rotated, h.dim - h.rotated)}, 2);
}

Case forward(const Heads& h, bool in_place) {
  return of_rows({.op = "norm_rope",
                  .what = what(h) + (in_place ? ", in place" : ""),
                  .make =
                      [=] {
                        const at::Tensor x = noise({h.tokens, h.heads, h.dim}, 2, h.linear);
                        return Tensors{in_place ? x : unwritten(x.sizes(), h.linear), positions_of(h), x};
                      },
                  .call =
                      [=](const Tensors& t, at::Device device) {
                        const at::Tensor weight = weight_of(h);
                        norm_rope_into(t[0], in_place ? t[0] : t[2],
                                       weight.defined() ? weight.to(device) : weight, kEps,
                                       table_of(h, t[1], device));
                        return Tensors();
                      },
                  .exact = [=](const Tensors& t) { return Tensors{rotated(h, t[2], t[1])}; },
                  .bounds = {bound_of(h.linear, 1e-6, 4 * kOneRounding)},
                  .layout = h.layout,
                  .promises = h.linear != at::kDouble});
}

Case backward(const Heads& h) {
  return of_rows({.op = "norm_rope_backward",
                  .what = what(h),
                  .make =
                      [=] {
                        return Tensors{noise({h.tokens, h.heads, h.dim}, 2, h.linear), positions_of(h),
                                       noise({h.tokens, h.heads, h.dim}, 3, h.linear)};
                      },
                  .call =
                      [=](const Tensors& t, at::Device device) {
                        const at::Tensor weight = weight_of(h);
                        norm_rope_backward(t[0], t[2], weight.defined() ? weight.to(device) : weight, kEps,
                                           table_of(h, t[1], device));
                        return Tensors();
                      },
                  .exact =
                      [=](const Tensors& t) {
                        const auto f = [&](const Tensors& x) { return rotated(h, x[0], t[1]); };
                        return gradients(f, {t[2]}, t[0]);
                      },
                  .bounds = {bound_of(h.linear, 2e-6, 4 * kOneRounding)},
                  .layout = h.layout,
                  .promises = h.linear != at::kDouble});
}

}  // namespace rope_cases

void add_rope_cases(Cases& all) {
  using namespace rope_cases;
  struct Shape {
    std::int64_t tokens, heads, dim, rotated;
    Layout layout;
  };
  // Head sizes of families, partial rotations, and sizes that no vector divides.
  constexpr Shape kShapes[] = {{33, 14, 64, 64, Layout::kStrided}, {7, 3, 96, 96, Layout::kStrided},
                               {5, 2, 80, 80, Layout::kDense},     {64, 4, 128, 128, Layout::kStrided},
                               {3, 2, 128, 32, Layout::kStrided},  {2, 1, 256, 64, Layout::kUnaligned},
                               {1, 3, 14, 6, Layout::kUnaligned},  {9, 1, 2, 2, Layout::kDense},
                               {0, 2, 64, 64, Layout::kDense},     {1024, 1, 32, 24, Layout::kDense}};
  for (const Shape& s : kShapes) {
    for (const bool norm : {false, true}) {
      for (const auto linear : {at::kFloat, at::kBFloat16}) {
        const Heads h{s.tokens, s.heads, s.dim, s.rotated, norm, s.layout, linear, linear};
        all.push_back(forward(h, false));
        all.push_back(forward(h, true));
        all.push_back(backward(h));
      }
    }
  }
  for (const auto& [linear, table] :
       {std::pair(at::kFloat, at::kBFloat16), {at::kBFloat16, at::kFloat}, {at::kDouble, at::kDouble}}) {
    const Heads h{5, 2, 64, 64, true, Layout::kStrided, linear, table};
    all.push_back(forward(h, false));
    all.push_back(backward(h));
  }
}

}  // namespace hone::ops::cases
