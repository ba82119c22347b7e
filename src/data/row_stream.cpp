#include "data/row_stream.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/signal_stack.h"

namespace hone::data {

using base::Json;

namespace {

struct NoMoreWanted {};  // unwinds the reader

// About what a row holds in memory.
std::size_t size_of(const Json& value) {
  constexpr std::size_t kNode = 16;
  std::size_t out = kNode;
  if (value.is_string()) return out + value.get_ref<const std::string&>().size();
  if (value.is_structured()) {
    for (const Json& each : value) out += size_of(each);
  }
  return out;
}

}  // namespace

struct RowStream::Shared {
  RowSource source;
  RowBlock size;
  Rows building;
  std::size_t bytes = 0;  // of `building`

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Rows> ready;
  bool ended = false;
  std::atomic<bool> stopped = false;
  std::exception_ptr error;
  std::jthread reader;  // last: it uses the others

  Shared(RowSource from, std::string text_field, RowBlock block) : source(std::move(from)), size(block) {
    building.path = source.path();
    building.text_field = std::move(text_field);
  }

  void read() {
    base::install_signal_stack();
    std::exception_ptr found;
    try {
      try {
        source.for_each(building.names, [this](Json row, int number) { take(std::move(row), number); });
      } catch (const NoMoreWanted&) {
        return;
      } catch (...) {
        found = std::current_exception();
      }
      if (!building.rows.empty()) give();
    } catch (const NoMoreWanted&) {
      return;
    }
    const std::lock_guard lock(mutex);
    ended = true;
    error = found;
    changed.notify_all();
  }

  void take(Json row, int number) {
    if (stopped) throw NoMoreWanted();
    bytes += size_of(row);
    add_row(std::move(row), number, building);
    if (building.rows.size() >= size.rows || bytes >= size.bytes) give();
  }

  // Waits until the last block was taken.
  void give() {
    Rows block = {.path = building.path,
                  .names = building.names,
                  .form = building.form,
                  .conversational = building.conversational,
                  .token_columns = building.token_columns,
                  .text_field = building.text_field,
                  .rows = std::exchange(building.rows, {}),
                  .lines = std::exchange(building.lines, {}),
                  .first = building.first,
                  .first_where = building.first_where};
    building.first += static_cast<std::int64_t>(block.rows.size());
    bytes = 0;
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return !ready || stopped; });
    if (stopped) throw NoMoreWanted();
    ready = std::move(block);
    changed.notify_all();
  }
};

RowStream::RowStream(RowSource source, std::string text_field, RowBlock size)
    : shared_(std::make_unique<Shared>(std::move(source), std::move(text_field), size)) {
  shared_->reader = std::jthread([shared = shared_.get()] { shared->read(); });
}

RowStream::~RowStream() {
  const std::lock_guard lock(shared_->mutex);
  shared_->stopped = true;
  shared_->changed.notify_all();
}

std::optional<Rows> RowStream::next() {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [this] { return shared_->ready || shared_->ended; });
  if (shared_->ready) {
    std::optional<Rows> out = std::exchange(shared_->ready, std::nullopt);
    shared_->changed.notify_all();
    return out;
  }
  if (shared_->error) std::rethrow_exception(std::exchange(shared_->error, nullptr));
  return std::nullopt;
}

}  // namespace hone::data
