// A pool whose sequences have neighboring rows, a row a token: where a sequence's rows begin is a number that a kernel reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/backend/kv_pool.h"

namespace hone::ops::backend {

class KvRowPool;

class KvRowRun final : public KvRun {
 public:
  KvRowRun(std::shared_ptr<KvRowPool> pool, std::int64_t begin, std::int64_t room);
  ~KvRowRun() override;
  KvRowRun(const KvRowRun&) = delete;
  KvRowRun& operator=(const KvRowRun&) = delete;

  std::int64_t begin() const { return begin_; }
  std::int64_t room() const override { return room_; }
  std::int64_t held() const override { return room_; }
  std::int64_t place(std::int64_t token) const override { return begin_ + token; }
  void truncate(std::int64_t /*length*/) override {}  // its rows stay its own

 private:
  friend class KvRowPool;
  std::int64_t begin_, room_;
};

class KvRowPool final : public KvPool {
 public:
  // Its runs are of a multiple of this many rows: as many bytes as ops/kv_tiles.h has on a CPU.
  static constexpr std::int64_t kStep = 64;

  using KvPool::KvPool;

  void reserve(std::int64_t rows) override;
  std::shared_ptr<KvRun> take(std::int64_t room) override;
  // A run that is too short becomes one of twice its room at least.
  void make_room(KvRun& run, std::int64_t tokens, std::int64_t length) override;
  // One call of the device where v follows k in one buffer, else two.
  void write(const at::Tensor& k, const at::Tensor& v, const std::vector<std::int64_t>& places) override;
  void copy(const KvRun& run, std::int64_t length, KvRun& to) override;
  std::pair<at::Tensor, at::Tensor> rows(const KvRun& run, std::int64_t length) override;
  std::int64_t booked() const override { return booked_; }

  // [rows, K, D] of the whole pool, rows strided.
  at::Tensor keys();
  at::Tensor values();

 private:
  friend class KvRowRun;
  std::shared_ptr<KvRowRun> take_rows(std::int64_t room);
  void give_back(std::int64_t begin, std::int64_t room);
  std::int64_t book(std::int64_t room);  // where they begin
  const at::Tensor& all_rows();          // [rows, 2, K, D], all that is booked

  std::mutex mutex_;  // of what follows but rows_
  std::map<std::int64_t, std::int64_t>
      unused_;  // begin and room of what is booked and not taken, none beside another
  std::int64_t booked_ = 0;
  at::Tensor rows_;
};

}  // namespace hone::ops::backend
