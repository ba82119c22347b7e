#include "ops/backend/kv_pool.h"

#include "base/error.h"

namespace hone::ops::backend {

KvPool::KvPool(std::int64_t kv_heads, std::int64_t head_dim, at::ScalarType dtype, at::Device device)
    : kv_heads_(kv_heads), head_dim_(head_dim), options_(at::TensorOptions(dtype).device(device)) {
  base::require(kv_heads > 0 && head_dim > 0, "ops::KvPool", "heads and head_dim above 0");
}

std::int64_t KvPool::row_bytes() const {
  return 2 * kv_heads_ * head_dim_ * static_cast<std::int64_t>(c10::elementSize(dtype()));
}

}  // namespace hone::ops::backend
