// Keys and values of one sequence in one layer, in tiles of 64 tokens, as the attention kernels read them.
// Prefill, decode and training all use it, so that a row's attention has the same bits in each.
//
// A tile starts at a multiple of 64 tokens from the sequence's own start, independent of the rest of the
// batch. What is where in a tile is the backend's own business (ops/backend/layouts.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace hone::ops {
namespace backend {
struct KvLayout;
}

constexpr std::int64_t kKvTile = 64;

class KvTiles {
 public:
  KvTiles() = default;
  // Initial capacity in tokens; grows by doubling. fp32, or bf16 with an even head_dim.
  KvTiles(std::int64_t kv_heads, std::int64_t head_dim, at::ScalarType dtype, std::int64_t capacity,
          at::Device device = at::kCPU);

  // k (already rotated) and v [n, K, D] on the tiles' device; rows may be strided, a row's heads are
  // contiguous.
  void append(const at::Tensor& k, const at::Tensor& v);
  void truncate(std::int64_t length);  // drops the tokens after it; the capacity stays
  KvTiles clone() const;               // with memory of its own; copying the object shares it

  std::int64_t length() const { return length_; }
  std::int64_t kv_heads() const { return kv_heads_; }
  std::int64_t head_dim() const { return head_dim_; }
  std::int64_t bytes() const;  // of the capacity, not only of what is written
  at::ScalarType dtype() const { return keys_.scalar_type(); }

 private:
  friend class KvMemory;      // ops/backend/kv_memory.h
  at::Tensor keys_, values_;  // [K, tiles, 64 * D] each; unwritten places are zero
  const backend::KvLayout* layout_ = nullptr;
  std::int64_t kv_heads_ = 0, head_dim_ = 0, length_ = 0;
};

}  // namespace hone::ops
