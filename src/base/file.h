// Files: mapped for reading, replaced atomically when written. A full disk is a UserError and leaves nothing
// behind.
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

std::string read_text(const fs::path& path);  // UserError when missing: names near files of that folder

// Writes one file that appears whole or not at all: bytes go to staging_path() beside it (base/staging.h);
// commit() fsyncs them, renames them over `path` and fsyncs the folder. Destroyed without commit() it removes
// what it staged; the old `path` stays untouched. Where `path` is a symbolic link, the file that it names is
// replaced and the link stays. A replaced file's mode is kept, and its owner where the rights allow it.
// UserError when `path` is a folder, a device or a pipe, or when another writer is at work on it. A kill
// leaves at most the staged file, which the next writer of `path` removes. Errors are UserErrors; for ENOSPC,
// EDQUOT and EFBIG they say how much was needed and how much is free. (For EFBIG, a limit on file sizes, the
// process must ignore SIGXFSZ.)
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
  fs::path path_;    // as it was given, for messages
  fs::path target_;  // without links
  fs::path partial_;
  std::uint64_t expected_size_;
  std::uint64_t written_ = 0;
  int fd_ = -1;
  int lock_ = -1;  // holds the staged file's lock until it has its name
  bool committed_ = false;
};

// FileWriter in one call.
void write_file_atomic(const fs::path& path, std::string_view contents);

// A folder that appears whole or not at all. Its files are written below path(), inside a hidden folder
// beside `final` (staging_path(), base/staging.h) that holds a marker of hone's; commit() replaces `final` by
// them. Destroyed without commit() it removes what it staged. commit():
//   1. fsync every file and folder that was staged;
//   2. if `final` exists: rename it into the staging folder as `old`, fsync both folders;
//   3. rename `new` to `final`, fsync both folders;
//   4. remove the staging folder.
// What a kill or a power cut leaves, and what recover() makes of it:
//   before 2   final (as it was, if any), `new`   -> `new` removed
//   before 3   `old` (whole), `new`               -> `old` renamed back to final, `new` removed
//   before 4   final (new), `old`                 -> `old` removed
// The constructor recovers; a reader that looks for `final` after a kill calls recover() first. A folder of
// the staging name without hone's marker is never touched. Where `final` is a symbolic link, the folder that
// it names is replaced and the link stays; a replaced folder's mode is kept. While the object lives its
// staging folder is locked (flock): a second process that stages the same folder gets a UserError, and its
// recover() touches nothing.
class StagedFolder {
 public:
  explicit StagedFolder(fs::path final_path);  // makes missing parents; UserError when `final_path` is a file
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;
  ~StagedFolder();

  const fs::path& path() const { return new_; }  // write files below here
  void commit();

  // Cleans up after a killed run, as above. False, and nothing done, while another process stages it.
  static bool recover(const fs::path& final_path);

 private:
  fs::path final_;
  fs::path staging_;
  fs::path new_;
  int lock_ = -1;
  bool committed_ = false;
};

// Holds a folder (flock) while it lives: of two runs with one output folder, the second is stopped. A kill
// gives it back; nothing is written. UserError, naming `what_for` ("another run"), when another process holds
// it. File systems without locks: no lock.
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
std::string gigabytes(std::int64_t bytes);  // "2.05 GB" of 10^9 bytes, whatever the size

// UserError unless the file system that will hold `path` has `bytes` free; said before work is spent.
void require_free_space(const fs::path& path, std::uint64_t bytes, std::string_view what_for);

}  // namespace hone::base
