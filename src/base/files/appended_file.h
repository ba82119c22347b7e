// A file that grows by whole lines or records.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/files/file.h"

namespace hone::base {

class AppendedFile {
 public:
  // Continues the file at `path`, or makes one; repeated where storage does not answer (base/files/retry.h). UserError: it cannot be opened.
  explicit AppendedFile(fs::path path);
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;
  ~AppendedFile();

  // Appends all of `bytes`, or nothing: UserError. While storage does not answer they are kept, and written by a later call.
  void append(std::string_view bytes);
  void truncate(std::uint64_t size);  // what is kept is kept

 private:
  void open();
  void write_kept();

  static constexpr std::size_t kMostKept = std::size_t{64} << 20;

  fs::path path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;  // of what was appended well
  bool torn_ = false;       // a part of a line may follow that
  std::string kept_;        // not yet written
};

}  // namespace hone::base
