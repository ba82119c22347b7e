// How fast this machine multiplies, for those who ask what a run may expect: `hone env`, the start page, the doctor.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace hone::ops {

struct ProductShape {
  std::int64_t rows = 256, in = 896, out = 1152;  // [rows, in] times W^T, W [out, in]
};

struct ProductRate {
  std::string kernels;  // "avx512", "amx", or "libtorch" where none are ours
  double gflops = 0;    // of all threads, the best of several tries
  double limit = 0;     // of all threads, the same instruction on registers alone; 0: not known
  double share() const { return limit == 0 ? 0 : gflops / limit; }
};

// Products of bf16 or float32 at base::instruction_level(), by at::get_num_threads() threads, for about `seconds`. Small ones: the
// best of many finds a moment when nobody else works here. libtorch's are cut to 16 rows.
ProductRate measure_products(at::ScalarType dtype, const ProductShape& shape, double seconds);

// ProductRate::gflops alone.
double product_gflops(at::ScalarType dtype, const ProductShape& shape, double seconds);

// Returns whether products on the device run with kernels of ours, which read packed weights.
bool has_own_products(at::Device device);

// The kernels that run products of `dtype`, as in ProductRate.
std::string product_kernels(at::ScalarType dtype);

}  // namespace hone::ops
