#include "ops/sampling/paged_attention.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "ops/backend/cuda.h"
#include "ops/index_tensor.h"

namespace hone::ops {

using at::Tensor;

PageMemory make_pages(std::int64_t pages, std::int64_t kv_heads, std::int64_t head_dim,
                      const at::TensorOptions& options) {
  const std::vector<std::int64_t> shape = {pages, kv_heads, kPageTokens, head_dim};
  return {.keys = at::empty(shape, options), .values = at::empty(shape, options)};
}

void write_pages(const PageMemory& memory, const Tensor& k, const Tensor& v, const Tensor& slots) {
  const Tensor page = slots.div(kPageTokens, "floor"), place = slots.remainder(kPageTokens);
  // [pages, tokens, K, D], so that a token is one row of both indices.
  memory.keys.transpose(1, 2).index_put_({page, place}, k);
  memory.values.transpose(1, 2).index_put_({page, place}, v);
}

void copy_pages(const PageMemory& memory, const Tensor& to, const Tensor& from) {
  memory.keys.index_copy_(0, to, memory.keys.index_select(0, from));
  memory.values.index_copy_(0, to, memory.values.index_select(0, from));
}

SentParts send(const PageParts& parts, at::Device device) {
  return {.parts = staged_list(parts.parts, device),
          .rows = staged_list(parts.rows, device),
          .pages = staged_list(parts.pages, device),
          .results_of = staged_list(parts.results_of, device),
          .wide = parts.wide,
          .narrow = static_cast<std::int64_t>(parts.parts.size()) - parts.wide,
          .results = parts.results};
}

bool attend_pages(const Tensor& out, const Tensor& lse, const Tensor& q, const PageMemory& memory,
                  const SentParts& parts, double scale) {
  base::require(parts.results_of.numel() == q.size(0) + 1, "attend_pages", "a row of parts for each of q");
  return cuda::attend_pages(out, lse, q, memory, parts, scale);
}

}  // namespace hone::ops
