#include "data/files/scratch_file.h"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/files/file_errors.h"
#include "base/files/unnamed_file.h"

namespace hone::data {

namespace fs = base::fs;

namespace {

fs::path temporary_folder() {
  std::error_code error;
  fs::path out = fs::temp_directory_path(error);
  if (!error) return out;
  throw base::UserError({.where = "TMPDIR",
                         .expected = "a folder for temporary files",
                         .found = error.message(),
                         .cause = "the rows of a large data set need a file while they are read",
                         .fix = "set TMPDIR to a folder with room"});
}

}  // namespace

ScratchFile::ScratchFile() : folder_(temporary_folder()) {
  fd_ = base::unnamed_file(folder_);
  if (fd_ < 0) base::throw_system_error(folder_, "write", errno);
}

ScratchFile::~ScratchFile() {
  ::close(fd_);
}

void ScratchFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) base::throw_system_error(folder_, "write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

base::MappedFile ScratchFile::map() const {
  return base::MappedFile::open("/proc/self/fd/" + std::to_string(fd_));
}

}  // namespace hone::data
