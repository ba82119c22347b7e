// Keys and values of one sequence in one layer, in tiles of 64 tokens, as the attention kernels read them.
// Prefill, decode and training all use it, so that a row's attention has the same bits in each.
//
// A tile starts at a multiple of 64 tokens from the sequence's own start, independent of the rest of the
// batch. What is where in a tile is the backend's own business (ops/backend/layouts.h): one may keep rows of many
// sequences in a pool instead.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <span>

namespace hone::ops {
namespace backend {
struct KvLayout;
class KvPool;
class KvRun;
}  // namespace backend

constexpr std::int64_t kKvTile = 64;
// How many tiles hold so many tokens.
constexpr std::int64_t tiles_for(std::int64_t tokens) {
  return (tokens + kKvTile - 1) / kKvTile;
}

struct KvAppend;

// Returns whether the device's backend keeps the keys and values of many sequences in one memory
// (ops/backend/kv_pool.h), so that one call appends to all of them and one attends to all.
bool pools_keys(at::Device device);
// Such a memory; sequences whose tiles are attended to in one call are to be of one. Null: pools_keys() is false.
std::shared_ptr<backend::KvPool> make_kv_pool(std::int64_t kv_heads, std::int64_t head_dim,
                                              at::ScalarType dtype, at::Device device);
// The first allocation of `pool` has room for at least so many tokens, of all its sequences together.
void reserve(backend::KvPool& pool, std::int64_t tokens);

class KvTiles {
 public:
  KvTiles() = default;
  // Initial capacity in tokens; grows by doubling. fp32, or bf16 with an even head_dim.
  KvTiles(std::int64_t kv_heads, std::int64_t head_dim, at::ScalarType dtype, std::int64_t capacity,
          at::Device device = at::kCPU);
  // The same in a pool of these heads, on its device and of its dtype.
  KvTiles(std::int64_t kv_heads, std::int64_t head_dim, std::int64_t capacity,
          const std::shared_ptr<backend::KvPool>& pool);

  // k (already rotated) and v [n, K, D] on the tiles' device; rows may be strided, a row's heads are
  // contiguous.
  void append(const at::Tensor& k, const at::Tensor& v);
  void truncate(std::int64_t length);  // drops the tokens after it; the capacity stays
  KvTiles clone() const;               // with memory of its own; copying the object shares it

  std::int64_t length() const { return length_; }
  std::int64_t kv_heads() const { return kv_heads_; }
  std::int64_t head_dim() const { return head_dim_; }
  std::int64_t bytes() const;  // of the capacity, not only of what is written
  at::ScalarType dtype() const { return dtype_; }

 private:
  friend class KvMemory;  // ops/backend/kv_memory.h
  friend void append_all(std::span<const KvAppend> rows, const at::Tensor& k, const at::Tensor& v);
  void check(const at::Tensor& k, const at::Tensor& v) const;
  void make_room(std::int64_t tokens);

  at::Tensor keys_, values_;  // [K, tiles, 64 * D] each; unwritten places are zero. Undefined in a pool
  std::shared_ptr<backend::KvRun> run_;  // of a pool; null: keys_ and values_
  const backend::KvLayout* layout_ = nullptr;
  at::ScalarType dtype_ = at::ScalarType::Undefined;
  std::int64_t kv_heads_ = 0, head_dim_ = 0, length_ = 0;
};

// Rows [begin, end) of a step's keys and values are the next tokens of `tiles`.
struct KvAppend {
  KvTiles* tiles = nullptr;
  std::int64_t begin = 0, end = 0;
};

// KvTiles::append() of each, all different, from k and v [T, K, D]: in one call of the device where all are of one pool.
void append_all(std::span<const KvAppend> rows, const at::Tensor& k, const at::Tensor& v);

}  // namespace hone::ops
