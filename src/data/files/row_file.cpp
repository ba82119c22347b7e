#include "data/files/row_file.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/numeric.h"
#include "base/strings/ascii.h"
#include "data/files/describe_row.h"
#include "data/files/file_text.h"
#include "data/files/json_list.h"
#include "data/files/json_rows.h"
#include "text/file_blocks.h"

namespace hone::data {

using base::Json;
using base::UserError;

namespace {

constexpr std::size_t kMagicBytes = 8;
constexpr std::string_view kBlanks = " \t\r\n";

// ".csv" of "train.csv.gz".
std::string ending_of(base::fs::path path) {
  std::string ending = base::lower_ascii(path.extension().string());
  for (const char* compressed : {".gz", ".zst", ".zstd"}) {
    if (ending == compressed) ending = base::lower_ascii(path.replace_extension().extension().string());
  }
  return ending;
}

struct Unread {
  std::string_view begin;
  const char* name;
  const char* fix;
};
constexpr std::array<Unread, 5> kUnread = {{
    {"PK\x03\x04", "a zip archive", "unpack it, and name the file or folder"},
    {"\xFD"
     "7zXZ",
     "a file compressed by xz", "unpack it: unxz FILE"},
    {"BZh", "a file compressed by bzip2", "unpack it: bunzip2 FILE"},
    {"\x89HDF", "an HDF5 file", "write the rows as JSON Lines or Parquet"},
    {"\x80\x04\x95", "a pickle, which may run any program", "write the rows as JSON Lines or Parquet"},
}};

void require_readable(const base::fs::path& path, std::string_view magic) {
  for (const Unread& each : kUnread) {
    if (!magic.starts_with(each.begin)) continue;
    throw UserError(
        {.where = path.string(),
         .expected = "JSON Lines, JSON, CSV, Parquet or Arrow, perhaps compressed by gzip or zstd",
         .found = each.name,
         .cause = "",
         .fix = each.fix});
  }
}

// The first character that is not white space; 0 in an empty file.
char first_character(const base::fs::path& path) {
  FileText text(path);
  for (std::string_view block = text.next(); !block.empty(); block = text.next()) {
    const std::size_t begin = block.find_first_not_of(kBlanks);
    if (begin != std::string_view::npos) return block[begin];
  }
  return 0;
}

// One object that holds the rows as `data`, not JSON Lines. It may be larger than memory, so that one over
// several lines is known by the beginning of the list; one in a line, which may be a row, is the only one of
// the file.
bool is_object_of_rows(const base::fs::path& path) {
  bool holds_rows = false;
  int lines = 0;
  for_each_line(FileText(path), path, [&](std::string_view line, std::int64_t) {
    if (line.find_first_not_of(kBlanks) == std::string_view::npos) return true;
    if (++lines > 1) {
      holds_rows = false;
      return false;
    }
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (object.is_discarded()) {
      holds_rows = begins_list_of_rows(FileText(path));
      return false;
    }
    holds_rows = object.contains("data") && object["data"].is_array() && !object["data"].empty() &&
                 object["data"][0].is_object();
    return holds_rows;
  });
  return holds_rows;
}

bool is_json_list(const base::fs::path& path, const std::string& ending) {
  const char first = first_character(path);
  return first == '[' || (first == '{' && ending == ".json" && is_object_of_rows(path));
}

FileFormat format_of(const base::fs::path& path) {
  const std::string magic = first_bytes(path, kMagicBytes);
  const std::string ending = ending_of(path);
  if (magic.starts_with("PAR1")) return FileFormat::kParquet;
  if (magic.starts_with("ARROW1") || magic.starts_with("\xFF\xFF\xFF\xFF")) return FileFormat::kArrow;
  // Named so, and damaged or empty: its reader says what is wrong.
  if (ending == ".parquet") return FileFormat::kParquet;
  if (ending == ".arrow") return FileFormat::kArrow;
  require_readable(path, magic);
  if (ending == ".csv") return FileFormat::kCsv;
  if (ending == ".tsv") return FileFormat::kTsv;
  return is_json_list(path, ending) ? FileFormat::kJsonList : FileFormat::kJsonLines;
}

using TakeRow = std::function<bool(const RowText&, int)>;

int as_number(std::int64_t number) {
  return base::narrow<int>(number);
}

void each_line(const base::fs::path& path, const TakeRow& take) {
  for_each_json_row(FileText(path), path, [&](std::string_view row, std::int64_t line) {
    return take(RowText(row, path, as_number(line)), as_number(line));
  });
}

void each_element(const base::fs::path& path, const TakeRow& take) {
  int number = 0;
  for_each_element(FileText(path), path, [&](std::string_view element, std::int64_t line) {
    if (!element.starts_with('"')) return take(RowText(element, path, as_number(line)), ++number);
    return take(RowText("{\"text\":" + std::string(element) + "}", path, as_number(line)), ++number);
  });
}

void each_csv_row(const base::fs::path& path, char separator, const TakeRow& take,
                  const std::function<void(const CsvReading&)>& read) {
  for_each_csv_row(
      FileText(path), path, separator,
      [&](const Json& row, std::int64_t line) {
        return take(RowText(base::dump_python_json(row), path, as_number(line)), as_number(line));
      },
      read);
}

void each_block_line(const base::fs::path& path, text::BlockKind kind, const TakeRow& take) {
  text::FileBlocks blocks(path, kind);
  int number = 0;
  for (std::string_view block = blocks.next(); !block.empty(); block = blocks.next()) {
    while (!block.empty()) {
      const std::size_t end = block.find('\n');
      base::require(end != std::string_view::npos, "data::RowFile", "blocks of whole lines");
      ++number;
      if (!take(RowText(block.substr(0, end), path, number), number)) return;
      block.remove_prefix(end + 1);
    }
  }
}

text::BlockKind block_kind(FileFormat format) {
  return format == FileFormat::kParquet ? text::BlockKind::kParquet : text::BlockKind::kArrow;
}

}  // namespace

Json RowText::parse() const {
  const std::string file = path_->string();
  Json row = base::parse_python_json(json_, file, line_);
  if (row.is_object()) return row;
  throw UserError({.where = file + ":" + std::to_string(line_),
                   .expected = "one JSON object on the line",
                   .found = a_type(row),
                   .cause = row.is_array() ? "the file is one JSON list, not JSON Lines" : "",
                   .fix = "write one {...} per line"});
}

RowFile::RowFile(base::fs::path path) : path_(std::move(path)), format_(format_of(path_)) {}

std::vector<CsvReading> RowFile::readings(int number) const {
  if (format_ != FileFormat::kCsv && format_ != FileFormat::kTsv) return {};
  return csv_readings(path_, format_ == FileFormat::kCsv ? ',' : '\t', number);
}

void RowFile::for_each(const TakeRow& take, const std::function<void(const CsvReading&)>& read) const {
  switch (format_) {
    case FileFormat::kJsonLines:
      return each_line(path_, take);
    case FileFormat::kJsonList:
      return each_element(path_, take);
    case FileFormat::kCsv:
      return each_csv_row(path_, ',', take, read);
    case FileFormat::kTsv:
      return each_csv_row(path_, '\t', take, read);
    default:
      return each_block_line(path_, block_kind(format_), take);
  }
}

std::int64_t RowFile::count() const {
  if (format_ == FileFormat::kParquet || format_ == FileFormat::kArrow) {
    return text::FileBlocks(path_, block_kind(format_)).rows().value_or(0);
  }
  std::int64_t rows = 0;
  for_each([&rows](const RowText&, int) {
    ++rows;
    return true;
  });
  return rows;
}

std::string RowFile::where(int number) const {
  const bool lines =
      format_ == FileFormat::kJsonLines || format_ == FileFormat::kCsv || format_ == FileFormat::kTsv;
  return path_.string() + (lines ? ":" : " row ") + std::to_string(number);
}

}  // namespace hone::data
