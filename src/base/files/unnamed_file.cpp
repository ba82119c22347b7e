#include "base/files/unnamed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace hone::base {

int unnamed_file(const fs::path& folder) {
  int out = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (out >= 0) return out;
  std::string name = (folder / ".hone-XXXXXX").string();  // a file system without O_TMPFILE
  out = ::mkostemp(name.data(), O_CLOEXEC);
  if (out >= 0) ::unlink(name.c_str());
  return out;
}

}  // namespace hone::base
