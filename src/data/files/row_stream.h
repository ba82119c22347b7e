// A data set's rows in blocks, so that not all of them are in memory. Another thread reads and checks the
// next block meanwhile.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/json.h"
#include "base/process/signal_stack.h"
#include "data/files/row_source.h"

namespace hone::data {

// A block ends with the row that reaches one of the two; `bytes` are of the rows' texts.
struct BlockSize {
  std::size_t rows = 2048;
  std::size_t bytes = std::size_t{8} << 20;
};

std::size_t held_bytes(const base::Json& value);  // about what a row holds in memory

// `RowsOfForm`: NamedRows of a form, with its `rows`.
template <typename RowsOfForm>
class RowStream {
 public:
  // `empty`: without rows.
  RowStream(RowSource source, RowsOfForm empty, BlockSize size = {})
      : shared_(std::make_unique<Shared>(std::move(source), std::move(empty), size)) {
    shared_->reader = std::jthread([shared = shared_.get()] { shared->read(); });
  }
  // Does not wait for the rest of the rows.
  ~RowStream() {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopped = true;
    shared_->changed.notify_all();
  }
  RowStream(const RowStream&) = delete;
  RowStream& operator=(const RowStream&) = delete;

  // nullopt: there were all. UserError: what read_all says, after the rows before the one that is wrong.
  std::optional<RowsOfForm> next() {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait(lock, [this] { return shared_->ready || shared_->ended; });
    if (shared_->ready) {
      std::optional<RowsOfForm> out = std::exchange(shared_->ready, std::nullopt);
      shared_->changed.notify_all();
      return out;
    }
    if (shared_->error) std::rethrow_exception(std::exchange(shared_->error, nullptr));
    return std::nullopt;
  }

 private:
  struct NoMoreWanted {};  // unwinds the reader

  struct Shared {
    RowSource source;
    BlockSize size;
    RowsOfForm building;
    std::size_t count = 0, bytes = 0;  // of `building`

    std::mutex mutex;
    std::condition_variable changed;
    std::optional<RowsOfForm> ready;
    bool ended = false;
    std::atomic<bool> stopped = false;
    std::exception_ptr error;
    std::jthread reader;  // last: it uses the others

    Shared(RowSource from, RowsOfForm empty, BlockSize block)
        : source(std::move(from)), size(block), building(std::move(empty)) {
      building.path = source.path();
    }

    void read() {
      base::install_signal_stack();
      std::exception_ptr found;
      try {
        try {
          source.for_each(building.names,
                          [this](base::Json row, int number) { take(std::move(row), number); });
        } catch (const NoMoreWanted&) {
          return;
        } catch (...) {
          found = std::current_exception();
        }
        if (count > 0) give();
      } catch (const NoMoreWanted&) {
        return;
      }
      const std::lock_guard lock(mutex);
      ended = true;
      error = found;
      changed.notify_all();
    }

    void take(base::Json row, int number) {
      if (stopped) throw NoMoreWanted();
      bytes += held_bytes(row);
      add_row(std::move(row), number, building);
      if (++count >= size.rows || bytes >= size.bytes) give();
    }

    // Waits until the last block was taken.
    void give() {
      if constexpr (requires { close_block(building); }) close_block(building);
      auto rows = std::exchange(building.rows, {});
      auto lines = std::exchange(building.lines, {});
      RowsOfForm block = building;
      block.rows = std::move(rows);
      block.lines = std::move(lines);
      building.first += static_cast<std::int64_t>(block.rows.size());
      count = bytes = 0;
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return !ready || stopped; });
      if (stopped) throw NoMoreWanted();
      ready = std::move(block);
      changed.notify_all();
    }
  };
  std::unique_ptr<Shared> shared_;
};

}  // namespace hone::data
