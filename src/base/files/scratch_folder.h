// A folder below the system's temporary one (TMPDIR), removed with the object.
#pragma once

#include <string_view>

#include "base/files/file.h"

namespace hone::base {

class ScratchFolder {
 public:
  // `purpose` is part of its name: "doctor". UserError when it cannot be made.
  explicit ScratchFolder(std::string_view purpose);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace hone::base
