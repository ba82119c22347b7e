#include "commands/process/program_paths.h"

#include <cstdlib>

#include "base/files/home_path.h"

namespace hone::commands {

base::fs::path own_program() {
  std::error_code error;
  const base::fs::path self = base::fs::read_symlink("/proc/self/exe", error);
  return error ? base::fs::path() : self;
}

base::fs::path cache_folder() {
  // A kernel that is broken on purpose (probe_hardware.cpp) must not meet what was remembered.
  if (std::getenv("HONE_BREAK") != nullptr) return {};
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return base::fs::path(base::expand_home(cache, "XDG_CACHE_HOME")) / "hone";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return base::fs::path(home) / ".cache" / "hone";
  }
  return {};
}

base::fs::path caller_socket() {
  const char* const path = std::getenv("HONE_CALLER");
  return path == nullptr ? "" : path;
}

base::fs::path token_cache_folder() {
  const base::fs::path cache = cache_folder();
  return cache.empty() ? cache : cache / "tokens";
}

}  // namespace hone::commands
