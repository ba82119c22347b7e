// Rows worked on by several threads, with the result and the error that one thread would have.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/process/signal_stack.h"
#include "base/step_progress.h"
#include "base/where.h"

namespace hone::data {

inline constexpr std::size_t kRowBlock = 64;  // rows a thread takes at a time
// The part of base/step_progress.h whose rows are counted here: those that a step reads itself are part of the step.
inline constexpr char kTokenizing[] = "tokenizing";

// Threads for `rows` rows; `asked` 0: the machine's.
inline int row_threads(int asked, std::size_t rows) {
  const int machine = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int blocks = static_cast<int>(std::min<std::size_t>((rows + kRowBlock - 1) / kRowBlock, 256));
  return std::clamp(asked > 0 ? asked : machine, 1, std::max(1, blocks));
}

// Blocks are handed out in order and each is worked in order, so that of all failing rows the first is
// thrown, whatever the threads do.
template <typename Done>
class RowThreads {
 public:
  RowThreads(std::vector<Done>& out, int threads) : out_(out), threads_(threads) {}

  // make(): a worker for each thread; worker.row(i) gives out[i]. worker.prepare(begin, end), where there is one, is told
  // which rows are next, and does not throw.
  template <typename Make>
  void run(Make make) {
    const auto work = [&] {
      auto worker = make();
      for (std::size_t begin = next(); begin < out_.size(); begin = next()) {
        const std::size_t end = std::min(begin + kRowBlock, out_.size());
        if constexpr (requires { worker.prepare(begin, end); }) worker.prepare(begin, end);
        if (base::step_progress.part.load(std::memory_order_relaxed) == kTokenizing)
          base::advance_part(static_cast<std::int64_t>(end - begin));
        for (std::size_t i = begin; i < end; ++i) {
          try {
            out_[i] = worker.row(i);
          } catch (...) {
            return fail(i);
          }
        }
      }
    };
    std::vector<std::jthread> others;
    for (int i = 1; i < threads_; ++i) {
      others.emplace_back([&work] {
        base::install_signal_stack();
        work();
      });
    }
    work();
    others.clear();  // joins
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::size_t next() { return failed_ ? out_.size() : next_.fetch_add(kRowBlock); }

  void fail(std::size_t row) {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    if (!error_ || row < error_row_) {
      error_ = std::current_exception();
      error_row_ = row;
    }
  }

  std::vector<Done>& out_;
  int threads_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
  std::size_t error_row_ = 0;
};

// Returns what the workers of `make` make of `rows` rows, a block of a data set or all of it. `is_first`
// block: before step 1 the rows that are tokenized are counted.
template <typename Done, typename Make>
std::vector<Done> made_rows(std::size_t rows, bool is_first, int threads, const Make& make) {
  const bool before_steps = base::where.step.load(std::memory_order_relaxed) == 0;  // later rows are a step's
  if (before_steps && is_first) base::begin_part(kTokenizing, "rows", 0);
  std::vector<Done> out(rows);
  RowThreads<Done>(out, row_threads(threads, rows)).run(make);
  return out;
}

}  // namespace hone::data
