// Attention to pages by kernels of our own.
#include <ATen/ATen.h>

#include "ops/backend/cuda.h"
#include "ops/backend/cuda/own_kernels.h"

namespace hone::ops::cuda {
namespace {

using at::Tensor;

constexpr std::int64_t kAligned = 16, kMostDim = 256, kDimStep = 8;

template <typename T>
const T* list_of(KernelViews& of, const Tensor& x) {
  return reinterpret_cast<const T*>(of.numbers<const std::int32_t>(x));
}

// Rows of heads that are read sixteen bytes at a time.
bool is_read_by_sixteens(const Tensor& x) {
  const auto bytes = static_cast<std::int64_t>(x.element_size());
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % kAligned == 0 &&
         x.stride(0) * bytes % kAligned == 0 && x.stride(1) * bytes % kAligned == 0;
}

}  // namespace

bool takes_pages(at::ScalarType dtype, std::int64_t group, std::int64_t dim) {
  return (dtype == at::kFloat || dtype == at::kBFloat16) && dim % kDimStep == 0 && dim <= kMostDim &&
         group <= widest_part(dim);
}

bool attend_pages(const Tensor& out, const Tensor& lse, const Tensor& q, const PageMemory& memory,
                  const SentParts& parts, double scale) {
  const std::int64_t heads = q.size(1), dim = q.size(2), kv_heads = memory.keys.size(1);
  Tensor partial;  // until the kernel has its place in the device's order
  return run_own(q.device(), &kernels::Kernels::attend_pages, "attend_pages",
                 [&](KernelViews& of) -> kernels::AttendPages {
                   of.need(takes_pages(q.scalar_type(), heads / kv_heads, dim));
                   of.need(memory.keys.is_contiguous() && memory.values.is_contiguous());
                   for (const Tensor& x : {memory.keys, memory.values, out})
                     of.need(x.scalar_type() == q.scalar_type() && is_read_by_sixteens(x));
                   of.need(is_read_by_sixteens(q) && (!lse.defined() || lse.scalar_type() == at::kFloat));
                   partial = at::empty({parts.results, heads, dim + 1}, q.options().dtype(at::kFloat));
                   auto* const sums = partial.mutable_data_ptr<float>();
                   return {.out = of.heads(out),
                           .q = of.heads(q),
                           .keys = memory.keys.const_data_ptr(),
                           .values = memory.values.const_data_ptr(),
                           .parts = list_of<PagePart>(of, parts.parts),
                           .rows = list_of<PartRow>(of, parts.rows),
                           .pages = list_of<std::int32_t>(of, parts.pages),
                           .results_of = list_of<std::int32_t>(of, parts.results_of),
                           .partial = sums,
                           .partial_lse = sums + parts.results * heads * dim,
                           .lse = lse.defined() ? kernels::HeadNumbers{static_cast<float*>(lse.data_ptr()),
                                                                       lse.stride(0), lse.stride(1)}
                                                : kernels::HeadNumbers(),
                           .tokens = q.size(0),
                           .heads = heads,
                           .kv_heads = kv_heads,
                           .dim = dim,
                           .wide = parts.wide,
                           .narrow = parts.narrow,
                           .results = parts.results,
                           .all_pages = memory.keys.size(0),
                           .listed_rows = parts.rows.numel() * 4 / static_cast<std::int64_t>(sizeof(PartRow)),
                           .listed_pages = parts.pages.numel(),
                           .scale = static_cast<float>(scale)};
                 });
}

}  // namespace hone::ops::cuda
