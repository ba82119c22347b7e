// Keys and values of many sequences in pages (ops/sampling/kv_pages.h), in all layers of a model that a kernel reads in pages. There is
// one book for all of them: a sequence has the same pages in each layer, and a layer has no more than the memory.
//
// The host books; memory of a layer is allocated when it is first needed, for all that is booked by then. It is freed with the
// pages, which live as long as a run of them or an owner does.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "ops/sampling/kv_pages.h"
#include "ops/sampling/paged_attention.h"

namespace hone::ops {

class KeyPages;
class PageStep;

// The tokens of a sequence in pages, in all layers; they are let go with it.
class PageRun {
 public:
  explicit PageRun(std::shared_ptr<KeyPages> pages);
  ~PageRun();
  PageRun(const PageRun&) = delete;
  PageRun& operator=(const PageRun&) = delete;

  // Another one with these tokens, whose pages it has in common until one of both goes on.
  std::shared_ptr<PageRun> fork() const;
  void truncate(std::int64_t length);  // drops the tokens after it

  std::int64_t length() const { return tokens_.length(); }
  const PagedTokens& tokens() const { return tokens_; }
  std::int64_t bytes() const;  // of its pages in all layers
  // A number that no other run of this process has or had. Another one as soon as it has other tokens, or one in another place, but for
  // new ones behind the old.
  std::uint64_t version() const { return version_; }

 private:
  friend class KeyPages;
  std::shared_ptr<KeyPages> pages_;
  PagedTokens tokens_;
  std::uint64_t version_;
};

class KeyPages : public std::enable_shared_from_this<KeyPages> {
 public:
  // `layers`: of each layer of a model its heads, where attends_to_pages(); nothing: the layer has no pages.
  KeyPages(std::vector<std::optional<KeyShape>> layers, at::Device device);
  ~KeyPages();
  KeyPages(const KeyPages&) = delete;
  KeyPages& operator=(const KeyPages&) = delete;

  // The first allocation has room for at least so many tokens of all sequences together.
  void reserve(std::int64_t tokens);
  std::shared_ptr<PageRun> take();  // without tokens

  // The run has exactly `length` tokens then; those that are new have any content. What it has in common with others is copied first,
  // in all layers. More pages are booked where too few are free.
  void extend(PageRun& run, std::int64_t length);

  const PageMemory& memory(std::int64_t layer);  // of all pages that are booked
  const std::vector<std::optional<KeyShape>>& layers() const { return layers_; }
  bool has(std::int64_t layer) const { return layers_.at(static_cast<std::size_t>(layer)).has_value(); }
  at::Device device() const { return device_; }
  std::int64_t booked() const { return book_->pages() * KvPages::kPageTokens; }  // tokens
  std::int64_t unused() const { return book_->unused(); }                        // pages
  std::int64_t token_bytes() const;                                              // of a token in all layers
  PageStep& step() { return *step_; }

 private:
  friend class PageRun;
  void copy(std::span<const PageCopy> copies);

  const std::vector<std::optional<KeyShape>> layers_;
  const at::Device device_;
  const std::shared_ptr<KvPages> book_;
  std::mutex mutex_;  // of the book: runs are let go by any thread
  std::vector<PageMemory> memories_;
  std::unique_ptr<PageStep> step_;
};

}  // namespace hone::ops
