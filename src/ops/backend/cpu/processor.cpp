// What the CPU's table says of the processor.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>

#include "ops/backend/cpu/cpu_operators.h"
#include "ops/backend/cpu/gemm_blocks.h"
#include "ops/machine/team.h"

namespace hone::ops::cpu {

const char* product_kernels(at::ScalarType dtype) {
  const kernels::GemmKernels* const kernels = gemm_kernels(dtype);
  return kernels == nullptr ? nullptr : kernels->name;
}

// A try takes about 2 ms.
double product_limit(at::ScalarType dtype) {
  const kernels::GemmKernels* const kernels = gemm_kernels(dtype);
  if (kernels == nullptr) return 0;
  const std::int64_t threads = at::get_num_threads();
  const double step = static_cast<double>(kernels->spin_flop * kernels::kSpinChains);
  const auto steps = static_cast<std::int64_t>(2e-3 * kernels->flops / step);
  double best = 0;
  for (int i = 0; i < 10; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    in_team(threads, threads, [&](std::int64_t, std::int64_t) { kernels->multiply_in_registers(steps); });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(threads * steps) * step / seconds.count() / 1e9);
  }
  return best;
}

}  // namespace hone::ops::cpu
