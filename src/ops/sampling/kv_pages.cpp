#include "ops/sampling/kv_pages.h"

#include <algorithm>

#include "base/error.h"
#include "base/numeric.h"

namespace hone::ops {

KvPages::KvPages(std::int64_t pages) {
  add(pages);
}

// Behind those that are unused already, so that low numbers are taken first.
void KvPages::add(std::int64_t pages) {
  std::vector<std::int32_t> all;
  for (std::int64_t page = this->pages() + pages - 1; page >= this->pages(); --page)
    all.push_back(base::narrow<std::int32_t>(page));
  owners_.resize(owners_.size() + static_cast<std::size_t>(pages), 0);
  unused_.insert(unused_.begin(), all.begin(), all.end());
}

std::int32_t KvPages::take() {
  base::require(!unused_.empty(), "KvPages::take", "a page that nobody has");
  const std::int32_t page = unused_.back();
  unused_.pop_back();
  owners_[static_cast<std::size_t>(page)] = 1;
  return page;
}

void KvPages::give_back(std::int32_t page) {
  std::int32_t& owners = owners_[static_cast<std::size_t>(page)];
  base::require(owners > 0, "KvPages::give_back", "a page that somebody has");
  if (--owners == 0) unused_.push_back(page);
}

PagedTokens::PagedTokens(PagedTokens&& other) noexcept
    : book_(std::move(other.book_)),
      pages_(std::exchange(other.pages_, {})),
      cuts_(std::exchange(other.cuts_, {})),
      length_(std::exchange(other.length_, 0)) {}

PagedTokens& PagedTokens::operator=(PagedTokens&& other) noexcept {
  std::swap(book_, other.book_);
  std::swap(pages_, other.pages_);
  std::swap(cuts_, other.cuts_);
  std::swap(length_, other.length_);
  return *this;
}

PagedTokens PagedTokens::fork() const {
  PagedTokens out(book_);
  out.pages_ = pages_;
  out.cuts_ = cuts_;
  out.length_ = length_;
  for (const std::int32_t page : pages_) book_->share(page);
  const std::int64_t whole = length_ / KvPages::kPageTokens;
  if (whole > 0 && (cuts_.empty() || cuts_.back() < whole)) out.cuts_.push_back(whole);
  return out;
}

std::int64_t PagedTokens::needed(std::int64_t count) const {
  if (count == 0) return 0;
  const bool is_copied = length_ % KvPages::kPageTokens != 0 && book_->owners(pages_.back()) > 1;
  return KvPages::pages_for(length_ + count) - static_cast<std::int64_t>(pages_.size()) + (is_copied ? 1 : 0);
}

bool PagedTokens::extend(std::int64_t count, std::vector<PageCopy>& copies) {
  base::require(count >= 0, "PagedTokens::extend", "tokens");
  if (needed(count) > book_->unused()) return false;
  if (count > 0 && length_ % KvPages::kPageTokens != 0 && book_->owners(pages_.back()) > 1) {
    const std::int32_t own = book_->take();
    copies.push_back({.from = pages_.back(), .to = own});
    book_->give_back(pages_.back());
    pages_.back() = own;
  }
  length_ += count;
  while (static_cast<std::int64_t>(pages_.size()) < KvPages::pages_for(length_))
    pages_.push_back(book_->take());
  return true;
}

void PagedTokens::truncate(std::int64_t length) {
  base::require(length >= 0 && length <= length_, "PagedTokens::truncate", "a length that it has");
  length_ = length;
  while (static_cast<std::int64_t>(pages_.size()) > KvPages::pages_for(length)) {
    book_->give_back(pages_.back());
    pages_.pop_back();
  }
  while (!cuts_.empty() && cuts_.back() > length / KvPages::kPageTokens) cuts_.pop_back();
}

std::int64_t PagedTokens::slot(std::int64_t position) const {
  base::require(position >= 0 && position < length_, "PagedTokens::slot", "a position that it has");
  const auto page = static_cast<std::size_t>(position / KvPages::kPageTokens);
  return pages_[page] * KvPages::kPageTokens + position % KvPages::kPageTokens;
}

std::vector<std::int32_t> block_table(std::span<const PagedTokens* const> rows, std::int64_t width) {
  std::vector<std::int32_t> out(rows.size() * static_cast<std::size_t>(width), -1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const std::int32_t> pages = rows[i]->pages();
    base::require(static_cast<std::int64_t>(pages.size()) <= width, "block_table",
                  "a width of the most pages of a row");
    std::copy(pages.begin(), pages.end(),
              out.begin() + static_cast<std::ptrdiff_t>(i * static_cast<std::size_t>(width)));
  }
  return out;
}

}  // namespace hone::ops
