// Files: mapped for reading, replaced atomically when written. A full disk is a UserError, and leaves nothing behind.
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

std::string read_text(const fs::path& path);  // UserError when missing; names near files in the same folder

// Writes `<path>.partial`, fsyncs it, renames it over `path`. On any error the old `path` is untouched and
// the partial file is removed; ENOSPC is a UserError that says how much was needed and is free.
void write_file_atomic(const fs::path& path, std::string_view contents);

// A folder that appears whole or not at all: files are written into `<final_path>.partial`, and commit()
// fsyncs every file and folder, then renames. Destroyed without commit() it removes the partial folder.
// An existing `final_path` is replaced on commit.
class StagedFolder {
 public:
  explicit StagedFolder(fs::path final_path);
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;
  ~StagedFolder();

  const fs::path& path() const { return partial_; }  // write files below here
  void commit();

 private:
  fs::path final_;
  fs::path partial_;
  bool committed_ = false;
};

// UserError unless the file system that will hold `path` has `bytes` free; said before work is spent.
void require_free_space(const fs::path& path, std::uint64_t bytes, std::string_view what_for);

}  // namespace hone::base
