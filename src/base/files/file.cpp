#include "base/files/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/file_errors.h"
#include "base/files/mapped_files.h"
#include "base/files/retry.h"
#include "base/files/staging.h"
#include "base/strings/suggest.h"

namespace hone::base {

namespace {

// Free bytes for this user where `path` lies or will lie; false when the system does not say.
bool free_bytes(const fs::path& path, std::uint64_t& out) {
  fs::path at = path;
  struct statvfs info{};
  while (::statvfs(at.c_str(), &info) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return false;
    const fs::path parent = parent_of(at);
    if (parent == at) return false;
    at = parent;
  }
  out = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  return true;
}

[[noreturn]] void throw_missing(const fs::path& path) {
  const fs::path folder = parent_of(path);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw UserError({.where = path.string(),
                     .expected = "a file",
                     .found = "no such file; its folder " + folder.string() + " does not exist either",
                     .cause = "a misspelled path, or another working folder",
                     .fix = "correct the path"});
  }
  constexpr std::size_t kMaxNames = 10'000;
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, ignored), end; it != end && names.size() < kMaxNames;
       it.increment(ignored)) {
    if (ignored) break;
    names.push_back(it->path().filename().string());
  }
  throw UserError({.where = path.string(),
                   .expected = "a file",
                   .found = "no such file." + did_you_mean(path.filename().string(), names),
                   .cause = "a misspelled path, or another working folder",
                   .fix = "correct the path"});
}

// An open descriptor that is closed at the end of its block.
struct Descriptor {
  int fd;
  explicit Descriptor(int value) : fd(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

int open_for_reading(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) return fd;
  if (errno == ENOENT) throw_missing(path);
  throw_system_error(path, "read", errno);
}

struct stat status_of(int fd, const fs::path& path) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) throw_system_error(path, "read", errno);
  if (S_ISDIR(status.st_mode)) throw_system_error(path, "read", EISDIR);
  return status;
}

// What a killed writer left at `partial` goes. UserError while a writer that lives holds it.
void remove_stale(const fs::path& partial, const fs::path& path) {
  struct stat status{};
  if (::lstat(partial.c_str(), &status) != 0) return;
  if (!S_ISREG(status.st_mode)) throw_not_ours(path, partial, "a folder, a link or a device");
  // For writing where that is allowed: some network file systems lock only such files.
  int opened = ::open(partial.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (opened < 0) opened = ::open(partial.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  const Descriptor stale(opened);
  if (stale.fd < 0 && errno == ENOENT) return;
  if (stale.fd < 0) throw_system_error(partial, "open", errno);
  if (!try_lock(stale.fd)) throw_busy(path);
  // It may have got its name, or another writer may have begun, between open and lock.
  if (is_still_at(stale.fd, partial) && ::unlink(partial.c_str()) != 0)
    throw_system_error(partial, "remove", errno);
}

// A new, empty file at `partial`, locked: never one that is there, never through a link.
int create_partial(const fs::path& partial, const fs::path& path, std::uint64_t expected_size) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const int fd = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) {
      remove_stale(partial, path);
      continue;
    }
    if (fd < 0) throw_system_error(path, "write", errno, expected_size);
    if (try_lock(fd) && is_still_at(fd, partial)) return fd;
    ::close(fd);  // another writer took it for a stale one before it was locked
  }
  throw_busy(path);
}

}  // namespace

fs::path parent_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_system_error(to, "rename to", errno);
}

void rename_synced(const fs::path& from, const fs::path& to) {
  rename_or_throw(from, to);
  sync_path(parent_of(to));
  if (parent_of(from) != parent_of(to)) sync_path(parent_of(from));
}

bool is_there(const fs::path& path) {
  std::error_code none;
  return fs::exists(fs::symlink_status(path, none));
}

void remove_or_throw(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw_system_error(path, "remove", error.value());
}

bool try_lock(int fd) {
  return ::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

bool is_still_at(int fd, const fs::path& path) {
  struct stat open_one{}, named{};
  return ::fstat(fd, &open_one) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

int lock_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_system_error(folder, "open", errno);
  if (try_lock(fd)) return fd;
  ::close(fd);
  return -1;
}

void throw_busy(const fs::path& path) {
  throw UserError({.where = path.string(),
                   .expected = "to be the only process that writes it",
                   .found = "another process that writes it",
                   .cause = "the same command was started twice",
                   .fix = "wait for it, or choose another output"});
}

void throw_not_ours(const fs::path& path, const fs::path& staged, std::string_view found) {
  throw UserError({.where = path.string(),
                   .expected = "to write " + staged.string() + " before it gets its name",
                   .found = std::string(found) + " of that name",
                   .cause = "hone did not create it, and does not change it",
                   .fix = "move it away, or choose another output"});
}

void keep_mode_and_owner(int fd, const fs::path& old) {
  struct stat before{}, now{};
  if (::stat(old.c_str(), &before) != 0 || ::fstat(fd, &now) != 0) return;
  const bool same = (before.st_uid == now.st_uid && before.st_gid == now.st_gid) ||
                    ::fchown(fd, before.st_uid, before.st_gid) == 0;
  // Rights that belong to an owner are not given to another one.
  const mode_t kept = before.st_mode & (same ? 07777 : 0777);
  [[maybe_unused]] const int changed = ::fchmod(fd, kept);  // some file systems have no modes
}

bool is_full(int error_number) {
  return error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
}

void throw_system_error(const fs::path& path, std::string_view verb, int error_number, std::uint64_t needed) {
  ErrorText text{.where = path.string(),
                 .expected = "to " + std::string(verb) + " it",
                 .found = std::strerror(error_number),
                 .cause = {},
                 .fix = {}};
  if (is_full(error_number)) {
    std::uint64_t free = 0;
    text.expected = needed > 0 ? "room for " + human_bytes(needed) : "room to " + std::string(verb) + " it";
    const bool disk = error_number != EFBIG;
    if (disk && free_bytes(path, free)) text.found += "; " + human_bytes(free) + " free";
    text.cause = error_number == ENOSPC   ? "the disk is full"
                 : error_number == EDQUOT ? "your disk quota is used up"
                                          : "a limit on the size of files (ulimit -f, or the file system's)";
    text.fix = std::string(disk ? "make room" : "raise the limit") +
               " or choose another folder; no partial file was left";
  } else if (error_number == EISDIR) {
    text.expected = "a file";
    text.found = "a folder";
    text.fix = "name a file in it";
  } else if (error_number == EACCES || error_number == EPERM || error_number == EROFS) {
    text.cause = "missing permissions, or a file system mounted read-only";
    text.fix = "change the permissions or choose another path";
  } else if (error_number == ENOENT || error_number == ENOTDIR) {
    text.cause = "a folder of the path does not exist";
    text.fix = "create it or correct the path";
  } else if (may_pass(error_number)) {
    text.cause = "the file server or the disk does not answer";
    text.fix = "see whether it is there, and try again";
    throw StorageGone(std::move(text));
  }
  throw UserError(std::move(text));
}

void sync_path(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) throw_system_error(path, "save", errno);
  // EINVAL: a file system that cannot sync folders; there is nothing to wait for.
  if (::fsync(file.fd) != 0 && errno != EINVAL) throw_system_error(path, "save", errno);
}

std::string gigabytes(std::int64_t bytes) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.2f GB", static_cast<double>(bytes) / 1e9);
  return out.data();
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  constexpr std::array<const char*, 6> kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.1f %s", value, kUnits[unit]);
  return out.data();
}

MappedFile MappedFile::open(const fs::path& path) {
  const Descriptor file(open_for_reading(path));
  const struct stat status = status_of(file.fd, path);
  if (!S_ISREG(status.st_mode)) {
    throw UserError({.where = path.string(),
                     .expected = "a file on disk",
                     .found = "a device or pipe",
                     .cause = "it is read in random order, which a pipe does not allow",
                     .fix = "save it to a file first"});
  }
  MappedFile mapped;
  mapped.path_ = path;
  mapped.size_ = static_cast<std::size_t>(status.st_size);
  if (mapped.size_ == 0) return mapped;  // mmap refuses length 0
  void* data = ::mmap(nullptr, mapped.size_, PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) {
    mapped.size_ = 0;
    throw_system_error(path, "map", errno);
  }
  mapped.data_ = static_cast<const std::byte*>(data);
  note_mapped(data, mapped.size_, path.string());
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  forget_mapped(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

std::string read_text(const fs::path& path) {
  const Descriptor file(open_for_reading(path));
  const struct stat status = status_of(file.fd, path);
  std::string out;
  if (S_ISREG(status.st_mode)) out.reserve(static_cast<std::size_t>(status.st_size));
  std::array<char, 1 << 16> buffer;
  while (true) {
    const ssize_t got = ::read(file.fd, buffer.data(), buffer.size());
    if (got == 0) return out;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system_error(path, "read", errno);
    out.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

FileWriter::FileWriter(fs::path path, std::uint64_t expected_size)
    : path_(std::move(path)),
      target_(resolve_links(path_)),
      partial_(staging_path(target_)),
      expected_size_(expected_size) {
  struct stat status{};
  if (::stat(target_.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) throw_system_error(path_, "write", EISDIR);
    if (!S_ISREG(status.st_mode)) {
      throw UserError({.where = path_.string(),
                       .expected = "a file on disk, or a path that does not exist yet",
                       .found = "a device or pipe",
                       .cause = "the file is replaced atomically, which a device or pipe does not allow",
                       .fix = "name a file"});
    }
  }
  fd_ = create_partial(partial_, path_, expected_size_);
  // Before the first byte: what only the owner may read is never open to others.
  keep_mode_and_owner(fd_, target_);
  lock_ = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
}

FileWriter::~FileWriter() {
  const int held = fd_ >= 0 ? fd_ : lock_;
  if (!committed_ && held >= 0 && is_still_at(held, partial_)) ::unlink(partial_.c_str());
  if (fd_ >= 0) ::close(fd_);
  if (lock_ >= 0) ::close(lock_);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd_, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const int error_number = wrote == 0 ? ENOSPC : errno;
      // Our own partial file is part of what a full disk holds: give it back before saying what is free.
      [[maybe_unused]] const int truncated = ::ftruncate(fd_, 0);
      throw_system_error(path_, "write", error_number, std::max(expected_size_, written_ + bytes.size()));
    }
    written_ += static_cast<std::uint64_t>(wrote);
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
}

void FileWriter::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void FileWriter::commit() {
  require(!committed_ && fd_ >= 0, "FileWriter", "one commit");
  if (::fsync(fd_) != 0 && errno != EINVAL) throw_system_error(path_, "write", errno, written_);
  // On a file system without locks another writer may have put its own file there.
  if (!is_still_at(fd_, partial_)) throw_busy(path_);
  // close() reports what a network file system could not store.
  if (::close(std::exchange(fd_, -1)) != 0) throw_system_error(path_, "write", errno, written_);
  if (::rename(partial_.c_str(), target_.c_str()) != 0) throw_system_error(path_, "write", errno, written_);
  committed_ = true;
  sync_path(parent_of(target_));
}

void write_file_atomic(const fs::path& path, std::string_view contents) {
  retry_storage([&] {
    FileWriter writer(path, contents.size());
    writer.write(contents);
    writer.commit();
  });
}

void require_free_space(const fs::path& path, std::uint64_t bytes, std::string_view what_for) {
  std::uint64_t free = 0;
  if (!free_bytes(path, free) || free >= bytes) return;
  throw UserError(
      {.where = path.string(),
       .expected = human_bytes(bytes) + " free for " + std::string(what_for),
       .found = human_bytes(free) + " free",
       .cause = free == 0
                    ? "the disk is full, or the path is on a file system that keeps no files, such as /proc"
                    : "the disk is nearly full",
       .fix = "make room or choose another folder"});
}

}  // namespace hone::base
