// A pool whose sequences have pages of kPageTokens tokens (ops/sampling/kv_pages.h): memory is taken as tokens come, and copies of a
// sequence have its pages in common until one of them goes on. For devices with a kernel that reads pages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/backend/kv_pool.h"
#include "ops/sampling/append_rotated.h"
#include "ops/sampling/kv_pages.h"
#include "ops/sampling/paged_attention.h"

namespace hone::ops::backend {

class KvPagePool;

class KvPageRun final : public KvRun {
 public:
  KvPageRun(std::shared_ptr<KvPagePool> pool, std::shared_ptr<KvPages> book);
  ~KvPageRun() override;
  KvPageRun(const KvPageRun&) = delete;
  KvPageRun& operator=(const KvPageRun&) = delete;

  const PagedTokens& tokens() const { return tokens_; }
  std::int64_t room() const override { return tokens_.length(); }
  std::int64_t held() const override {
    return static_cast<std::int64_t>(tokens_.pages().size()) * KvPages::kPageTokens;
  }
  std::int64_t place(std::int64_t token) const override { return tokens_.slot(token); }
  void truncate(std::int64_t length) override;

 private:
  friend class KvPagePool;
  PagedTokens tokens_;
};

class KvPagePool final : public KvPool {
 public:
  KvPagePool(std::int64_t kv_heads, std::int64_t head_dim, at::ScalarType dtype, at::Device device);

  void reserve(std::int64_t tokens) override;
  std::shared_ptr<KvRun> take(std::int64_t room) override;  // without pages
  // Exactly for `tokens`, where it has fewer. What it has in common with others is copied first.
  void make_room(KvRun& run, std::int64_t tokens, std::int64_t length) override;
  void write(const at::Tensor& k, const at::Tensor& v, const std::vector<std::int64_t>& places) override;
  // write() of the keys and values of qkv [n, N + 2 K, D] with `rotation` of queries and keys, where hone's own kernels do both at once
  // (ops/sampling/append_rotated.h). False: nothing was written.
  bool write_rotated(const at::Tensor& qkv, const HeadRotation& rotation,
                     const std::vector<std::int64_t>& places);
  void copy(const KvRun& run, std::int64_t length, KvRun& to) override;  // copies nothing yet
  std::pair<at::Tensor, at::Tensor> rows(const KvRun& run, std::int64_t length) override;
  std::int64_t booked() const override { return book_->pages() * KvPages::kPageTokens; }

  const PageMemory& memory();  // of all pages that are booked
  std::int64_t unused() const { return book_->unused(); }

 private:
  friend class KvPageRun;
  const std::shared_ptr<KvPages> book_;
  std::mutex mutex_;  // of the book
  PageMemory memory_;
};

}  // namespace hone::ops::backend
