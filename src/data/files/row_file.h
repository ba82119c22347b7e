// One data file as rows. The format is known by the first bytes (Parquet, Arrow, gzip, zstd) and by the name
// (.csv, .tsv, .json, else JSON Lines; .gz and .zst before which the name ends do not count).
//
//   JSON Lines   one object a line, several one after another, or one over several lines (data/files/json_rows.h); blank lines, a byte
//                order mark and CRLF are accepted
//   .json        the same, or one list of objects, or {"data": [...]}; a list of texts gives rows with the column
//                `text`, as datasets gives them
//   .csv, .tsv   data/files/csv.h
//   Parquet, Arrow   text/file_blocks.h
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "data/files/csv.h"

namespace hone::data {

enum class FileFormat { kJsonLines, kJsonList, kCsv, kTsv, kParquet, kArrow };

// A row as it was read, parsed when it is asked for. Text and path are the reader's.
class RowText {
 public:
  RowText(std::string_view json, const base::fs::path& path, int line)
      : json_(json), path_(&path), line_(line) {}

  // As datasets reads a row: with NaN, Infinity and -Infinity. UserError when this is no JSON
  // (file:line:column), no object, or an object that has a name twice.
  base::Json parse() const;
  std::string_view json() const { return json_; }
  const base::fs::path& path() const { return *path_; }
  int line() const { return line_; }

 private:
  std::string_view json_;
  const base::fs::path* path_;
  int line_;
};

class RowFile {
 public:
  // UserError: missing, unreadable, or of a format that hone does not read (naming it).
  explicit RowFile(base::fs::path path);

  const base::fs::path& path() const { return path_; }
  FileFormat format() const { return format_; }
  // take(row, number): a line of text files, else the row's place in the file, both from 1; false stops. UserError
  // as the formats' headers say.
  // `read` gets what data/files/csv.h says.
  void for_each(const std::function<bool(const RowText&, int)>& take,
                const std::function<void(const CsvReading&)>& read = {}) const;
  // Returns the fields of row `number` of a CSV or TSV whose value is not their text; empty for the other
  // formats.
  std::vector<CsvReading> readings(int number) const;
  // Rows; reads the file where it does not say.
  std::int64_t count() const;
  // "train.jsonl:12", "train.parquet row 12"
  std::string where(int number) const;

 private:
  base::fs::path path_;
  FileFormat format_;
};

}  // namespace hone::data
