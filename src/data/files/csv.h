// CSV and TSV as pandas.read_csv reads them, which datasets calls: a header, quotes, blank lines left out, missing
// values, and a type for each column.
//
// A column's type is that of the file's first 10,000 rows (datasets reads that many at a time): whole numbers,
// numbers, true and false, or text. Empty fields and pandas' other words for a missing value ("NA", "null", "nan",
// "None", ...) are null, also in quotes; whole numbers beside them become floats.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "data/files/file_text.h"

namespace hone::data {

// A field whose value is not its text: pandas made a number, a truth value or a missing value of it.
struct CsvReading {
  std::string column, text;
  base::Json value;
  std::int64_t line = 0;

  std::string describe() const;  // "the text 'NA' is read as a missing value"
};

// take(row, its 1-based line); false stops. `read`, where it is given, gets the first such field of each
// column before its row, and the first that is missing, but for empty ones. UserError for a quote that is not closed (file, line and
// column), a row with more fields than the header, a later value that is not of its column's type, bad UTF-8.
void for_each_csv_row(FileText text, const base::fs::path& path, char separator,
                      const std::function<bool(base::Json, std::int64_t)>& take,
                      const std::function<void(const CsvReading&)>& read = {});

// The fields of the row that begins at `line` whose values are no text, empty ones too.
std::vector<CsvReading> csv_readings(const base::fs::path& path, char separator, std::int64_t line);

}  // namespace hone::data
