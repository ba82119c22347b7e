// One matrix product, head or attention of a run, forward and backward with hone's kernels, compared with an
// fp32 reference of libtorch's on the host. Meant for a child process: a kernel that is wrong for the machine may raise a
// signal.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "base/json.h"

namespace hone::doctor {

struct KernelShape {
  // gemm: a linear with LoRA; decode: only its forward; head: log-probabilities over the vocabulary;
  // attention: packed segments of 1, 63, 64, 65 and `segment` tokens, also after a shared prompt of `prefix`
  // tokens if that is above 0; cached: one query per sequence over up to `segment` keys
  std::string kind;
  bool bf16 = false;
  bool autograd = false;  // libtorch's kernels under autograd, layer_form: plain
  bool packed = false;
  bool bias = false;
  std::string quantized;  // ops::describe() of the matrix's scheme; empty: not quantized
  std::int64_t m = 0, in = 0, out = 0, rank = 0;                                // gemm, decode, head
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, segment = 0, prefix = 0;  // attention, cached

  bool is_gemm() const { return kind == "gemm" || kind == "decode" || kind == "head"; }
  std::string describe() const;  // "gemm bf16 [4096 x 896] x [896 x 4864], rank 16, packed"
  std::int64_t bytes() const;    // that check_kernel() holds at once, rounded up
  base::Json to_json() const;
  static KernelShape from_json(const base::Json& json);
};

struct KernelError {
  // largest difference over the largest value of each result; infinite for values that are not finite
  double error = 0;
  double bound = 0;
  double found = 0, expected = 0;  // where that is
};

// Inputs are deterministic for each shape. Results of large products are compared at a few rows. The reference is the
// host's, whatever the device.
KernelError check_kernel(const KernelShape& shape, at::Device device = at::kCPU);

}  // namespace hone::doctor
