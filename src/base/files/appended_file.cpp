#include "base/files/appended_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/files/file_errors.h"
#include "base/files/retry.h"

namespace hone::base {

AppendedFile::AppendedFile(fs::path path) : path_(std::move(path)) {
  retry_storage([this] { open(); });
  struct stat status{};
  if (::fstat(fd_, &status) == 0) size_ = static_cast<std::uint64_t>(status.st_size);
}

AppendedFile::~AppendedFile() {
  try {
    write_kept();
  } catch (const UserError&) {  // storage that did not answer to the end; a checkpoint has said so
  }
  if (fd_ >= 0) ::close(fd_);
}

void AppendedFile::open() {
  if (fd_ < 0) fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) throw_system_error(path_, "write", errno);
}

void AppendedFile::append(std::string_view bytes) {
  const std::size_t before = kept_.size();
  kept_ += bytes;
  try {
    write_kept();
  } catch (const StorageGone&) {
    if (kept_.size() > kMostKept) throw;
  } catch (const UserError&) {
    kept_.resize(before);
    throw;
  }
}

void AppendedFile::truncate(std::uint64_t size) {
  retry_storage([&] {
    open();
    if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) throw_system_error(path_, "write", errno);
  });
  size_ = size;
}

void AppendedFile::write_kept() {
  if (kept_.empty()) return;
  open();
  if (torn_ && ::ftruncate(fd_, static_cast<off_t>(size_)) != 0) throw_system_error(path_, "write", errno);
  torn_ = true;  // until all of it is there
  for (std::string_view left = kept_; !left.empty();) {
    const ssize_t wrote = ::write(fd_, left.data(), left.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const int error_number = wrote == 0 ? ENOSPC : errno;
      torn_ = ::ftruncate(fd_, static_cast<off_t>(size_)) != 0;
      ::close(std::exchange(fd_, -1));  // of no use after a server has restarted
      throw_system_error(path_, "write", error_number, kept_.size());
    }
    left.remove_prefix(static_cast<std::size_t>(wrote));
  }
  torn_ = false;
  size_ += kept_.size();
  kept_.clear();
}

}  // namespace hone::base
