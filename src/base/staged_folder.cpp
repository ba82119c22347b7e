#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/file_errors.h"

namespace hone::base {

namespace {

// "out/" and "out" are the same folder; a name can be appended only to the second.
fs::path without_slash(fs::path path) {
  path = fs::absolute(path).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

fs::path with_suffix(const fs::path& path, const char* suffix) {
  fs::path out = path;
  out += suffix;
  return out;
}

fs::path partial_name(const fs::path& final_path) {
  return with_suffix(final_path, ".partial");
}
fs::path old_name(const fs::path& final_path) {
  return with_suffix(final_path, ".hone-old");
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_system_error(to, "rename to", errno);
}

void remove_or_throw(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw_system_error(path, "remove", error.value());
}

// An open, locked descriptor of `folder`; -1 when another process holds the lock.
int lock_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_system_error(folder, "open", errno);
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const int error_number = errno;
  if (error_number == EWOULDBLOCK) {
    ::close(fd);
    return -1;
  }
  return fd;  // a file system without locks: go on without one
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder, std::string_view what_for) : fd_(lock_folder(folder)) {
  if (fd_ >= 0) return;
  throw UserError({.where = folder.string(),
                   .expected = "a folder that no other process writes to",
                   .found = std::string(what_for) + ", which is still going on",
                   .cause = "the same command was started twice",
                   .fix = "wait for it, stop it, or choose another folder"});
}

FolderLock::~FolderLock() {
  ::close(fd_);
}

bool StagedFolder::recover(const fs::path& final_path) {
  const fs::path final_folder = without_slash(final_path);
  const fs::path partial = partial_name(final_folder);
  const fs::path old = old_name(final_folder);
  int lock = -1;
  if (fs::is_directory(partial)) {
    lock = lock_folder(partial);
    if (lock < 0) return false;
  }
  try {
    if (fs::exists(old)) {
      if (fs::exists(final_folder)) {
        remove_or_throw(old);
      } else {
        rename_or_throw(old, final_folder);
      }
    }
    if (lock >= 0) remove_or_throw(partial);
  } catch (...) {
    if (lock >= 0) ::close(lock);
    throw;
  }
  if (lock >= 0) ::close(lock);
  return true;
}

StagedFolder::StagedFolder(fs::path final_path)
    : final_(without_slash(std::move(final_path))), partial_(partial_name(final_)) {
  std::error_code error;
  if (fs::exists(final_, error) && !fs::is_directory(final_, error)) {
    throw UserError({.where = final_.string(),
                     .expected = "a folder or nothing",
                     .found = "a file",
                     .cause = "a path of a file was given for a folder",
                     .fix = "remove the file or choose another path"});
  }
  const auto busy = [this] {
    return UserError({.where = final_.string(),
                      .expected = "to be the only writer",
                      .found = "another process that writes " + partial_.string(),
                      .cause = "a second run with the same output folder",
                      .fix = "wait for it or choose another output folder"});
  };
  fs::create_directories(final_.parent_path(), error);
  if (error) throw_system_error(final_, "create", error.value());
  if (!recover(final_)) throw busy();
  fs::create_directory(partial_, error);
  if (error) throw_system_error(partial_, "create", error.value());
  lock_ = lock_folder(partial_);
  if (lock_ < 0) throw busy();
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  if (!committed_ && lock_ >= 0) fs::remove_all(partial_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

void StagedFolder::commit() {
  require(!committed_, "StagedFolder", "one commit");
  std::error_code error;
  for (fs::recursive_directory_iterator it(partial_, error), end; !error && it != end; it.increment(error)) {
    if (it->is_symlink()) continue;
    if (it->is_regular_file() || it->is_directory()) sync_path(it->path());
  }
  if (error) throw_system_error(partial_, "save", error.value());
  sync_path(partial_);
  const fs::path old = old_name(final_);
  const bool replaces = fs::exists(final_);
  if (replaces) rename_or_throw(final_, old);
  try {
    rename_or_throw(partial_, final_);
  } catch (const UserError&) {
    if (replaces) rename_or_throw(old, final_);
    throw;
  }
  committed_ = true;
  sync_path(final_.parent_path());
  if (replaces) remove_or_throw(old);
}

}  // namespace hone::base
