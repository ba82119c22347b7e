#include "ops/machine/product_rates.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "ops/backend/operators.h"
#include "ops/gemm.h"

namespace hone::ops {
namespace {

template <typename Work>
double timed(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

std::string product_kernels(at::ScalarType dtype) {
  const auto name = backend::operators_of(at::kCPU).product_kernels;
  const char* const own = name == nullptr ? nullptr : name(dtype);
  return own == nullptr ? "libtorch" : own;
}

bool has_own_products(at::Device device) {
  const auto name = backend::operators_of(device).product_kernels;
  return name != nullptr && name(at::kFloat) != nullptr;
}

double product_gflops(at::ScalarType dtype, const ProductShape& shape, double seconds) {
  const std::int64_t rows =
      product_kernels(dtype) == "libtorch" ? std::min<std::int64_t>(shape.rows, 16) : shape.rows;
  const at::Tensor a = at::full({rows, shape.in}, 0.5, dtype);
  const Weight weight = Weight::packed_where_possible(at::full({shape.out, shape.in}, 0.25, dtype));
  const at::Tensor out = at::empty({rows, shape.out}, dtype);
  const double flop = 2.0 * static_cast<double>(rows * shape.in * shape.out);
  double best = 0;
  for (double spent = 0; spent < seconds;) {
    const double one = timed([&] { multiply(out, a, weight, GemmDirection::kForward); });
    best = std::max(best, flop / one / 1e9);
    spent += std::max(one, 1e-4);
  }
  return best;
}

ProductRate measure_products(at::ScalarType dtype, const ProductShape& shape, double seconds) {
  ProductRate rate{.kernels = product_kernels(dtype), .gflops = product_gflops(dtype, shape, seconds)};
  const auto limit = backend::operators_of(at::kCPU).product_limit;
  const double most = limit == nullptr ? 0 : limit(dtype);
  if (most > 0) rate.limit = std::max(most, rate.gflops);
  return rate;
}

}  // namespace hone::ops
