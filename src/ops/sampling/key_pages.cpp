#include "ops/sampling/key_pages.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/error.h"
#include "ops/index_tensor.h"
#include "ops/sampling/page_step.h"

namespace hone::ops {
namespace {

std::uint64_t next_version() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

PageRun::PageRun(std::shared_ptr<KeyPages> pages)
    : pages_(std::move(pages)), tokens_(pages_->book_), version_(next_version()) {}

PageRun::~PageRun() {
  const std::lock_guard lock(pages_->mutex_);
  tokens_.truncate(0);
}

std::shared_ptr<PageRun> PageRun::fork() const {
  auto out = std::make_shared<PageRun>(pages_);
  const std::lock_guard lock(pages_->mutex_);
  out->tokens_ = tokens_.fork();
  return out;
}

void PageRun::truncate(std::int64_t length) {
  if (length == tokens_.length()) return;
  const std::lock_guard lock(pages_->mutex_);
  tokens_.truncate(length);
  version_ = next_version();
}

std::int64_t PageRun::bytes() const {
  return std::ssize(tokens_.pages()) * KvPages::kPageTokens * pages_->token_bytes();
}

KeyPages::KeyPages(std::vector<std::optional<KeyShape>> layers, at::Device device)
    : layers_(std::move(layers)),
      device_(device),
      book_(std::make_shared<KvPages>(0)),
      memories_(layers_.size()),
      step_(std::make_unique<PageStep>(*this)) {}

KeyPages::~KeyPages() = default;

void KeyPages::reserve(std::int64_t tokens) {
  const std::lock_guard lock(mutex_);
  book_->add(std::max<std::int64_t>(0, KvPages::pages_for(tokens) - book_->pages()));
}

std::shared_ptr<PageRun> KeyPages::take() {
  return std::make_shared<PageRun>(shared_from_this());
}

void KeyPages::extend(PageRun& run, std::int64_t length) {
  std::vector<PageCopy> copies;
  {
    const std::lock_guard lock(mutex_);
    PagedTokens& own = run.tokens_;
    if (length < own.length()) {
      own.truncate(length);
      run.version_ = next_version();
    }
    const std::int64_t count = length - own.length(), missing = own.needed(count) - book_->unused();
    if (missing > 0) book_->add(std::max(missing, book_->pages() / 8));
    base::require(own.extend(count, copies), "KeyPages::extend", "pages");
    if (!copies.empty()) run.version_ = next_version();
  }
  if (!copies.empty()) copy(copies);
}

void KeyPages::copy(std::span<const PageCopy> copies) {
  std::vector<std::int64_t> from, to;
  for (const PageCopy& one : copies) {
    from.push_back(one.from);
    to.push_back(one.to);
  }
  const at::Tensor sources = index_tensor(from, device_), places = index_tensor(to, device_);
  for (std::size_t i = 0; i < layers_.size(); ++i)
    if (layers_[i]) copy_pages(memory(static_cast<std::int64_t>(i)), places, sources);
}

const PageMemory& KeyPages::memory(std::int64_t layer) {
  PageMemory& one = memories_.at(static_cast<std::size_t>(layer));
  const std::int64_t held = one.keys.defined() ? one.keys.size(0) : 0;
  if (held >= book_->pages() && held > 0) return one;
  const std::optional<KeyShape>& shape = layers_[static_cast<std::size_t>(layer)];
  base::require(shape.has_value(), "KeyPages::memory", "a layer that has pages");
  // An eighth more than before at least, so that sequences that come one by one do not copy all of it each time.
  const PageMemory larger = make_pages(std::max(book_->pages(), held + held / 8), shape->kv_heads,
                                       shape->head_dim, at::TensorOptions(shape->dtype).device(device_));
  if (held > 0) {
    larger.keys.narrow(0, 0, held).copy_(one.keys);
    larger.values.narrow(0, 0, held).copy_(one.values);
  }
  one = larger;
  return one;
}

std::int64_t KeyPages::token_bytes() const {
  std::int64_t out = 0;
  for (const std::optional<KeyShape>& one : layers_)
    if (one)
      out += 2 * one->kv_heads * one->head_dim * static_cast<std::int64_t>(c10::elementSize(one->dtype));
  return out;
}

}  // namespace hone::ops
