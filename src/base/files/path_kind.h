// These say what is at a path, links followed. A path that cannot be looked at counts as absent: no
// exceptions.
#pragma once

#include <system_error>

#include "base/files/file.h"

namespace hone::base {

inline bool exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

inline bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

inline bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

}  // namespace hone::base
