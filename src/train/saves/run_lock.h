// One run at a time in an output_dir.
//
// The kernel's lock (base::FolderLock) says so on one host, and on file systems that lock across hosts. hone-lock.json beside it
// says who the holder is: host, process, and a pulse that rises while it lives. A run that gets the kernel's lock and finds the
// file of another one
//   takes over where that process is gone, also when its number belongs to another process by now;
//   is refused where it runs on this machine;
//   watches the pulse, where it is of another machine or container: refused when it rises, else it takes over and says so.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/files/file.h"

namespace hone::train {

constexpr const char* kLockFile = "hone-lock.json";

struct RunLockTimes {
  std::chrono::milliseconds pulse{3'000};
  std::chrono::milliseconds watch{15'000};  // of another machine's pulse
};

class RunLock {
 public:
  // Writes nothing. UserError that names the host and process of the run that has the folder.
  explicit RunLock(const base::fs::path& folder, const RunLockTimes& times = {});
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();  // removes the file

  // Says whose the folder is, from now on. UserError: it cannot be written to.
  void begin();
  const std::vector<std::string>& notes() const { return notes_; }  // of a run whose folder was taken over

 private:
  struct Pulse;
  base::fs::path folder_;
  RunLockTimes times_;
  base::FolderLock lock_;
  std::vector<std::string> notes_;
  std::unique_ptr<Pulse> pulse_;
};

}  // namespace hone::train
