#include "ops/kv_tiles.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"

namespace hone::ops {
namespace {

std::int64_t tiles_for(std::int64_t tokens) {
  return (tokens + kKvTile - 1) / kKvTile;
}

// The part [from, from + n) of tile `tile`, as [n, K, D / 2, 2] (bf16) or [n, K, D] (fp32): what a row of k
// looks like.
at::Tensor key_rows(const at::Tensor& keys, std::int64_t head_dim, std::int64_t tile, std::int64_t from,
                    std::int64_t n) {
  const at::Tensor one = keys.select(1, tile);
  if (keys.scalar_type() == at::kFloat) {
    return one.view({-1, head_dim, kKvTile}).narrow(2, from, n).permute({2, 0, 1});
  }
  return one.view({-1, head_dim / 2, kKvTile, 2}).narrow(2, from, n).permute({2, 0, 1, 3});
}

// Calls part(first, count, places) for the values of tokens [from, from + n) of a tile: `places` is shaped as
// a [count, K, D] of rows, or as [pairs, 2, K, D]. In bf16 only whole pairs of tokens can be sliced, so that
// a token at either end may be a part of its own.
template <typename Part>
void for_value_rows(const at::Tensor& values, std::int64_t head_dim, std::int64_t tile, std::int64_t from,
                    std::int64_t n, const Part& part) {
  const at::Tensor one = values.select(1, tile);
  if (values.scalar_type() == at::kFloat) {
    part(std::int64_t{0}, n, one.view({-1, kKvTile, head_dim}).narrow(1, from, n).transpose(0, 1));
    return;
  }
  const at::Tensor pairs = one.view({-1, kKvTile / 2, head_dim, 2}).permute({1, 3, 0, 2});  // [32, 2, K, D]
  const auto single = [&](std::int64_t slot) {
    part(slot - from, std::int64_t{1}, pairs.select(0, slot / 2).narrow(0, slot % 2, 1));
  };
  const std::int64_t end = from + n, begin_pairs = from + from % 2, end_pairs = end - end % 2;
  if (begin_pairs > from) single(from);
  if (end_pairs > begin_pairs) {
    part(begin_pairs - from, end_pairs - begin_pairs,
         pairs.narrow(0, begin_pairs / 2, (end_pairs - begin_pairs) / 2));
  }
  if (end > end_pairs) single(end_pairs);
}

void append_any(const at::Tensor& keys, const at::Tensor& values, std::int64_t head_dim, std::int64_t begin,
                const at::Tensor& k, const at::Tensor& v) {
  const bool pairs = keys.scalar_type() == at::kBFloat16;
  const std::int64_t kv_heads = k.size(1);
  for (std::int64_t done = 0; done < k.size(0);) {
    const std::int64_t tile = (begin + done) / kKvTile, from = (begin + done) % kKvTile;
    const std::int64_t n = std::min(kKvTile - from, k.size(0) - done);
    const at::Tensor rows = k.narrow(0, done, n);
    key_rows(keys, head_dim, tile, from, n)
        .copy_(pairs ? rows.reshape({n, kv_heads, head_dim / 2, 2}) : rows);
    for_value_rows(values, head_dim, tile, from, n,
                   [&](std::int64_t first, std::int64_t count, const at::Tensor& places) {
                     places.copy_(v.narrow(0, done + first, count).reshape(places.sizes()));
                   });
    done += n;
  }
}

// The same on the CPU, element by element: T is a 16 or 32 bit integer, pair 2 or 1.
template <typename T, std::int64_t pair>
void append_cpu(const at::Tensor& keys, const at::Tensor& values, std::int64_t head_dim, std::int64_t begin,
                const at::Tensor& k, const at::Tensor& v) {
  const std::int64_t head_stride = keys.stride(0), tile_size = keys.stride(1);
  for (std::int64_t h = 0; h < k.size(1); ++h) {
    T* const head_keys = static_cast<T*>(keys.data_ptr()) + h * head_stride;
    T* const head_values = static_cast<T*>(values.data_ptr()) + h * head_stride;
    for (std::int64_t i = 0; i < k.size(0); ++i) {
      const T* const from_k = static_cast<const T*>(k.const_data_ptr()) + i * k.stride(0) + h * head_dim;
      const T* const from_v = static_cast<const T*>(v.const_data_ptr()) + i * v.stride(0) + h * head_dim;
      const std::int64_t tile = (begin + i) / kKvTile, slot = (begin + i) % kKvTile;
      T* const to_k = head_keys + tile * tile_size + slot * pair;
      T* const to_v = head_values + tile * tile_size + slot / pair * head_dim * pair + slot % pair;
      for (std::int64_t d = 0; d < head_dim; ++d) {
        to_k[d / pair * kKvTile * pair + d % pair] = from_k[d];
        to_v[d * pair] = from_v[d];
      }
    }
  }
}

bool heads_contiguous(const at::Tensor& x) {
  return (x.size(2) == 1 || x.stride(2) == 1) && (x.size(1) == 1 || x.stride(1) == x.size(2));
}

}  // namespace

KvTiles::KvTiles(std::int64_t kv_heads, std::int64_t head_dim, at::ScalarType dtype, std::int64_t capacity,
                 at::Device device)
    : kv_heads_(kv_heads), head_dim_(head_dim) {
  base::require(kv_heads > 0 && head_dim > 0, "ops::KvTiles", "heads and head_dim above 0");
  base::require(dtype == at::kFloat || (dtype == at::kBFloat16 && head_dim % 2 == 0), "ops::KvTiles",
                "fp32, or bf16 with an even head_dim");
  const std::int64_t tiles = std::max<std::int64_t>(tiles_for(capacity), 1);
  keys_ = at::zeros({kv_heads, tiles, kKvTile * head_dim}, at::TensorOptions(dtype).device(device));
  values_ = at::zeros_like(keys_);
}

void KvTiles::append(const at::Tensor& k, const at::Tensor& v) {
  base::require(k.dim() == 3 && k.size(1) == kv_heads_ && k.size(2) == head_dim_ && k.sizes() == v.sizes(),
                "ops::KvTiles", "k and v of [n, kv heads, head_dim]");
  base::require(k.scalar_type() == keys_.scalar_type() && v.scalar_type() == keys_.scalar_type(),
                "ops::KvTiles", "k and v of the tiles' dtype");
  base::require(heads_contiguous(k) && heads_contiguous(v), "ops::KvTiles", "a row's heads side by side");
  base::require(k.device() == keys_.device() && v.device() == keys_.device(), "ops::KvTiles",
                "k and v on the tiles' device");
  const std::int64_t room = keys_.size(1), needed = tiles_for(length_ + k.size(0));
  if (needed > room) {
    const std::int64_t tiles = std::max(needed, 2 * room);
    const auto grow = [&](at::Tensor& x) {
      at::Tensor larger = at::zeros({x.size(0), tiles, x.size(2)}, x.options());
      larger.narrow(1, 0, room).copy_(x);
      x = larger;
    };
    grow(keys_);
    grow(values_);
  }
  if (!k.device().is_cpu()) {
    append_any(keys_, values_, head_dim_, length_, k, v);
  } else if (keys_.scalar_type() == at::kBFloat16) {
    append_cpu<std::uint16_t, 2>(keys_, values_, head_dim_, length_, k, v);
  } else {
    append_cpu<std::uint32_t, 1>(keys_, values_, head_dim_, length_, k, v);
  }
  length_ += k.size(0);
}

void KvTiles::truncate(std::int64_t length) {
  base::require(length >= 0 && length <= length_, "ops::KvTiles", "a length not above what is held");
  if (length == length_) return;
  // What was written becomes zero again: a masked place is multiplied by 0, which NaN and infinity would
  // survive.
  const std::int64_t tile = length / kKvTile, from = length % kKvTile;
  const std::int64_t whole = tile + (from > 0 ? 1 : 0), end = tiles_for(length_);
  if (from > 0) {
    const std::int64_t n = std::min(kKvTile, length_ - tile * kKvTile) - from;
    key_rows(keys_, head_dim_, tile, from, n).zero_();
    for_value_rows(values_, head_dim_, tile, from, n,
                   [](std::int64_t, std::int64_t, const at::Tensor& places) { places.zero_(); });
  }
  keys_.narrow(1, whole, end - whole).zero_();
  values_.narrow(1, whole, end - whole).zero_();
  length_ = length;
}

KvTiles KvTiles::clone() const {
  KvTiles out = *this;
  if (keys_.defined()) {
    out.keys_ = keys_.clone();
    out.values_ = values_.clone();
  }
  return out;
}

std::int64_t KvTiles::bytes() const {
  if (!keys_.defined()) return 0;
  return static_cast<std::int64_t>(keys_.nbytes() + values_.nbytes());
}

}  // namespace hone::ops
