#include "ops/kv_tiles.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {
namespace {

std::int64_t tiles_for(std::int64_t tokens) {
  return (tokens + kKvTile - 1) / kKvTile;
}

const backend::KvLayout* layout_of(at::Device device) {
  const backend::KvLayout* const own = backend::operators_of(device).keys_and_values;
  return own == nullptr ? &reference::kKvRows : own;
}

bool heads_contiguous(const at::Tensor& x) {
  return (x.size(2) == 1 || x.stride(2) == 1) && (x.size(1) == 1 || x.stride(1) == x.size(2));
}

}  // namespace

KvTiles::KvTiles(std::int64_t kv_heads, std::int64_t head_dim, at::ScalarType dtype, std::int64_t capacity,
                 at::Device device)
    : layout_(layout_of(device)), kv_heads_(kv_heads), head_dim_(head_dim) {
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
  layout_->append(keys_, values_, head_dim_, length_, k, v);
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
    layout_->clear(keys_, values_, head_dim_, length, std::min(whole * kKvTile, length_));
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
