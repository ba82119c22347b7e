// output_dir/hone-running.json: exists during a run. A process that is killed (SIGKILL, as by the kernel when
// memory runs out) cannot write a report; the next start and `hone explain` read this file instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/files/file.h"

namespace hone::doctor {

struct RunningState {
  std::int64_t pid = 0;
  std::string boot;  // the kernel's boot id; empty: not known
  std::string host = {};
  std::int64_t started =
      0;  // of that process (parallel::ProcessName): its number may be another one's by now; 0: not known
  std::int64_t total_steps = 0;
  std::int64_t step = 0;                // optimizer steps done
  std::int64_t checkpoint = -1;         // step of the newest one; -1: none
  std::int64_t resident = 0, free = 0;  // bytes: of the process, and available to it, after that step
  int ended_by = 0;                     // the signal that ended it at the user's second request; 0: none
};

class RunningFile {
 public:
  // Replaces an earlier file. A failure to write it is ignored, so that it does not stop a run.
  RunningFile(const base::fs::path& output_dir, const RunningState& first);
  RunningFile(const RunningFile&) = delete;
  RunningFile& operator=(const RunningFile&) = delete;
  ~RunningFile();  // removes it

  // One write in place, of a fixed size.
  void update(const RunningState& state);

 private:
  base::fs::path path_;
  int fd_ = -1;
};

// For a signal handler: a second Ctrl-C is about to end this process. No allocation, no lock.
void note_ending_signal(int signal);

// Returns the state of this process now: pid and boot.
RunningState running_here();

// The file in `output_dir`; empty: missing or not readable.
std::optional<RunningState> read_running(const base::fs::path& output_dir);

// The state of the process that wrote it.
enum class Fate {
  kAlive,      // it still runs
  kRestarted,  // the machine was restarted afterwards
  kMemory,     // gone, and memory was nearly used up: probably the kernel's out-of-memory killer
  kKilled,     // gone
  kStopped,    // gone, after a second Ctrl-C, SIGTERM or SIGHUP
};
Fate fate_of(const RunningState& state);

// "the last run here was killed at step 12 of 100 (memory then: 21.9 GB of 22.3 GB): probably the kernel's
// out-of-memory killer"
std::string describe_fate(const RunningState& state, Fate fate);

}  // namespace hone::doctor
