// Keys and values of many sequences in one memory, a row a token, for backends that attend to all of them in one call
// (KvLayout::is_pooled). A sequence has a run of rows of its own; where it begins is a number that a kernel reads.
//
// The host books runs; memory is allocated when rows are first needed, for all that is booked by then. When a run is let
// go, its rows are free for others. The memory itself is freed with the pool, which lives as long as a run of it or an
// owner of the pool does.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace hone::ops::backend {

class KvPool;

// A run of rows of a pool.
class KvRun {
 public:
  KvRun(std::shared_ptr<KvPool> pool, std::int64_t begin, std::int64_t room)
      : pool_(std::move(pool)), begin_(begin), room_(room) {}
  ~KvRun();
  KvRun(const KvRun&) = delete;
  KvRun& operator=(const KvRun&) = delete;

  KvPool& pool() const { return *pool_; }
  std::int64_t begin() const { return begin_; }
  std::int64_t room() const { return room_; }

 private:
  friend class KvPool;
  std::shared_ptr<KvPool> pool_;
  std::int64_t begin_, room_;
};

class KvPool : public std::enable_shared_from_this<KvPool> {
 public:
  // Its runs are of a multiple of this many rows: as many bytes as ops/kv_tiles.h has on a CPU.
  static constexpr std::int64_t kStep = 64;

  KvPool(std::int64_t kv_heads, std::int64_t head_dim, at::ScalarType dtype, at::Device device);

  // The first allocation has at least so many rows.
  void reserve(std::int64_t rows);
  // A run of at least `room` rows, of any content.
  std::shared_ptr<KvRun> take(std::int64_t room);
  // Makes `run` one of at least `room` rows, whose first `length` are those that it had.
  void grow(KvRun& run, std::int64_t room, std::int64_t length);

  // k and v [n, K, D] become the rows `places` [n]: one call of the device where v follows k in one buffer, else two.
  void write(const at::Tensor& k, const at::Tensor& v, const std::vector<std::int64_t>& places);
  // The first `length` rows of `run` into the beginning of `to`, a run of this pool.
  void copy(const KvRun& run, std::int64_t length, const KvRun& to);

  // [rows, K, D] of the whole pool, rows strided.
  at::Tensor keys();
  at::Tensor values();
  std::int64_t row_bytes() const;
  std::int64_t booked() const { return booked_; }
  at::ScalarType dtype() const { return options_.dtype().toScalarType(); }
  at::Device device() const { return options_.device(); }

 private:
  friend class KvRun;
  void give_back(std::int64_t begin, std::int64_t room);
  std::int64_t book(std::int64_t room);  // where they begin
  const at::Tensor& rows();              // [rows, 2, K, D], all that is booked

  const std::int64_t kv_heads_, head_dim_;
  const at::TensorOptions options_;
  std::mutex mutex_;  // of what follows but rows_
  std::map<std::int64_t, std::int64_t>
      unused_;  // begin and room of what is booked and not taken, none beside another
  std::int64_t booked_ = 0;
  at::Tensor rows_;
};

}  // namespace hone::ops::backend
