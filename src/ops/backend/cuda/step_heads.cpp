// Norms, rotation and the way into pages of a step's heads, by a kernel of our own.
#include <ATen/ATen.h>

#include "ops/backend/cuda.h"
#include "ops/backend/cuda/own_kernels.h"

namespace hone::ops::cuda {

bool step_heads(const at::Tensor& qkv, const HeadRotation& rotation, const PageMemory& memory,
                const PageSlots& slots) {
  return run_own(qkv.device(), &kernels::Kernels::step_heads, "step_heads",
                 [&](KernelViews& of) -> kernels::StepHeads {
                   const auto& [cos, sin] = *rotation.table;
                   of.need(sin.scalar_type() == cos.scalar_type());
                   for (const at::Tensor& norm : {rotation.q_norm, rotation.k_norm})
                     of.need(!norm.defined() || norm.scalar_type() == cos.scalar_type());
                   for (const at::Tensor& x : {memory.keys, memory.values})
                     of.need(x.is_contiguous() && x.scalar_type() == qkv.scalar_type());
                   const std::int64_t kv_heads = memory.keys.size(1);
                   return {.qkv = of.heads(qkv),
                           .q_weight = of.vector(rotation.q_norm),
                           .k_weight = of.vector(rotation.k_norm),
                           .cos = of.vector(cos),
                           .sin = of.vector(sin),
                           .keys = memory.keys.mutable_data_ptr(),
                           .values = memory.values.mutable_data_ptr(),
                           .pages = of.numbers<const std::int64_t>(slots.page),
                           .places = of.numbers<const std::int64_t>(slots.place),
                           .tokens = qkv.size(0),
                           .heads = qkv.size(1) - 2 * kv_heads,
                           .kv_heads = kv_heads,
                           .dim = qkv.size(2),
                           .rotated = cos.size(1),
                           .all_pages = memory.keys.size(0),
                           .eps = static_cast<float>(rotation.eps)};
                 });
}

}  // namespace hone::ops::cuda
