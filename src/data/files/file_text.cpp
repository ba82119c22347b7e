#include "data/files/file_text.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/files/release_pages.h"
#include "text/file_blocks.h"

namespace hone::data {

using base::UserError;

namespace {

std::string_view text_of(const base::MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::optional<text::BlockKind> compression(std::string_view begin) {
  if (begin.starts_with("\x1F\x8B")) return text::BlockKind::kGzip;
  if (begin.starts_with("\x28\xB5\x2F\xFD")) return text::BlockKind::kZstd;
  return std::nullopt;
}

// Rows of JSON or CSV begin with ASCII, which has a zero in each pair of bytes there.
bool is_utf16_without_mark(std::string_view begin) {
  constexpr std::size_t kLooked = 64;
  const std::string_view some = begin.substr(0, std::min(kLooked, begin.size() / 2 * 2));
  if (some.size() < 8) return false;
  std::size_t even = 0, odd = 0;
  for (std::size_t i = 0; i < some.size(); i += 2) {
    even += some[i] == '\0' ? 1 : 0;
    odd += some[i + 1] == '\0' ? 1 : 0;
  }
  const std::size_t pairs = some.size() / 2;
  return (even == pairs && odd == 0) || (odd == pairs && even == 0);
}

}  // namespace

std::string_view without_byte_order_mark(std::string_view begin, const base::fs::path& path) {
  const bool marked = begin.starts_with("\xFF\xFE") || begin.starts_with("\xFE\xFF");
  if (marked || is_utf16_without_mark(begin)) {
    throw UserError({.where = path.string(),
                     .expected = "text in UTF-8 (DATA-15)",
                     .found = marked ? "UTF-16" : "UTF-16 without a byte order mark: every other byte is 0",
                     .cause = "a file in UTF-16, as written by some programs on Windows",
                     .fix = "convert it: iconv -f " +
                            std::string(marked             ? "UTF-16"
                                        : begin[0] == '\0' ? "UTF-16BE"
                                                           : "UTF-16LE") +
                            " -t UTF-8 IN > OUT"});
  }
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (begin.starts_with(kMark)) begin.remove_prefix(kMark.size());
  return begin;
}

struct FileText::Source {
  std::optional<base::MappedFile> plain;
  std::size_t given = 0;                 // bytes of the plain file that blocks have given
  std::span<const std::byte> last = {};  // the block before
  std::optional<text::FileBlocks> compressed;
};

FileText::FileText(const base::fs::path& path) : path_(path), source_(std::make_unique<Source>()) {
  source_->plain = base::MappedFile::open(path);
  if (const auto kind = compression(text_of(*source_->plain))) {
    source_->plain.reset();
    source_->compressed.emplace(path, *kind);
  }
}
FileText::~FileText() = default;
FileText::FileText(FileText&&) noexcept = default;
FileText& FileText::operator=(FileText&&) noexcept = default;

std::string_view FileText::next_block() {
  if (source_->compressed) return source_->compressed->next();
  base::release_pages(source_->last);
  const std::string_view block = text_of(*source_->plain).substr(source_->given, base::kReadWindow);
  source_->last = source_->plain->bytes().subspan(source_->given, block.size());
  source_->given += block.size();
  return block;
}

std::string_view FileText::next() {
  std::string_view block = next_block();
  if (!std::exchange(first_, false)) return block;
  block = without_byte_order_mark(block, path_);
  return block.empty() ? next_block() : block;
}

std::string first_bytes(const base::fs::path& path, std::size_t most) {
  const base::MappedFile file = base::MappedFile::open(path);
  return std::string(text_of(file).substr(0, most));
}

void throw_endless_row(const base::fs::path& path, std::int64_t line) {
  throw UserError({.where = path.string() + ":" + std::to_string(line),
                   .expected = "rows below " + base::human_bytes(kMostRowBytes),
                   .found = "a row that goes on after that",
                   .cause = "a file without line ends, or one of another format",
                   .fix = "write one row a line"});
}

void for_each_line(FileText text, const base::fs::path& path,
                   const std::function<bool(std::string_view, std::int64_t)>& take) {
  std::string begun;  // the part of a line that earlier blocks held
  std::int64_t number = 0;
  for (std::string_view block = text.next(); !block.empty(); block = text.next()) {
    while (!block.empty()) {
      const std::size_t end = block.find('\n');
      const std::string_view part = block.substr(0, end);
      if (begun.size() + part.size() > kMostRowBytes) throw_endless_row(path, number + 1);
      if (end == std::string_view::npos) {
        begun += part;
        break;
      }
      block.remove_prefix(end + 1);
      ++number;
      if (begun.empty()) {
        if (!take(part, number)) return;
        continue;
      }
      begun += part;
      if (!take(begun, number)) return;
      begun.clear();
    }
  }
  if (!begun.empty()) take(begun, number + 1);
}

}  // namespace hone::data
