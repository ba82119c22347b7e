// Blocks of matrices by a kernel of our own: 48 of them are a launch.
#include <ATen/ATen.h>

#include <algorithm>

#include "ops/backend/cuda/cuda_operators.h"
#include "ops/backend/cuda/own_kernels.h"
#include "ops/routed_rows.h"

namespace hone::ops::cuda {
namespace {

bool has_numbers(const BlockCopy& one) {
  return one.out.numel() > 0;
}

bool has_dtype(const Tensor& x) {
  return x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
}

bool by_rows(const Tensor& x) {
  return x.stride(1) == 1 || x.size(1) <= 1;
}

bool is_taken(const BlockCopy& one) {
  return has_dtype(one.out) && has_dtype(one.x) && by_rows(one.out) && (by_rows(one.x) || by_rows(one.x.t()));
}

}  // namespace

bool copy_blocks(std::span<const BlockCopy> all) {
  const at::Device device = all.front().out.device();
  if (own_kernels(device) == nullptr || !std::all_of(all.begin(), all.end(), is_taken)) return false;
  std::vector<const BlockCopy*> rest;
  for (const BlockCopy& one : all)
    if (has_numbers(one)) rest.push_back(&one);
  for (std::size_t begin = 0; begin < rest.size(); begin += kernels::kMostBlocks) {
    const std::size_t count = std::min<std::size_t>(rest.size() - begin, kernels::kMostBlocks);
    run_own(device, &kernels::Kernels::copy_blocks, "copy_blocks",
            [&](KernelViews& of) -> kernels::CopyBlocks {
              kernels::CopyBlocks made;
              made.count = static_cast<int>(count);
              for (std::size_t i = 0; i < count; ++i) {
                const BlockCopy& one = *rest[begin + i];
                made.blocks[i] = {.out = of.rows(one.out),
                                  .x = of.rows(by_rows(one.x) ? one.x : one.x.t()),
                                  .rows = one.out.size(0),
                                  .columns = one.out.size(1),
                                  .add = one.add,
                                  .transposed = !by_rows(one.x)};
              }
              return made;
            });
  }
  // What keeps a copy of a tensor looks at its version (ops/join/join.h).
  for (const BlockCopy* const one : rest) one->out.unsafeGetTensorImpl()->bump_version();
  return true;
}

}  // namespace hone::ops::cuda
