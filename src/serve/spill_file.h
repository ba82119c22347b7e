// A file without a name (base/files/unnamed_file.h), for what does not fit into memory: nothing of it stays after the
// process, however it ends. For one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "base/files/file.h"

namespace hone::serve {

class SpillFile {
 public:
  // `folder` is where the bytes are; it is made, and the file opened, when the first place is taken.
  explicit SpillFile(base::fs::path folder) : folder_(std::move(folder)) {}
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // Where `bytes` bytes begin; they may be those that were given back. UserError where no file can be opened.
  std::int64_t take(std::int64_t bytes);
  // Gives back what take() gave. The disk has the bytes back, where its file system can.
  void give_back(std::int64_t begin, std::int64_t bytes);
  // UserError for a disk that is full, or fails.
  void write(std::int64_t begin, std::span<const std::byte> bytes) const;
  void read(std::int64_t begin, std::span<std::byte> bytes) const;

  std::int64_t bytes() const { return taken_; }  // taken and not given back

 private:
  base::fs::path folder_;
  int file_ = -1;
  std::int64_t end_ = 0, taken_ = 0;
  std::multimap<std::int64_t, std::int64_t> free_;  // begins of places, by their bytes
};

}  // namespace hone::serve
