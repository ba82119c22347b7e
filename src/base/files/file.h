// Files: mapped for reading, replaced atomically when written. A full disk is a UserError and leaves no
// partial file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace hone::base {

namespace fs = std::filesystem;

// A whole file mapped read-only for the object's lifetime. Move-only.
class MappedFile {
 public:
  static MappedFile open(const fs::path& path);  // UserError when missing, unreadable or a folder
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const fs::path& path() const { return path_; }

 private:
  MappedFile() = default;
  fs::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

std::string read_text(const fs::path& path);  // UserError when missing, with similar names in that folder

// Writes one file atomically: bytes go to staging_path() beside it (base/files/staging.h); commit() fsyncs them,
// renames them over `path` and fsyncs the folder. The destructor without commit() removes the staged file,
// and the old `path` stays unchanged. If `path` is a symbolic link, its target is replaced and the link
// stays. The mode of a replaced file is kept, and its owner if permissions allow it. UserError when `path` is
// a folder, a device or a pipe, or when another process is writing it. A killed process leaves at most the
// staged file, which the next writer of `path` removes. Errors are UserErrors; for ENOSPC, EDQUOT and EFBIG
// they say how much space was needed and how much is free. (For EFBIG, a limit on file sizes, the process
// must ignore SIGXFSZ.)
class FileWriter {
 public:
  // `expected_size` is only for the message; 0 when not known.
  explicit FileWriter(fs::path path, std::uint64_t expected_size = 0);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

 private:
  fs::path path_;    // as given, for messages
  fs::path target_;  // with links resolved
  fs::path partial_;
  std::uint64_t expected_size_;
  std::uint64_t written_ = 0;
  int fd_ = -1;
  int lock_ = -1;  // holds the staged file's lock until the rename
  bool committed_ = false;
};

// FileWriter in one call.
void write_file_atomic(const fs::path& path, std::string_view contents);

// A folder that is written atomically. Its files are written below path(), inside a hidden folder beside
// `final` (staging_path(), base/files/staging.h) that contains hone's marker file; commit() replaces `final` by
// them. The destructor without commit() removes the staged files. commit():
//   1. fsync every file and folder that was staged;
//   2. if `final` exists: rename it into the staging folder as `old`, fsync both folders;
//   3. rename `new` to `final`, fsync both folders;
//   4. remove the staging folder.
// A kill or a power failure leaves one of these, and recover() does this with it:
//   before 2   final (unchanged, if any), `new`   -> `new` removed
//   before 3   `old` (whole), `new`               -> `old` renamed back to final, `new` removed
//   before 4   final (new), `old`                 -> `old` removed
// The constructor recovers; a reader that looks for `final` after a kill calls recover() first. A folder with
// the staging name but without hone's marker is never changed. If `final` is a symbolic link, its target is
// replaced and the link stays; the mode of a replaced folder is kept. The staging folder is locked (flock)
// while the object lives: a second process that stages the same folder gets a UserError, and its recover()
// changes nothing.
class StagedFolder {
 public:
  // creates missing parents; UserError when `final_path` is a file
  explicit StagedFolder(fs::path final_path);
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;
  ~StagedFolder();

  const fs::path& path() const { return new_; }  // write files below here
  void commit();

  // Cleans up after a killed run, as above. Does nothing and returns false while another process stages it.
  static bool recover(const fs::path& final_path);

 private:
  fs::path final_;
  fs::path staging_;
  fs::path new_;
  int lock_ = -1;
  bool committed_ = false;
};

// Locks a folder (flock) while the object lives, so that a second run with the same output folder is refused.
// The kernel releases the lock of a killed process; nothing is written. UserError, naming `what_for`
// ("another run"), when another process holds the lock. No lock on file systems without locks.
class FolderLock {
 public:
  FolderLock(const fs::path& folder, std::string_view what_for);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int fd_;
};

// "1.5 GiB", "17 bytes": for messages.
std::string human_bytes(std::uint64_t bytes);
std::string gigabytes(std::int64_t bytes);  // "2.05 GB": always in units of 10^9 bytes

// UserError unless the file system of `path` has `bytes` free. Call it before the work begins.
void require_free_space(const fs::path& path, std::uint64_t bytes, std::string_view what_for);

}  // namespace hone::base
