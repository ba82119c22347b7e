// output_dir/hone-running.json: there while a run goes on. A process that is killed (SIGKILL, as the kernel
// does when memory is used up) cannot say a word; this file is what the next start and `hone explain` find.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"

namespace hone::doctor {

struct RunningState {
  std::int64_t pid = 0;
  std::string boot;  // the kernel's boot id; empty: not known
  std::int64_t total_steps = 0;
  std::int64_t step = 0;                // optimizer steps done
  std::int64_t checkpoint = -1;         // step of the newest one; -1: none
  std::int64_t resident = 0, free = 0;  // bytes: of the process, and left to it, after that step
};

class RunningFile {
 public:
  // Replaces what lies there. Where it cannot be written there is none: it is no reason to stop a run.
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

// Of this process now: pid and boot.
RunningState running_here();

// What lies in `output_dir`; empty: nothing, or not readable.
std::optional<RunningState> read_running(const base::fs::path& output_dir);

// What became of the process that wrote it.
enum class Fate {
  kAlive,      // it still runs
  kRestarted,  // the machine was restarted since
  kMemory,     // gone, and memory was nearly used up: probably the kernel's out-of-memory killer
  kKilled,     // gone
};
Fate fate_of(const RunningState& state);

// "the last run here was killed at step 12 of 100 (memory then: 21.9 GB of 22.3 GB): probably the kernel's
// out-of-memory killer"
std::string describe_fate(const RunningState& state, Fate fate);

}  // namespace hone::doctor
