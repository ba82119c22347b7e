#include "serve/spill_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/files/unnamed_file.h"

namespace hone::serve {

namespace {

// Paths of the machine are not told: clients read it.
[[noreturn]] void failed(const char* what, int error) {
  throw base::UserError({.where = "the file of weights that clients sample from",
                         .expected = what,
                         .found = std::strerror(error),
                         .cause = error == ENOSPC ? "the disk below --root is full" : "",
                         .fix = "end sessions, or give the server more --adapter_memory or another --root"});
}

int open_in(const base::fs::path& folder) {
  std::error_code error;
  base::fs::create_directories(folder, error);
  const int file = base::unnamed_file(folder);
  if (file < 0) failed("a folder that can be written", errno);
  return file;
}

}  // namespace

SpillFile::~SpillFile() {
  if (file_ >= 0) ::close(file_);
}

std::int64_t SpillFile::take(std::int64_t bytes) {
  if (file_ < 0) file_ = open_in(folder_);
  taken_ += bytes;
  if (const auto place = free_.find(bytes); place != free_.end()) {
    const std::int64_t begin = place->second;
    free_.erase(place);
    return begin;
  }
  const std::int64_t begin = end_;
  end_ += bytes;
  return begin;
}

void SpillFile::give_back(std::int64_t begin, std::int64_t bytes) {
  taken_ -= bytes;
  free_.emplace(bytes, begin);
#ifdef FALLOC_FL_PUNCH_HOLE
  ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin,
              bytes);  // else the bytes wait for the next
#endif
}

void SpillFile::write(std::int64_t begin, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), begin);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) failed("room for them", written < 0 ? errno : ENOSPC);
    begin += written;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void SpillFile::read(std::int64_t begin, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t read = ::pread(file_, bytes.data(), bytes.size(), begin);
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) failed("what was written", read < 0 ? errno : EIO);
    begin += read;
    bytes = bytes.subspan(static_cast<std::size_t>(read));
  }
}

}  // namespace hone::serve
