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

// Writes one file that appears whole or not at all: bytes go to `<path>.partial` beside it; commit() fsyncs
// it, renames it over `path` and fsyncs the folder. Destroyed without commit() it removes the partial file;
// the old `path` stays untouched. A kill leaves at most `<path>.partial`, which the next writer overwrites.
// Errors are UserErrors; for ENOSPC, EDQUOT and EFBIG they say how much was needed and how much is free. (For
// EFBIG, a limit on file sizes, the process must ignore SIGXFSZ.)
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
  fs::path path_;
  fs::path partial_;
  std::uint64_t expected_size_;
  std::uint64_t written_ = 0;
  int fd_ = -1;
  bool committed_ = false;
};

// FileWriter in one call.
void write_file_atomic(const fs::path& path, std::string_view contents);

// A folder that appears whole or not at all: files are written into `<final>.partial`, and commit() replaces
// `final` by it. Destroyed without commit() it removes the partial folder. commit():
//   1. fsync every file and folder below `<final>.partial`;
//   2. if `final` exists: rename it to `<final>.hone-old`;
//   3. rename `<final>.partial` to `final`, fsync the parent;
//   4. remove `<final>.hone-old`.
// What a kill leaves, and what recover() makes of it:
//   before 2   final (old, if any), .partial            -> .partial removed
//   before 3   .hone-old (old, whole), .partial         -> .hone-old renamed back to final, .partial removed
//   before 4   final (new), .hone-old                   -> .hone-old removed
// The constructor recovers; a reader that looks for `final` after a kill calls recover() first. While the
// object lives its partial folder is locked (flock): a second process that stages the same folder gets a
// UserError, and its recover() touches nothing.
class StagedFolder {
 public:
  explicit StagedFolder(fs::path final_path);  // makes missing parents; UserError when `final_path` is a file
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;
  ~StagedFolder();

  const fs::path& path() const { return partial_; }  // write files below here
  void commit();

  // Cleans up after a killed run, as above. False, and nothing done, while another process stages it.
  static bool recover(const fs::path& final_path);

 private:
  fs::path final_;
  fs::path partial_;
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
