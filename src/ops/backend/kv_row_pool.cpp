#include "ops/backend/kv_row_pool.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "ops/index_tensor.h"

namespace hone::ops::backend {
namespace {

std::int64_t whole_steps(std::int64_t rows) {
  return std::max<std::int64_t>(1, (rows + KvRowPool::kStep - 1) / KvRowPool::kStep) * KvRowPool::kStep;
}

// All layers of a step write to the same places: they go to the device once.
const at::Tensor& index_of(const std::vector<std::int64_t>& places, at::Device device) {
  struct Last {
    std::vector<std::int64_t> places;
    at::Tensor index;
  };
  thread_local Last last;
  if (!last.index.defined() || last.index.device() != device || last.places != places)
    last = {places, index_tensor(places, device)};
  return last.index;
}

}  // namespace

KvRowRun::KvRowRun(std::shared_ptr<KvRowPool> pool, std::int64_t begin, std::int64_t room)
    : KvRun(std::move(pool)), begin_(begin), room_(room) {}

KvRowRun::~KvRowRun() {
  static_cast<KvRowPool&>(pool()).give_back(begin_, room_);
}

void KvRowPool::reserve(std::int64_t rows) {
  const std::lock_guard lock(mutex_);
  const std::int64_t wanted = whole_steps(rows) - booked_;
  if (wanted <= 0) return;
  const std::int64_t begin = std::exchange(booked_, booked_ + wanted);
  const auto before = unused_.empty() ? unused_.end() : std::prev(unused_.end());
  if (before != unused_.end() && before->first + before->second == begin) {
    before->second += wanted;
  } else {
    unused_.emplace(begin, wanted);
  }
}

// The smallest that is large enough, the first of several; else new rows at the end, after what is unused there.
std::int64_t KvRowPool::book(std::int64_t room) {
  auto best = unused_.end();
  for (auto one = unused_.begin(); one != unused_.end(); ++one) {
    if (one->second >= room && (best == unused_.end() || one->second < best->second)) best = one;
  }
  if (best == unused_.end()) {
    const auto last = unused_.empty() ? unused_.end() : std::prev(unused_.end());
    const bool at_end = last != unused_.end() && last->first + last->second == booked_;
    const std::int64_t begin = at_end ? last->first : booked_;
    if (at_end) unused_.erase(last);
    booked_ = begin + room;
    return begin;
  }
  const auto [begin, size] = *best;
  unused_.erase(best);
  if (size > room) unused_.emplace(begin + room, size - room);
  return begin;
}

std::shared_ptr<KvRun> KvRowPool::take(std::int64_t room) {
  return take_rows(room);
}

std::shared_ptr<KvRowRun> KvRowPool::take_rows(std::int64_t room) {
  const std::int64_t rows = whole_steps(room);
  std::int64_t begin = 0;
  {
    const std::lock_guard lock(mutex_);
    begin = book(rows);
  }
  return std::make_shared<KvRowRun>(std::static_pointer_cast<KvRowPool>(shared_from_this()), begin, rows);
}

void KvRowPool::give_back(std::int64_t begin, std::int64_t room) {
  const std::lock_guard lock(mutex_);
  auto after = unused_.lower_bound(begin);
  if (after != unused_.end() && after->first == begin + room) {
    room += after->second;
    after = unused_.erase(after);
  }
  if (after != unused_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      before->second += room;
      return;
    }
  }
  unused_.emplace(begin, room);
}

void KvRowPool::make_room(KvRun& run, std::int64_t tokens, std::int64_t length) {
  auto& own = static_cast<KvRowRun&>(run);
  if (tokens <= own.room_) return;
  const std::shared_ptr<KvRowRun> larger = take_rows(std::max(tokens, 2 * own.room_));
  copy(run, length, *larger);
  std::swap(own.begin_, larger->begin_);  // what it had is given back with `larger`
  std::swap(own.room_, larger->room_);
}

const at::Tensor& KvRowPool::all_rows() {
  const std::int64_t held = rows_.defined() ? rows_.size(0) : 0;
  if (held >= booked_) return rows_;
  // An eighth more than before at least, so that sequences that come one by one do not copy all of it each time.
  at::Tensor larger = at::empty({std::max(booked_, held + held / 8), 2, kv_heads_, head_dim_}, options_);
  if (held > 0) larger.narrow(0, 0, held).copy_(rows_);
  rows_ = larger;
  return rows_;
}

void KvRowPool::write(const at::Tensor& k, const at::Tensor& v, const std::vector<std::int64_t>& places) {
  if (places.empty()) return;
  const at::Tensor& index = index_of(places, device());
  if (const at::Tensor both = side_by_side(k, v); both.defined()) {
    at::Tensor to = all_rows();
    to.index_copy_(0, index, both);
    return;
  }
  keys().index_copy_(0, index, k);
  values().index_copy_(0, index, v);
}

void KvRowPool::copy(const KvRun& run, std::int64_t length, KvRun& to) {
  if (length == 0) return;
  const at::Tensor& all = all_rows();
  all.narrow(0, to.place(0), length).copy_(all.narrow(0, run.place(0), length));
}

std::pair<at::Tensor, at::Tensor> KvRowPool::rows(const KvRun& run, std::int64_t length) {
  const auto of = [&](const at::Tensor& all) { return all.narrow(0, run.place(0), length).transpose(0, 1); };
  return {of(keys()), of(values())};
}

at::Tensor KvRowPool::keys() {
  return all_rows().select(1, 0);
}

at::Tensor KvRowPool::values() {
  return all_rows().select(1, 1);
}

}  // namespace hone::ops::backend
