#include "ops/sampling/paged_attention.h"

#include <ATen/ATen.h>

#include <cstring>

#include "base/error.h"
#include "ops/backend/cuda.h"
#include "ops/backend/kv_pool.h"
#include "ops/index_tensor.h"

namespace hone::ops {
namespace {

using at::Tensor;

// Lists of structures, or of numbers, side by side as int32.
class Lists {
 public:
  template <typename T>
  void add(const std::vector<T>& list) {
    static_assert(sizeof(T) % sizeof(std::int32_t) == 0);
    const std::size_t begin = all_.size(), count = list.size() * sizeof(T) / sizeof(std::int32_t);
    all_.resize(begin + count);
    if (count > 0) std::memcpy(all_.data() + begin, list.data(), list.size() * sizeof(T));
    sizes_.push_back(static_cast<std::int64_t>(count));
  }
  std::vector<Tensor> send(at::Device device) const {
    return staged(at::tensor(all_, at::kInt), device).split_with_sizes(sizes_);
  }

 private:
  std::vector<std::int32_t> all_;
  std::vector<std::int64_t> sizes_;
};

}  // namespace

PageMemory make_pages(std::int64_t pages, std::int64_t kv_heads, std::int64_t head_dim,
                      const at::TensorOptions& options) {
  const at::Tensor both = at::empty({2, pages, kv_heads, kPageTokens, head_dim}, options);
  return {.keys = both.select(0, 0), .values = both.select(0, 1), .both = both};
}

PageSlots send_slots(const std::vector<std::int64_t>& slots, at::Device device) {
  std::vector<std::int64_t> both;
  both.reserve(2 * slots.size());
  for (const std::int64_t slot : slots) both.push_back(slot / kPageTokens);
  for (const std::int64_t slot : slots) both.push_back(slot % kPageTokens);
  const auto count = static_cast<std::int64_t>(slots.size());
  const Tensor sent = index_tensor(both, device);
  return {.page = sent.narrow(0, 0, count), .place = sent.narrow(0, count, count)};
}

void write_pages(const PageMemory& memory, const Tensor& k, const Tensor& v, const PageSlots& slots) {
  if (const Tensor side_by_side = backend::side_by_side(k, v);
      memory.both.defined() && side_by_side.defined()) {
    // [pages, tokens, 2, K, D]: keys and values of all in one call.
    memory.both.permute({1, 3, 0, 2, 4}).index_put_({slots.page, slots.place}, side_by_side);
    return;
  }
  // [pages, tokens, K, D], so that a token is one row of both indices.
  memory.keys.transpose(1, 2).index_put_({slots.page, slots.place}, k);
  memory.values.transpose(1, 2).index_put_({slots.page, slots.place}, v);
}

void copy_pages(const PageMemory& memory, const Tensor& to, const Tensor& from) {
  memory.keys.index_copy_(0, to, memory.keys.index_select(0, from));
  memory.values.index_copy_(0, to, memory.values.index_select(0, from));
}

SentParts send(const PageParts& parts, at::Device device) {
  Lists lists;
  lists.add(parts.parts);
  lists.add(parts.rows);
  lists.add(parts.pages);
  lists.add(parts.results_of);
  const std::vector<Tensor> sent = lists.send(device);
  return {.parts = sent[0],
          .rows = sent[1],
          .pages = sent[2],
          .results_of = sent[3],
          .wide = parts.wide,
          .narrow = static_cast<std::int64_t>(parts.parts.size()) - parts.wide,
          .results = parts.results};
}

bool attend_pages(const Tensor& out, const Tensor& lse, const Tensor& q, const PageMemory& memory,
                  const SentParts& parts, double scale) {
  base::require(parts.results_of.numel() == q.size(0) + 1, "attend_pages", "a row of parts for each of q");
  return cuda::attend_pages(out, lse, q, memory, parts, scale);
}

bool attends_to_pages(const KeyShape& shape, at::Device device) {
  return shape.sees_all && pools_keys(device) && cuda::has_own_kernels(device) &&
         cuda::takes_pages(shape.dtype, shape.heads / shape.kv_heads, shape.head_dim);
}

}  // namespace hone::ops
