// The worker processes of a run: all load the same functions, a call takes a free one, a broken one is
// replaced.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "python/worker_process.h"
#include "rewards/python/worker_frames.h"

namespace hone::rewards {

using base::Clock;

struct PoolOptions {
  std::string python;  // empty: base/process/active_python.h
  int workers = 1;
  double load_seconds = 120;          // for the imports of all functions, at least
  std::vector<base::Json> functions;  // as worker_script.h's "load" takes them
  std::vector<std::string> words;     // [functions] how the user calls them, for errors
};

// How a call ended.
struct CallResult {
  enum class Kind { kAnswered, kLate, kDied };
  Kind kind = Kind::kDied;
  std::string reply;    // kAnswered: the frame
  std::string how;      // kLate: "" or what Python says of where it is; kDied: "was killed by SIGSEGV"
  std::string words;    // kDied: the end of what the worker has printed
  std::string printed;  // since the call before
};

class WorkerPool {
 public:
  // Starts all workers and waits until the first has loaded the functions. UserError as open_python_rewards
  // says.
  explicit WorkerPool(PoolOptions options);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();  // no lease may be out; the workers end by themselves within two seconds, or are killed

  const std::vector<LoadedFunction>& functions() const { return functions_; }
  int workers() const { return options_.workers; }
  // Workers that have been called are replaced, and load while the caller goes on. No lease may be out.
  void reset();

 private:
  struct Slot {
    std::unique_ptr<python::WorkerProcess> process;  // empty: to be started
    bool loaded = false;
    bool taken = false;
    bool called = false;  // since it was started
  };

 public:
  // A worker for one caller; given back at the end of its scope.
  class Lease {
   public:
    explicit Lease(WorkerPool& pool);  // waits for a free one
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease();

    // Sees to a worker that has loaded the functions, starting one if need be; UserError when that fails.
    void make_ready();
    // Sends `message` to it and waits `seconds` at most. After kLate and kDied the worker is gone.
    CallResult call(std::string_view message, double seconds);
    // Ends a worker whose answer makes no sense.
    void drop();

   private:
    WorkerPool& pool_;
    Slot* slot_;
  };

 private:
  void start(Slot& slot) const;
  void load(Slot& slot);
  void try_to_load(Slot& slot, bool last_try);

  PoolOptions options_;
  std::string load_message_;
  std::vector<LoadedFunction> functions_;  // written before the constructor returns
  std::vector<Slot> slots_;
  std::mutex mutex_;  // of Slot::taken
  std::condition_variable given_back_;
};

}  // namespace hone::rewards
