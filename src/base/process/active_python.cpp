#include "base/process/active_python.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/files/file.h"

namespace hone::base {

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool can_run(const fs::path& program) {
  std::error_code error;
  return fs::is_regular_file(program, error) && ::access(program.c_str(), X_OK) == 0;
}

// `python` is Python 2 on old systems, as a link to python2.7.
bool is_python2(const fs::path& program) {
  std::error_code error;
  const fs::path real = fs::canonical(program, error);
  return !error && real.filename().string().starts_with("python2");
}

bool is_on_path(const std::string& name) {
  const std::string all = variable("PATH");
  for (std::size_t begin = 0; begin <= all.size();) {
    const std::size_t end = std::min(all.find(':', begin), all.size());
    const fs::path program = fs::path(all.substr(begin, end - begin)) / name;
    if (end > begin && can_run(program)) return !is_python2(program);
    begin = end + 1;
  }
  return false;
}

}  // namespace

ActivePython active_python(const std::string& named) {
  if (!named.empty()) return {named, "--python"};
  if (const std::string starter = variable("HONE_PYTHON"); !starter.empty() && can_run(starter))
    return {starter, "HONE_PYTHON"};
  for (const char* environment : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string folder = variable(environment);
    const fs::path program = fs::path(folder) / "bin" / "python";
    if (!folder.empty() && can_run(program)) return {program.string(), environment};
  }
  return {is_on_path("python") ? "python" : "python3", "PATH"};
}

}  // namespace hone::base
