// Who has which pages of keys and values: the host's book of a memory that is cut into pages of kPageTokens tokens. Layers have
// the same book: page 7 of each holds the same tokens.
//
// A sequence is a list of pages, in order. A fork has the tokens so far in common with what it was forked from, to any depth: a system
// prompt, a prompt after it, its samples, and what follows a turn of each. Whole pages are shared. A page that is full in part is
// copied when one of those that have it goes on: what it holds of the others stays as it is.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hone::ops {

class KvPages;

// Page `from` is to become page `to`, before tokens are written to it.
struct PageCopy {
  std::int32_t from = 0, to = 0;
};

// The pages of a sequence; they are let go with it.
class PagedTokens {
 public:
  explicit PagedTokens(std::shared_ptr<KvPages> book) : book_(std::move(book)) {}
  ~PagedTokens() { truncate(0); }
  PagedTokens(PagedTokens&& other) noexcept;
  PagedTokens& operator=(PagedTokens&& other) noexcept;
  PagedTokens(const PagedTokens&) = delete;
  PagedTokens& operator=(const PagedTokens&) = delete;

  // Another one with these tokens. Its parts of attention begin again behind the whole pages of them, so that
  // what its own tokens see is summed in the same order whether or not others share them
  // (ops/sampling/page_parts.h).
  PagedTokens fork() const;

  // `count` tokens more. False: too few pages are free, and nothing has changed. Appends to `copies` what
  // is to be copied, in this order, before anything is written.
  bool extend(std::int64_t count, std::vector<PageCopy>& copies);
  // Pages that extend(count) takes.
  std::int64_t needed(std::int64_t count) const;
  void truncate(std::int64_t length);  // drops the tokens after it, with their pages

  std::int64_t length() const { return length_; }
  std::span<const std::int32_t> pages() const { return pages_; }
  std::span<const std::int64_t> cuts() const { return cuts_; }  // PagedRow::cuts
  // Returns where token `position` is: its page times kPageTokens, and its place there.
  std::int64_t slot(std::int64_t position) const;

 private:
  std::shared_ptr<KvPages> book_;
  std::vector<std::int32_t> pages_;
  std::vector<std::int64_t> cuts_;
  std::int64_t length_ = 0;
};

// One thread.
class KvPages {
 public:
  static constexpr std::int64_t kPageTokens = 64;
  static std::int64_t pages_for(std::int64_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

  explicit KvPages(std::int64_t pages);
  void add(std::int64_t pages);  // so many more, which nobody has

  std::int64_t pages() const { return static_cast<std::int64_t>(owners_.size()); }
  std::int64_t unused() const { return static_cast<std::int64_t>(unused_.size()); }
  std::int64_t owners(std::int32_t page) const { return owners_.at(static_cast<std::size_t>(page)); }

 private:
  friend class PagedTokens;
  std::int32_t take();
  void share(std::int32_t page) { ++owners_[static_cast<std::size_t>(page)]; }
  void give_back(std::int32_t page);

  std::vector<std::int32_t> owners_;  // of each page
  std::vector<std::int32_t> unused_;  // the next one last
};

// [rows, width] of all rows, dense: the pages of row i, then -1. `width` is at least the most pages of a row.
std::vector<std::int32_t> block_table(std::span<const PagedTokens* const> rows, std::int64_t width);

}  // namespace hone::ops
