#include "ops/sampling/append_rotated.h"

#include <ATen/ATen.h>

#include "ops/backend/kv_memory.h"
#include "ops/backend/kv_page_pool.h"

namespace hone::ops {

void append_rotated(std::span<const KvAppend> rows, const at::Tensor& qkv, const HeadRotation& rotation,
                    const std::function<void()>& rotate) {
  auto* const pages = dynamic_cast<backend::KvPagePool*>(KvMemory::pool_of_all(rows));
  const std::int64_t kv_heads = rows.front().tiles->kv_heads(), heads = qkv.size(1) - 2 * kv_heads;
  const at::Tensor k = qkv.narrow(1, heads, kv_heads), v = qkv.narrow(1, heads + kv_heads, kv_heads);
  if (pages == nullptr) {
    rotate();
    append_all(rows, k, v);
    return;
  }
  const std::vector<std::int64_t> places = KvMemory::take_places(rows, k, v);
  if (pages->write_rotated(qkv, rotation, places)) return;
  rotate();
  pages->write(k, v, places);
}

}  // namespace hone::ops
