#include "ops/backend/kv_pool.h"

#include <ATen/ATen.h>

#include "base/error.h"

namespace hone::ops::backend {

KvPool::KvPool(std::int64_t kv_heads, std::int64_t head_dim, at::ScalarType dtype, at::Device device)
    : kv_heads_(kv_heads), head_dim_(head_dim), options_(at::TensorOptions(dtype).device(device)) {
  base::require(kv_heads > 0 && head_dim > 0, "ops::KvPool", "heads and head_dim above 0");
}

std::int64_t KvPool::row_bytes() const {
  return 2 * kv_heads_ * head_dim_ * static_cast<std::int64_t>(c10::elementSize(dtype()));
}

at::Tensor side_by_side(const at::Tensor& k, const at::Tensor& v) {
  const std::int64_t width = k.size(1) * k.size(2);
  const bool dense = k.stride(2) == 1 && k.stride(1) == k.size(2) && k.strides() == v.strides();
  if (!dense || !k.is_alias_of(v) || v.storage_offset() != k.storage_offset() + width) return {};
  return k.as_strided({k.size(0), 2, k.size(1), k.size(2)}, {k.stride(0), width, k.size(2), 1});
}

}  // namespace hone::ops::backend
