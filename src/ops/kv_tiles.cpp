#include "ops/kv_tiles.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "ops/backend/kv_memory.h"
#include "ops/backend/kv_row_pool.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {
namespace {

const backend::KvLayout* layout_of(at::Device device) {
  const backend::KvLayout* const own = backend::operators_of(device).keys_and_values;
  return own == nullptr || own->append == nullptr ? &reference::kKvRows : own;
}

bool heads_contiguous(const at::Tensor& x) {
  return (x.size(2) == 1 || x.stride(2) == 1) && (x.size(1) == 1 || x.stride(1) == x.size(2));
}

}  // namespace

bool pools_keys(at::Device device) {
  const backend::KvLayout* const own = backend::operators_of(device).keys_and_values;
  return own != nullptr && own->is_pooled;
}

std::shared_ptr<backend::KvPool> make_kv_pool(std::int64_t kv_heads, std::int64_t head_dim,
                                              at::ScalarType dtype, at::Device device) {
  if (!pools_keys(device)) return nullptr;
  return std::make_shared<backend::KvRowPool>(kv_heads, head_dim, dtype, device);
}

void reserve(backend::KvPool& pool, std::int64_t tokens) {
  pool.reserve(tokens);
}

KvTiles::KvTiles(std::int64_t kv_heads, std::int64_t head_dim, std::int64_t capacity,
                 const std::shared_ptr<backend::KvPool>& pool)
    : run_(pool->take(capacity)), dtype_(pool->dtype()), kv_heads_(kv_heads), head_dim_(head_dim) {}

KvTiles::KvTiles(std::int64_t kv_heads, std::int64_t head_dim, at::ScalarType dtype, std::int64_t capacity,
                 at::Device device)
    : layout_(layout_of(device)), dtype_(dtype), kv_heads_(kv_heads), head_dim_(head_dim) {
  base::require(kv_heads > 0 && head_dim > 0, "ops::KvTiles", "heads and head_dim above 0");
  base::require(dtype == at::kFloat || (dtype == at::kBFloat16 && head_dim % 2 == 0), "ops::KvTiles",
                "fp32, or bf16 with an even head_dim");
  const std::int64_t tiles = std::max<std::int64_t>(tiles_for(capacity), 1);
  keys_ = at::zeros({kv_heads, tiles, kKvTile * head_dim}, at::TensorOptions(dtype).device(device));
  values_ = at::zeros_like(keys_);
}

void KvTiles::check(const at::Tensor& k, const at::Tensor& v) const {
  base::require(k.dim() == 3 && k.size(1) == kv_heads_ && k.size(2) == head_dim_ && k.sizes() == v.sizes(),
                "ops::KvTiles", "k and v of [n, kv heads, head_dim]");
  base::require(k.scalar_type() == dtype_ && v.scalar_type() == dtype_, "ops::KvTiles",
                "k and v of the tiles' dtype");
  base::require(heads_contiguous(k) && heads_contiguous(v), "ops::KvTiles", "a row's heads side by side");
  const at::Device device = run_ ? run_->pool().device() : keys_.device();
  base::require(k.device() == device && v.device() == device, "ops::KvTiles", "k and v on the tiles' device");
}

void KvTiles::make_room(std::int64_t tokens) {
  if (run_) {
    if (tokens > run_->room()) run_->pool().make_room(*run_, tokens, length_);
    return;
  }
  const std::int64_t room = keys_.size(1), needed = tiles_for(tokens);
  if (needed <= room) return;
  const std::int64_t tiles = std::max(needed, 2 * room);
  const auto grow = [&](at::Tensor& x) {
    at::Tensor larger = at::zeros({x.size(0), tiles, x.size(2)}, x.options());
    larger.narrow(1, 0, room).copy_(x);
    x = larger;
  };
  grow(keys_);
  grow(values_);
}

void KvTiles::append(const at::Tensor& k, const at::Tensor& v) {
  if (run_) {
    const KvAppend all{.tiles = this, .begin = 0, .end = k.size(0)};
    return append_all({&all, 1}, k, v);
  }
  check(k, v);
  make_room(length_ + k.size(0));
  layout_->append(keys_, values_, head_dim_, length_, k, v);
  length_ += k.size(0);
}

backend::KvPool* KvMemory::pool_of_all(std::span<const KvAppend> rows) {
  const auto pool_of = [](const KvAppend& one) {
    return one.tiles->run_ ? &one.tiles->run_->pool() : nullptr;
  };
  backend::KvPool* const pool = rows.empty() ? nullptr : pool_of(rows.front());
  const bool together =
      std::all_of(rows.begin(), rows.end(), [&](const KvAppend& one) { return pool_of(one) == pool; });
  return together ? pool : nullptr;
}

std::vector<std::int64_t> KvMemory::take_places(std::span<const KvAppend> rows, const at::Tensor& k,
                                                const at::Tensor& v) {
  std::vector<std::int64_t> places;
  bool in_order = true;
  const KvTiles& first = *rows.front().tiles;
  first.check(k, v);
  places.reserve(static_cast<std::size_t>(k.size(0)));
  for (const KvAppend& one : rows) {
    base::require(one.tiles->kv_heads_ == first.kv_heads_ && one.tiles->head_dim_ == first.head_dim_ &&
                      one.tiles->dtype_ == first.dtype_,
                  "ops::append_all", "tiles of one shape");
    in_order = in_order && one.begin == static_cast<std::int64_t>(places.size());
    one.tiles->make_room(one.tiles->length_ + one.end - one.begin);
    const std::int64_t from = one.tiles->length_;
    for (std::int64_t i = 0; i < one.end - one.begin; ++i) places.push_back(one.tiles->run_->place(from + i));
    one.tiles->length_ += one.end - one.begin;
  }
  base::require(in_order && static_cast<std::int64_t>(places.size()) == k.size(0), "ops::append_all",
                "rows of a pool that cover k and v in order");
  return places;
}

void append_all(std::span<const KvAppend> rows, const at::Tensor& k, const at::Tensor& v) {
  if (rows.empty()) return;
  if (backend::KvPool* const pool = KvMemory::pool_of_all(rows)) {
    pool->write(k, v, KvMemory::take_places(rows, k, v));
    return;
  }
  for (const KvAppend& one : rows) {
    const auto of = [&](const at::Tensor& x) { return x.narrow(0, one.begin, one.end - one.begin); };
    one.tiles->append(of(k), of(v));
  }
}

void KvTiles::truncate(std::int64_t length) {
  base::require(length >= 0 && length <= length_, "ops::KvTiles", "a length not above what is held");
  if (run_) run_->truncate(length);
  if (length == length_ || run_) {
    length_ = length;
    return;
  }
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
  if (run_) {
    out.run_ = run_->pool().take(run_->room());
    run_->pool().copy(*run_, length_, *out.run_);
  }
  if (keys_.defined()) {
    out.keys_ = keys_.clone();
    out.values_ = values_.clone();
  }
  return out;
}

std::int64_t KvTiles::bytes() const {
  if (run_) return run_->held() * run_->pool().row_bytes();
  if (!keys_.defined()) return 0;
  return static_cast<std::int64_t>(keys_.nbytes() + values_.nbytes());
}

}  // namespace hone::ops
