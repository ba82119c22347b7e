// A data file's text from its beginning, plain or compressed, in blocks and in lines.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/files/file.h"

namespace hone::data {

// The beginning of the file at `path` without its byte order mark. UserError when it is UTF-16.
std::string_view without_byte_order_mark(std::string_view begin, const base::fs::path& path);

// More in one row is an error: a file without line ends, or a quote that is never closed.
inline constexpr std::size_t kMostRowBytes = std::size_t{1} << 30;

// Blocks of a file; those of a plain file are mapped, and are no longer in memory when the next is read.
class FileText {
 public:
  // gzip and zstd are known by their first bytes. UserError when missing, cut or damaged.
  explicit FileText(const base::fs::path& path);
  ~FileText();
  FileText(FileText&&) noexcept;
  FileText& operator=(FileText&&) noexcept;

  // Empty at the end. Valid until the next call. A byte order mark is left out; UTF-16 is a UserError.
  std::string_view next();

 private:
  struct Source;
  std::string_view next_block();

  base::fs::path path_;
  std::unique_ptr<Source> source_;
  bool first_ = true;
};

// The first bytes as they are in the file, at most `most`.
std::string first_bytes(const base::fs::path& path, std::size_t most);

// take(line, number): lines without their end, from 1; false stops. UserError for a line above kMostRowBytes.
void for_each_line(FileText text, const base::fs::path& path,
                   const std::function<bool(std::string_view, std::int64_t)>& take);

[[noreturn]] void throw_endless_row(const base::fs::path& path, std::int64_t line);

}  // namespace hone::data
