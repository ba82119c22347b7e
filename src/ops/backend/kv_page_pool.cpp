#include "ops/backend/kv_page_pool.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "ops/backend/cuda.h"
#include "ops/index_tensor.h"

namespace hone::ops::backend {
namespace {

// All layers of a step write to the same places: they go to the device once.
const PageSlots& slots_of(const std::vector<std::int64_t>& places, at::Device device) {
  struct Last {
    std::vector<std::int64_t> places;
    PageSlots slots;
  };
  thread_local Last last;
  if (!last.slots.page.defined() || last.slots.page.device() != device || last.places != places) {
    last = {};  // what comes next may lie where this was: a step's launches then have the same addresses
    last = {places, send_slots(places, device)};
  }
  return last.slots;
}

at::Tensor index_of(const std::vector<std::int32_t>& pages, at::Device device) {
  return index_tensor({pages.begin(), pages.end()}, device);
}

}  // namespace

KvPageRun::KvPageRun(std::shared_ptr<KvPagePool> pool, std::shared_ptr<KvPages> book)
    : KvRun(std::move(pool)), tokens_(std::move(book)) {}

KvPageRun::~KvPageRun() {
  truncate(0);
}

void KvPageRun::truncate(std::int64_t length) {
  const std::lock_guard lock(static_cast<KvPagePool&>(pool()).mutex_);
  if (length < tokens_.length()) tokens_.truncate(length);
}

KvPagePool::KvPagePool(std::int64_t kv_heads, std::int64_t head_dim, at::ScalarType dtype, at::Device device)
    : KvPool(kv_heads, head_dim, dtype, device), book_(std::make_shared<KvPages>(0)) {}

void KvPagePool::reserve(std::int64_t tokens) {
  const std::lock_guard lock(mutex_);
  book_->add(std::max<std::int64_t>(0, KvPages::pages_for(tokens) - book_->pages()));
}

std::shared_ptr<KvRun> KvPagePool::take(std::int64_t /*room*/) {
  return std::make_shared<KvPageRun>(std::static_pointer_cast<KvPagePool>(shared_from_this()), book_);
}

void KvPagePool::make_room(KvRun& run, std::int64_t tokens, std::int64_t length) {
  PagedTokens& own = static_cast<KvPageRun&>(run).tokens_;
  std::vector<PageCopy> copies;
  {
    const std::lock_guard lock(mutex_);
    if (length < own.length()) own.truncate(length);
    const std::int64_t missing = own.needed(tokens - own.length()) - book_->unused();
    if (missing > 0) book_->add(std::max(missing, book_->pages() / 8));
    base::require(own.extend(tokens - own.length(), copies), "KvPagePool::make_room", "pages");
  }
  if (copies.empty()) return;
  std::vector<std::int32_t> from, to;
  for (const PageCopy& one : copies) {
    from.push_back(one.from);
    to.push_back(one.to);
  }
  copy_pages(memory(), index_of(to, device()), index_of(from, device()));
}

void KvPagePool::write(const at::Tensor& k, const at::Tensor& v, const std::vector<std::int64_t>& places) {
  if (!places.empty()) write_pages(memory(), k, v, slots_of(places, device()));
}

bool KvPagePool::write_rotated(const at::Tensor& qkv, const HeadRotation& rotation,
                               const std::vector<std::int64_t>& places) {
  return !places.empty() && cuda::step_heads(qkv, rotation, memory(), slots_of(places, device()));
}

void KvPagePool::copy(const KvRun& run, std::int64_t length, KvRun& to) {
  const std::lock_guard lock(mutex_);
  PagedTokens copied = static_cast<const KvPageRun&>(run).tokens_.fork();
  copied.truncate(length);
  static_cast<KvPageRun&>(to).tokens_ = std::move(copied);
}

std::pair<at::Tensor, at::Tensor> KvPagePool::rows(const KvRun& run, std::int64_t length) {
  const std::span<const std::int32_t> pages = static_cast<const KvPageRun&>(run).tokens_.pages();
  const auto count = static_cast<std::size_t>(KvPages::pages_for(length));
  const at::Tensor index =
      index_of({pages.begin(), pages.begin() + static_cast<std::ptrdiff_t>(count)}, device());
  // [pages, K, 64, D] to [K, pages * 64, D]
  const auto of = [&](const at::Tensor& all) {
    return all.index_select(0, index).transpose(0, 1).flatten(1, 2).narrow(1, 0, length);
  };
  return {of(memory().keys), of(memory().values)};
}

const PageMemory& KvPagePool::memory() {
  const std::int64_t held = memory_.keys.defined() ? memory_.keys.size(0) : 0;
  if (held >= book_->pages()) return memory_;
  // An eighth more than before at least, so that sequences that come one by one do not copy all of it each time.
  const PageMemory larger =
      make_pages(std::max(book_->pages(), held + held / 8), kv_heads_, head_dim_, options_);
  if (held > 0) {
    larger.keys.narrow(0, 0, held).copy_(memory_.keys);
    larger.values.narrow(0, 0, held).copy_(memory_.values);
  }
  memory_ = larger;
  return memory_;
}

}  // namespace hone::ops::backend
