#include "ops/copy_blocks.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {

void copy_blocks(std::span<const BlockCopy> all) {
  if (all.empty()) return;
  for (const BlockCopy& one : all)
    base::require(one.out.dim() == 2 && one.out.sizes() == one.x.sizes() &&
                      one.out.device() == all.front().out.device() && one.x.device() == one.out.device(),
                  "ops::copy_blocks", "matrices of one device, x of out's shape");
  backend::run(all.front().out.device(), &backend::Operators::copy_blocks, reference::copy_blocks, all);
}

bool copies_blocks(at::Device device) {
  return backend::operators_of(device).copy_blocks != nullptr;
}

}  // namespace hone::ops
