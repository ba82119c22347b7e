#include "base/rng.h"
#include "ops/cases/case.h"
#include "ops/dropout.h"

namespace hone::ops::cases {
namespace dropout_cases {

constexpr std::uint64_t kKey = 11;
constexpr double kShare = 0.3;

std::vector<std::int64_t> numbers(const at::Tensor& ids) {
  const at::Tensor host = ids.cpu();
  const std::int64_t* const first = host.const_data_ptr<std::int64_t>();
  return {first, first + host.numel()};
}

// Tokens of rows of the data, one of which has a number of more than 32 bits.
at::Tensor data_rows(std::int64_t tokens) {
  at::Tensor rows = at::arange(tokens, at::kLong).floor_divide(5);
  if (tokens > 1) rows[tokens - 1] = std::int64_t{1} << 40;
  return rows;
}
at::Tensor data_positions(std::int64_t tokens) {
  return at::arange(tokens, at::kLong).remainder(5);
}

// A pass over tokens, which it keeps.
struct Pass {
  explicit Pass(const at::Tensor& row_ids, const at::Tensor& position_ids)
      : rows(numbers(row_ids)), positions(numbers(position_ids)) {
    context = {.training = true, .seed = 5, .step = 6, .token_row = &rows, .token_position = &positions};
  }
  std::vector<std::int64_t> rows, positions;
  PassContext context;
};

Case mask_of(std::int64_t tokens, std::int64_t width) {
  const auto drawn_of = [=](const Tensors& t) {
    const std::vector<std::int64_t> rows = numbers(t[0]), positions = numbers(t[1]);
    const DropoutMask mask{.key = {0xdeadbeef, 42}, .p = kShare, .rows = rows, .positions = positions};
    return drawn(mask, width);
  };
  return of_rows(
      {.op = "draw_mask",
       .what = std::to_string(tokens) + " x " + std::to_string(width),
       .make = [=] { return Tensors{data_rows(tokens), data_positions(tokens)}; },
       .outputs = {},
       .call = [=](const Tensors& t, at::Device /*device*/) { return Tensors{drawn_of(t)}; },
       .exact =
           [=](const Tensors& t) {
             at::Tensor out = at::zeros({tokens, width}, at::kDouble);
             const DropoutMask mask{.p = kShare};
             for (std::int64_t i = 0; i < tokens; ++i) {
               const auto row = t[0][i].item<std::int64_t>(), position = t[1][i].item<std::int64_t>();
               double* const numbers = out[i].mutable_data_ptr<double>();
               for (std::int64_t f = 0; f < width; ++f) {
                 const auto words =
                     base::philox({static_cast<std::uint32_t>(f / 4), static_cast<std::uint32_t>(position),
                                   static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(row >> 32)},
                                  {0xdeadbeef, 42});
                 numbers[f] = words[static_cast<std::size_t>(f % 4)] < mask.dropped_below() ? 0 : mask.kept();
               }
             }
             return Tensors{out};
           },
       .bounds = {0}});
}

at::Tensor mask_for(const Tensors& t, std::size_t at, std::int64_t width) {
  const Pass pass(t[at], t[at + 1]);
  return wide(dropout_mask(pass.context, kKey, kShare, width));
}

Case dropout_of(const Grid& grid, at::ScalarType from, at::ScalarType to) {
  return of_rows({.op = "dropout",
                  .what = describe(grid) + ", " + describe(from) + " to " + describe(to),
                  .make =
                      [=] {
                        return Tensors{unwritten({grid.rows, grid.width}, to),
                                       noise({grid.rows, grid.width}, 2, from), data_rows(grid.rows),
                                       data_positions(grid.rows)};
                      },
                  .call =
                      [=](const Tensors& t, at::Device /*device*/) {
                        const Pass pass(t[2], t[3]);
                        dropout_into(t[0], t[1], pass.context, kKey, kShare);
                        return Tensors();
                      },
                  .exact = [=](const Tensors& t) { return Tensors{t[1] * mask_for(t, 2, grid.width)}; },
                  .bounds = {bound_of(to, 1e-7, kOneRounding)},
                  .layout = grid.layout});
}

Case backward_of(const Grid& grid, at::ScalarType of_d, at::ScalarType dtype) {
  return of_rows(
      {.op = "dropout_backward_add",
       .what = describe(grid) + ", " + describe(of_d) + " to " + describe(dtype),
       .make =
           [=] {
             return Tensors{noise({grid.rows, grid.width}, 2, dtype), noise({grid.rows, grid.width}, 3, of_d),
                            data_rows(grid.rows), data_positions(grid.rows)};
           },
       .call =
           [=](const Tensors& t, at::Device /*device*/) {
             const Pass pass(t[2], t[3]);
             dropout_backward_add(t[0], t[1], pass.context, kKey, kShare);
             return Tensors();
           },
       .exact = [=](const Tensors& t) { return Tensors{t[0] + t[1] * mask_for(t, 2, grid.width)}; },
       .bounds = {bound_of(dtype, 2e-7, kOneRounding)},
       .layout = grid.layout});
}

}  // namespace dropout_cases

void add_dropout_cases(Cases& all) {
  using namespace dropout_cases;
  for (const auto& [tokens, width] :
       {std::pair<std::int64_t, std::int64_t>{0, 64}, {1, 896}, {7, 33}, {64, 70}, {2, 1537}, {33, 1}})
    all.push_back(mask_of(tokens, width));
  for (const at::ScalarType from : {at::kFloat, at::kBFloat16}) {
    for (const at::ScalarType to : {at::kFloat, at::kBFloat16}) {
      for (const Grid& grid : from == to ? row_grid() : few_rows()) {
        if (grid.rows >= 4096) continue;  // its philox in the definition takes long
        all.push_back(dropout_of(grid, from, to));
        all.push_back(backward_of(grid, from, to));
      }
    }
  }
}

}  // namespace hone::ops::cases
