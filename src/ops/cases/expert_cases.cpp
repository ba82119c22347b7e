#include "ops/cases/case.h"
#include "ops/experts/expert_products.h"

namespace hone::ops::cases {
namespace expert_cases {

// Groups of rows, some of which are empty.
struct Groups {
  std::vector<std::int64_t> rows;
  std::int64_t left, right;  // columns
  at::ScalarType dtype;
  bool flipped;  // the matrices by columns

  std::int64_t all() const {
    std::int64_t sum = 0;
    for (const std::int64_t one : rows) sum += one;
    return sum;
  }
  std::int64_t count() const { return static_cast<std::int64_t>(rows.size()); }
};

std::string what(const Groups& g) {
  std::string out = "groups of";
  for (const std::int64_t one : g.rows) out += " " + std::to_string(one);
  return out + ", " + std::to_string(g.left) + " x " + std::to_string(g.right) +
         (g.flipped ? " by columns, " : ", ") + describe(g.dtype);
}

at::Tensor ends_of(const Groups& g) {
  return at::tensor(g.rows, at::kLong).cumsum(0).to(at::kInt);
}
at::Tensor rows_of(const Groups& g) {
  return noise({g.all(), g.left}, 2, g.dtype);
}
at::Tensor others_of(const Groups& g) {
  return noise({g.all(), g.right}, 4, g.dtype);
}
at::Tensor matrices_of(const Groups& g) {
  if (!g.flipped) return noise({g.count(), g.left, g.right}, 3, g.dtype);
  return noise({g.count(), g.right, g.left}, 3, g.dtype).transpose(1, 2);
}

// work(group, its first row, its rows)
template <typename Work>
void each(const Groups& g, const Work& work) {
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < g.count(); ++i) {
    const std::int64_t count = g.rows[static_cast<std::size_t>(i)];
    work(i, begin, count);
    begin += count;
  }
}

Case products_of(const Groups& g) {
  return {.op = "grouped_products",
          .what = what(g),
          .run =
              [=](at::Device device) {
                return Tensors{
                    grouped_products(rows_of(g).to(device), matrices_of(g).to(device), ends_of(g).to(device))
                        .cpu()};
              },
          .exact =
              [=] {
                const at::Tensor out = at::zeros({g.all(), g.right}, at::kDouble);
                each(g, [&](std::int64_t i, std::int64_t begin, std::int64_t count) {
                  out.narrow(0, begin, count)
                      .copy_(wide(rows_of(g)).narrow(0, begin, count).matmul(wide(matrices_of(g))[i]));
                });
                return Tensors{out};
              },
          .bounds = {bound_of(g.dtype, 1e-5, kOneRounding)}};
}

Case outers_of(const Groups& g) {
  return {
      .op = "grouped_outers",
      .what = what(g),
      .run =
          [=](at::Device device) {
            return Tensors{
                grouped_outers(rows_of(g).to(device), others_of(g).to(device), ends_of(g).to(device)).cpu()};
          },
      .exact =
          [=] {
            const at::Tensor out = at::zeros({g.count(), g.left, g.right}, at::kDouble);
            each(g, [&](std::int64_t i, std::int64_t begin, std::int64_t count) {
              out[i] = wide(rows_of(g))
                           .narrow(0, begin, count)
                           .t()
                           .matmul(wide(others_of(g)).narrow(0, begin, count));
            });
            return Tensors{out};
          },
      .bounds = {bound_of(g.dtype, 1e-5, kOneRounding)}};
}

}  // namespace expert_cases

void add_expert_cases(Cases& all) {
  using namespace expert_cases;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const bool flipped : {false, true}) {
      all.push_back(products_of({{5, 0, 9, 2}, 32, 48, dtype, flipped}));
      all.push_back(products_of({{0, 70, 1, 0, 0, 33, 8, 0}, 896, 64, dtype, flipped}));
      all.push_back(products_of({{0, 0, 1}, 16, 8, dtype, flipped}));
      all.push_back(products_of({{3, 4}, 7, 13, dtype, flipped}));  // no rows of 16 bytes
    }
    all.push_back(outers_of({{5, 0, 9, 2}, 32, 48, dtype, false}));
    all.push_back(outers_of({{0, 70, 1, 0, 0, 33, 8, 0}, 16, 896, dtype, false}));
    all.push_back(outers_of({{3, 0, 4}, 7, 13, dtype, false}));
  }
}

}  // namespace hone::ops::cases
