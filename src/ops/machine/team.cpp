#include "ops/machine/team.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "base/process/signal_stack.h"

namespace hone::ops {
namespace {

using std::int64_t;

constexpr int64_t kMaxThreads = 256;
constexpr int kPauses = 1000;                     // of a core, some 10 to 20 us, before others may have it
constexpr std::chrono::microseconds kAwake{300};  // then asleep
constexpr int64_t kClosed = int64_t{1} << 32;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Waits until ready(): awake, then giving way to others; false after `most` of that.
template <typename Ready>
bool wait_awake(const Ready& ready, std::chrono::microseconds most) {
  for (int i = 0; i < kPauses; ++i) {
    if (ready()) return true;
    pause();
  }
  const auto end = std::chrono::steady_clock::now() + most;
  while (!ready()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// Units that one thread begins with: first in the upper half, end in the lower.
struct alignas(64) WorkRange {
  std::atomic<std::uint64_t> range{0};

  void set(int64_t first, int64_t end) {
    range.store(static_cast<std::uint64_t>(first) << 32 | static_cast<std::uint64_t>(end),
                std::memory_order_relaxed);
  }
  // The first, or the last; -1: none is left.
  int64_t take(bool from_front) {
    std::uint64_t now = range.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t first = now >> 32, end = now & 0xFFFFFFFFU;
      if (first >= end) return -1;
      const std::uint64_t next = from_front ? (first + 1) << 32 | end : first << 32 | (end - 1);
      if (range.compare_exchange_weak(now, next, std::memory_order_relaxed)) {
        return static_cast<int64_t>(from_front ? first : end - 1);
      }
    }
  }
};

thread_local bool is_inside = false;  // a team's work

class Team {
 public:
  // False: another thread has the team.
  bool run(int64_t units, int64_t threads, TeamWork work, void* context) {
    const std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock) return false;
    while (workers_ + 1 < threads) {
      std::thread([this, id = workers_ + 1] { serve(id); }).detach();
      ++workers_;
    }
    work_ = work;
    context_ = context;
    threads_ = threads;
    failure_ = nullptr;
    for (int64_t t = 0; t < threads; ++t) shares_[t].set(units * t / threads, units * (t + 1) / threads);
    inside_.store(0, std::memory_order_release);  // open
    call_.fetch_add(1);
    call_.notify_all();
    take_part(0);
    inside_.fetch_sub(kClosed);
    while (!wait_awake([this] { return inside_.load(std::memory_order_acquire) == -kClosed; }, kAwake)) {
    }
    if (failure_) std::rethrow_exception(failure_);
    return true;
  }

 private:
  void take_part(int64_t thread) {
    is_inside = true;
    for (int64_t i = 0; i < threads_; ++i) {
      WorkRange& share = shares_[(thread + i) % threads_];
      for (int64_t unit = share.take(i == 0); unit >= 0; unit = share.take(i == 0)) {
        try {
          work_(context_, unit, thread);
        } catch (...) {
          const std::scoped_lock lock(failed_);
          if (!failure_) failure_ = std::current_exception();
        }
      }
    }
    is_inside = false;
  }

  // False: the call is over.
  bool enter() {
    int64_t now = inside_.load(std::memory_order_relaxed);
    while (now >= 0) {
      if (inside_.compare_exchange_weak(now, now + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }

  [[noreturn]] void serve(int64_t id) {
    base::install_signal_stack();
    for (int seen = 0;;) {
      if (!wait_awake([&] { return call_.load(std::memory_order_acquire) != seen; }, kAwake))
        call_.wait(seen);
      seen = call_.load(std::memory_order_acquire);
      if (!enter()) continue;
      if (id < threads_) take_part(id);
      inside_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::mutex busy_, failed_;
  int64_t workers_ = 0;
  std::atomic<int> call_{0};               // goes up with each call: what workers wait for
  std::atomic<int64_t> inside_{-kClosed};  // workers in the open call; less kClosed when there is none
  // Of the call; workers read them when they are inside.
  TeamWork work_ = nullptr;
  void* context_ = nullptr;
  int64_t threads_ = 0;
  std::exception_ptr failure_;
  WorkRange shares_[kMaxThreads];
};

}  // namespace

void run_in_team(int64_t units, int64_t threads, TeamWork work, void* context) {
  static Team* const team = new Team;  // never destroyed: its threads wait in it until the process ends
  const int64_t most = std::min<int64_t>({threads, units, at::get_num_threads(), kMaxThreads});
  const bool alone = most <= 1 || is_inside || at::in_parallel_region();
  if (!alone && team->run(units, most, work, context)) return;
  for (int64_t unit = 0; unit < units; ++unit) work(context, unit, 0);
}

}  // namespace hone::ops
