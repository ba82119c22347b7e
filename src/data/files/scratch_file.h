// A file without a name, in the system's folder for temporary files (TMPDIR): gone with its last reader, however the process ends.
#pragma once

#include <cstddef>
#include <span>

#include "base/files/file.h"

namespace hone::data {

class ScratchFile {
 public:
  ScratchFile();  // UserError: the folder is not there, or cannot be written
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile();

  void write(std::span<const std::byte> bytes);  // UserError: no room
  base::MappedFile map() const;                  // what was written so far; outlives this object

 private:
  base::fs::path folder_;
  int fd_ = -1;
};

}  // namespace hone::data
