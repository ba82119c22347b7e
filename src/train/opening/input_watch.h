// This watches whether somebody changes the files of a run while it trains: rows, and the base's weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "config/plan.h"

namespace hone::train {

class InputWatch {
 public:
  // Notes each file's size, time and place on the disk. Construct it before they are read.
  explicit InputWatch(const config::Plan& plan);

  // One sentence for each file that has changed since, once: the run goes on with what it has read. UserError for a file
  // that is still being read (dataset_streaming), whose other rows would be mixed with the earlier ones. Costs one call of stat a file.
  std::vector<std::string> look();

 private:
  struct File {
    base::fs::path path;
    bool read_again = false;
    std::uint64_t device = 0, inode = 0, bytes = 0;
    std::int64_t seconds = 0, nanoseconds = 0;  // of its last change
    std::uint32_t print = 0;                    // of what is read again
    bool told = false;
  };
  void add(const base::fs::path& path, bool read_again);

  std::vector<File> files_;
};

}  // namespace hone::train
