// Keys and values of many sequences in one memory of a layer, for backends that attend to all of them in one call
// (KvLayout::is_pooled). What a sequence has there is a run of neighboring rows (kv_row_pool.h).
//
// The host books; memory is allocated when it is first needed, for all that is booked by then. What a run lets go is free for others.
// The memory itself is freed with the pool, which lives as long as a run of it or an owner of the pool does.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace hone::ops::backend {

class KvPool;

// What a sequence has of a pool, which is its pages or rows, and is let go with it.
class KvRun {
 public:
  virtual ~KvRun() = default;
  KvRun(const KvRun&) = delete;
  KvRun& operator=(const KvRun&) = delete;

  KvPool& pool() const { return *pool_; }
  virtual std::int64_t room() const = 0;  // tokens that may be written
  virtual std::int64_t held() const = 0;  // tokens that its memory would hold
  // Where its token is, for KvPool::write; below room().
  virtual std::int64_t place(std::int64_t token) const = 0;
  virtual void truncate(std::int64_t length) = 0;  // the tokens after it are not needed

 protected:
  explicit KvRun(std::shared_ptr<KvPool> pool) : pool_(std::move(pool)) {}

 private:
  std::shared_ptr<KvPool> pool_;
};

class KvPool : public std::enable_shared_from_this<KvPool> {
 public:
  // [1] head of keys or more; fp32 or bf16.
  KvPool(std::int64_t kv_heads, std::int64_t head_dim, at::ScalarType dtype, at::Device device);
  virtual ~KvPool() = default;
  KvPool(const KvPool&) = delete;
  KvPool& operator=(const KvPool&) = delete;

  // The first allocation has room for at least so many tokens.
  virtual void reserve(std::int64_t tokens) = 0;
  // A run that is to have at least `room` tokens, of any content.
  virtual std::shared_ptr<KvRun> take(std::int64_t room) = 0;
  // `run` has room for `tokens`; its first `length` stay.
  virtual void make_room(KvRun& run, std::int64_t tokens, std::int64_t length) = 0;
  // k and v [n, K, D] become the tokens at `places` [n].
  virtual void write(const at::Tensor& k, const at::Tensor& v, const std::vector<std::int64_t>& places) = 0;
  // `to`, another run of this pool, begins with the first `length` tokens of `run`.
  virtual void copy(const KvRun& run, std::int64_t length, KvRun& to) = 0;
  // The first `length` tokens of a run, [K, length, D] each: what the reference reads.
  virtual std::pair<at::Tensor, at::Tensor> rows(const KvRun& run, std::int64_t length) = 0;
  virtual std::int64_t booked() const = 0;  // tokens

  std::int64_t row_bytes() const;  // of a token
  at::ScalarType dtype() const { return options_.dtype().toScalarType(); }
  at::Device device() const { return options_.device(); }

 protected:
  const std::int64_t kv_heads_, head_dim_;
  const at::TensorOptions options_;
};

// k and v [n, K, D] as [n, 2, K, D], if they are slices of one buffer in which v follows k; else undefined.
at::Tensor side_by_side(const at::Tensor& k, const at::Tensor& v);

}  // namespace hone::ops::backend
