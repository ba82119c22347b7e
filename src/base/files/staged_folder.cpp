#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/file_errors.h"
#include "base/files/staging.h"

namespace hone::base {

namespace {

// In a staging folder, whose name is staging_path().
constexpr const char* kNew = "new";                    // what will be the folder
constexpr const char* kOld = "old";                    // what it replaces
constexpr const char* kLeaving = "leaving";            // what is being removed
constexpr const char* kStagedMarker = "made-by-hone";  // there before anything else is, removed last
constexpr int kBusy = -1, kAbsent = -2, kNotOurs = -3;

// "out/" and "out" are the same folder; a name can be put before only the second. Links are followed.
fs::path place_of(fs::path path) {
  const auto without_slash = [](fs::path at) {
    while (!at.has_filename() && at.has_relative_path()) at = at.parent_path();
    return at;
  };
  path = without_slash(fs::absolute(path));
  if (path.filename() == "." || path.filename() == "..") path = without_slash(fs::weakly_canonical(path));
  return resolve_links(path);
}

// The staging folder, open and locked; kBusy, kAbsent (only without `create`), or kNotOurs: a file, a link,
// or a folder with something in it and no marker.
int claim(const fs::path& staging, bool create) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    // Only for this user: it may hold what a folder with narrow rights is to hold.
    if (create && ::mkdir(staging.c_str(), 0700) != 0 && errno != EEXIST)
      throw_system_error(staging, "create", errno);
    const int fd = ::open(staging.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && !create) return kAbsent;  // or not to be looked at
    if (fd < 0 && errno == ENOENT) continue;
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) return kNotOurs;
    if (fd < 0) throw_system_error(staging, "open", errno);
    const bool locked = try_lock(fd);
    if (locked && is_still_at(fd, staging)) {
      std::error_code none;
      if (is_there(staging / kStagedMarker) || fs::is_empty(staging, none)) return fd;
      ::close(fd);
      return kNotOurs;
    }
    ::close(fd);
    if (!locked) return kBusy;
  }
  return kBusy;
}

void mark(const fs::path& staging, const fs::path& final_path) {
  const std::string text = "hone makes " + final_path.filename().string() +
                           " here. If no hone is running, the next run that writes it removes this folder.\n";
  const fs::path marker = staging / kStagedMarker;
  if (is_there(marker)) return;
  const int fd = ::open(marker.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) throw_system_error(marker, "write", errno);
  [[maybe_unused]] const ssize_t wrote = ::write(fd, text.data(), text.size());  // its name says it all
  ::close(fd);
  sync_path(staging);
  sync_path(staging.parent_path());
}

void remove_staging(const fs::path& staging) {
  for (const char* part : {kNew, kLeaving, kOld}) remove_or_throw(staging / part);
  sync_path(staging);  // a power cut must not take the marker before them
  remove_or_throw(staging / kStagedMarker);
  if (::rmdir(staging.c_str()) != 0 && errno != ENOENT) throw_system_error(staging, "remove", errno);
}

// What a killed process left: the folder is put back, or what it replaced is removed.
void clean(const fs::path& staging, const fs::path& final_path) {
  if (is_there(staging / kOld)) {
    if (!is_there(final_path)) {
      rename_synced(staging / kOld, final_path);
    } else if (is_there(staging / kNew)) {
      throw UserError({.where = final_path.string(),
                       .expected = "no folder: it was being replaced when hone was killed",
                       .found = "another one, and the one from before as " + (staging / kOld).string(),
                       .cause = "a folder was put there afterwards",
                       .fix = "keep one of them at this path and remove " + staging.string()});
    }
  }
  remove_staging(staging);
}

class Claimed {
 public:
  explicit Claimed(int fd) : fd_(fd) {}
  Claimed(const Claimed&) = delete;
  Claimed& operator=(const Claimed&) = delete;
  ~Claimed() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  int fd_;
};

void sync_below(const fs::path& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->is_symlink()) continue;
    if (it->is_regular_file() || it->is_directory()) sync_path(it->path());
  }
  if (error) throw_system_error(folder, "save", error.value());
  sync_path(folder);
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder, std::string_view what_for) : fd_(lock_folder(folder)) {
  if (fd_ >= 0) return;
  throw UserError({.where = folder.string(),
                   .expected = "a folder that no other process writes to",
                   .found = std::string(what_for) + ", which is still running",
                   .cause = "the same command was started twice",
                   .fix = "wait for it, stop it, or choose another folder"});
}

FolderLock::~FolderLock() {
  ::close(fd_);
}

bool StagedFolder::recover(const fs::path& final_path) {
  const fs::path final_folder = place_of(final_path);
  const fs::path staging = staging_path(final_folder);
  const int fd = claim(staging, /*create=*/false);
  if (fd == kBusy) return false;
  if (fd < 0) return true;
  const Claimed claimed(fd);
  clean(staging, final_folder);
  return true;
}

StagedFolder::StagedFolder(fs::path final_path)
    : final_(place_of(std::move(final_path))), staging_(staging_path(final_)), new_(staging_ / kNew) {
  std::error_code error;
  if (fs::exists(final_, error) && !fs::is_directory(final_, error)) {
    throw UserError({.where = final_.string(),
                     .expected = "a folder or nothing",
                     .found = "a file",
                     .cause = "the path of a file was given for a folder",
                     .fix = "remove the file or choose another path"});
  }
  create_folders(final_.parent_path());
  if (!recover(final_)) throw_busy(final_);
  lock_ = claim(staging_, /*create=*/true);
  if (lock_ == kNotOurs) throw_not_ours(final_, staging_, "something that hone did not create");
  if (lock_ < 0) throw_busy(final_);
  try {
    mark(staging_, final_);
    if (::mkdir(new_.c_str(), 0777) != 0) throw_system_error(new_, "create", errno);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(staging_, ignored);
    ::close(lock_);
    throw;
  }
}

StagedFolder::~StagedFolder() {
  if (lock_ < 0) return;
  std::error_code ignored;
  // `old` is there when a commit failed and the folder could not be put back.
  if (!committed_ && !is_there(staging_ / kOld)) fs::remove_all(staging_, ignored);
  ::close(lock_);
}

void StagedFolder::commit() {
  require(!committed_, "StagedFolder", "one commit");
  sync_below(new_);
  sync_path(staging_);
  if (is_there(final_)) {
    if (const int fd = ::open(new_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); fd >= 0) {
      keep_mode_and_owner(fd, final_);
      ::close(fd);
    }
    rename_synced(final_, staging_ / kOld);
  }
  try {
    rename_or_throw(new_, final_);
  } catch (const UserError&) {
    if (is_there(staging_ / kOld)) rename_or_throw(staging_ / kOld, final_);
    throw;
  }
  committed_ = true;
  sync_path(final_.parent_path());
  sync_path(staging_);
  remove_staging(staging_);
}

void remove_whole_folder(const fs::path& folder) {
  std::error_code none;
  if (!fs::is_directory(fs::symlink_status(folder, none))) return remove_or_throw(folder);
  const fs::path place = place_of(folder), staging = staging_path(place);
  if (!StagedFolder::recover(place)) throw_busy(place);
  const int fd = claim(staging, /*create=*/true);
  if (fd == kNotOurs) throw_not_ours(place, staging, "something that hone did not create");
  if (fd < 0) throw_busy(place);
  const Claimed claimed(fd);
  mark(staging, place);
  rename_synced(place, staging / kLeaving);
  remove_staging(staging);
}

}  // namespace hone::base
