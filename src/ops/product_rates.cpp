#include "ops/product_rates.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>

#include "ops/cpu/gemm_blocks.h"
#include "ops/cpu/instructions.h"
#include "ops/cpu/team.h"
#include "ops/gemm.h"

namespace hone::ops {
namespace {

template <typename Work>
double timed(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// GFLOP/s of all threads; a try takes about 2 ms.
double limit_of(const kernels::GemmKernels& kernels) {
  const std::int64_t threads = at::get_num_threads();
  const double step = static_cast<double>(kernels.spin_flop * kernels::kSpinChains);
  const auto steps = static_cast<std::int64_t>(2e-3 * kernels.flops / step);
  double best = 0;
  for (int i = 0; i < 10; ++i) {
    const double seconds = timed([&] {
      in_team(threads, threads, [&](std::int64_t, std::int64_t) { kernels.multiply_in_registers(steps); });
    });
    best = std::max(best, static_cast<double>(threads * steps) * step / seconds / 1e9);
  }
  return best;
}

}  // namespace

std::string product_kernels(at::ScalarType dtype) {
  const kernels::GemmKernels* const kernels = gemm_kernels(dtype);
  return kernels == nullptr ? "libtorch" : kernels->name;
}

double product_gflops(at::ScalarType dtype, const ProductShape& shape, double seconds) {
  const std::int64_t rows =
      gemm_kernels(dtype) == nullptr ? std::min<std::int64_t>(shape.rows, 16) : shape.rows;
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
  const kernels::GemmKernels* const kernels = gemm_kernels(dtype);
  if (kernels != nullptr) rate.limit = std::max(limit_of(*kernels), rate.gflops);
  return rate;
}

}  // namespace hone::ops
