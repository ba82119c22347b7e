// One Python process that runs the worker's program: started, asked, watched and ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>

#include "base/stopwatch.h"
#include "python/frames.h"
#include "python/program.h"

namespace hone::python {

using base::Clock;

class WorkerProcess {
 public:
  // Looks for `python` along PATH; empty: base/process/active_python.h. What is started is the worker's watcher (program.h), which leads a
  // process group of its own; the worker is its child. Both read /dev/null and write what they print to us;
  // the worker has the other end of a socket as descriptor 3, and they have none of our other descriptors.
  // UserError when the system cannot start it.
  WorkerProcess(const std::string& python, const Program& program);
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;
  ~WorkerProcess();  // kills it and all that it has started, and reaps it

  enum class Outcome { kAnswered, kLate, kGone };
  // Queues `payload` as a frame; exchange() sends it.
  void post(std::string_view payload);
  // Sends of what is queued as much as goes without waiting.
  void push();
  // Sends what is queued and waits for one frame. kLate: not whole at `deadline`, the worker still runs; what has come by then is looked at
  // also where `deadline` is over.
  // kGone: it has ended (how_it_ended). UserError for a frame that is too long.
  Outcome exchange(Clock::time_point deadline, std::string& reply);

  // Asks Python where a worker that is late stands, and returns what it then writes, at most a moment later.
  std::string ask_where();
  // After kGone: "was killed by SIGSEGV", "ended with status 3".
  const std::string& how_it_ended() const { return ended_; }
  // The end of what it has printed.
  const std::string& output_tail() const { return printed_; }

  // Returns what it has printed since the last call, the first megabyte of it. Before an answer the worker
  // flushes its streams, so that what a call printed is there when exchange() returns.
  std::string new_output();

  // Asks it to end by itself (Python's own clean-up runs); wait_for_end or the destructor finishes it.
  void hang_up();
  void wait_for_end(Clock::time_point deadline);

 private:
  void kill_and_reap();
  bool has_ended() const;
  void take_prints();
  void take_answer();
  bool send_some();  // false: the other end is closed

  pid_t pid_ = -1;
  int socket_ = -1;
  int life_ = -1;  // the watcher's: a byte, or its end, ends the worker
  int prints_ = -1;
  bool socket_open_ = true;
  bool prints_open_ = true;
  std::string who_;
  std::string outgoing_;
  std::size_t sent_ = 0;
  FrameReader incoming_;
  std::string printed_;  // its end
  std::string unread_;   // for new_output()
  std::size_t printed_count_ = 0;
  std::string ended_;
};

}  // namespace hone::python
