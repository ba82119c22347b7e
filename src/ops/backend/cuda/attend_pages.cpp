#include "ops/backend/cuda/attend_pages.h"

#include <ATen/ATen.h>

#include <cstring>

#include "base/error.h"
#include "ops/backend/cuda/own_kernels.h"
#include "ops/index_tensor.h"

namespace hone::ops::cuda {
namespace {

using at::Tensor;

constexpr std::int64_t kAligned = 16, kMostDim = 256, kDimStep = 8;

// A list of structures, or of numbers, as int32.
template <typename T>
Tensor sent(const std::vector<T>& list, at::Device device) {
  static_assert(sizeof(T) % sizeof(std::int32_t) == 0);
  const Tensor host = at::empty({static_cast<std::int64_t>(list.size() * sizeof(T) / sizeof(std::int32_t))}, at::kInt);
  if (!list.empty()) std::memcpy(host.mutable_data_ptr(), list.data(), list.size() * sizeof(T));
  return staged(host, device);
}

template <typename T>
const T* list_of(KernelViews& of, const Tensor& x) {
  return reinterpret_cast<const T*>(of.numbers<const std::int32_t>(x));
}

// Rows of heads that are read sixteen bytes at a time.
bool is_aligned(const Tensor& x) {
  const auto bytes = static_cast<std::int64_t>(x.element_size());
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % kAligned == 0 && x.stride(0) * bytes % kAligned == 0 &&
         x.stride(1) * bytes % kAligned == 0;
}

}  // namespace

PageMemory make_pages(std::int64_t pages, std::int64_t kv_heads, std::int64_t head_dim, const at::TensorOptions& options) {
  const std::vector<std::int64_t> shape = {pages, kv_heads, kernels::kPageTokens, head_dim};
  return {.keys = at::empty(shape, options), .values = at::empty(shape, options)};
}

void write_pages(const PageMemory& memory, const Tensor& k, const Tensor& v, const Tensor& slots) {
  const Tensor page = slots.div(kernels::kPageTokens, "floor"), place = slots.remainder(kernels::kPageTokens);
  // [pages, tokens, K, D], so that a token is one row of both indices.
  memory.keys.transpose(1, 2).index_put_({page, place}, k);
  memory.values.transpose(1, 2).index_put_({page, place}, v);
}

void copy_pages(const PageMemory& memory, const Tensor& to, const Tensor& from) {
  memory.keys.index_copy_(0, to, memory.keys.index_select(0, from));
  memory.values.index_copy_(0, to, memory.values.index_select(0, from));
}

SentParts send(const PageParts& parts, at::Device device) {
  return {.parts = sent(parts.parts, device),
          .rows = sent(parts.rows, device),
          .pages = sent(parts.pages, device),
          .results_of = sent(parts.results_of, device),
          .wide = parts.wide,
          .narrow = static_cast<std::int64_t>(parts.parts.size()) - parts.wide,
          .results = parts.results};
}

bool attend_pages(const Tensor& out, const Tensor& lse, const Tensor& q, const PageMemory& memory, const SentParts& parts,
                  double scale) {
  const std::int64_t heads = q.size(1), dim = q.size(2), kv_heads = memory.keys.size(1);
  base::require(parts.results_of.numel() == q.size(0) + 1, "attend_pages", "a row of parts for each of q");
  Tensor partial;  // until the kernel has its place in the device's order
  return run_own(q.device(), &kernels::Kernels::attend_pages, "attend_pages",
                 [&](KernelViews& of) -> kernels::AttendPages {
                   of.need(dim % kDimStep == 0 && dim <= kMostDim && heads / kv_heads <= kernels::widest_part(dim));
                   of.need(memory.keys.is_contiguous() && memory.values.is_contiguous());
                   for (const Tensor& x : {memory.keys, memory.values, out})
                     of.need(x.scalar_type() == q.scalar_type() && is_aligned(x));
                   of.need(is_aligned(q) && (!lse.defined() || lse.scalar_type() == at::kFloat));
                   partial = at::empty({parts.results, heads, dim + 1}, q.options().dtype(at::kFloat));
                   auto* const sums = partial.mutable_data_ptr<float>();
                   return {.out = of.heads(out),
                           .q = of.heads(q),
                           .keys = memory.keys.const_data_ptr(),
                           .values = memory.values.const_data_ptr(),
                           .parts = list_of<kernels::PagePart>(of, parts.parts),
                           .rows = list_of<kernels::PartRow>(of, parts.rows),
                           .pages = list_of<std::int32_t>(of, parts.pages),
                           .results_of = list_of<std::int32_t>(of, parts.results_of),
                           .partial = sums,
                           .partial_lse = sums + parts.results * heads * dim,
                           .lse = lse.defined() ? kernels::HeadNumbers{static_cast<float*>(lse.data_ptr()), lse.stride(0),
                                                                       lse.stride(1)}
                                                : kernels::HeadNumbers(),
                           .tokens = q.size(0),
                           .heads = heads,
                           .kv_heads = kv_heads,
                           .dim = dim,
                           .wide = parts.wide,
                           .narrow = parts.narrow,
                           .results = parts.results,
                           .all_pages = memory.keys.size(0),
                           .listed_rows = parts.rows.numel() * 4 / static_cast<std::int64_t>(sizeof(kernels::PartRow)),
                           .listed_pages = parts.pages.numel(),
                           .scale = static_cast<float>(scale)};
                 });
}

}  // namespace hone::ops::cuda
