#include "data/file_text.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
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

}  // namespace

std::string_view without_byte_order_mark(std::string_view begin, const base::fs::path& path) {
  if (begin.starts_with("\xFF\xFE") || begin.starts_with("\xFE\xFF")) {
    throw UserError({.where = path.string(),
                     .expected = "text in UTF-8",
                     .found = "UTF-16",
                     .cause = "a file in UTF-16, as written by some programs on Windows",
                     .fix = "convert it: iconv -f UTF-16 -t UTF-8 IN > OUT"});
  }
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (begin.starts_with(kMark)) begin.remove_prefix(kMark.size());
  return begin;
}

struct FileText::Source {
  std::optional<base::MappedFile> plain;
  bool given = false;  // the plain file's one block
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
  return std::exchange(source_->given, true) ? std::string_view() : text_of(*source_->plain);
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
