#include "base/files/scratch_folder.h"

#include <cstdlib>
#include <string>

#include "base/error.h"

namespace hone::base {

ScratchFolder::ScratchFolder(std::string_view purpose) {
  std::string pattern = (fs::temp_directory_path() / ("hone-" + std::string(purpose) + "-XXXXXX")).string();
  if (mkdtemp(pattern.data()) == nullptr) {
    throw UserError({.where = pattern,
                     .expected = "a temporary folder",
                     .found = "it cannot be created",
                     .cause = "the disk is full, or the folder cannot be written",
                     .fix = "set TMPDIR to a folder with room"});
  }
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code none;
  fs::remove_all(path_, none);
}

}  // namespace hone::base
