// CSV and TSV as pandas.read_csv reads them, which datasets calls: a header, quotes, blank lines left out, missing
// values, and a type for each column.
//
// A column's type is that of the file's first 10,000 rows (datasets reads that many at a time): whole numbers,
// numbers, true and false, or text. Empty fields and pandas' other words for a missing value ("NA", "null", "nan",
// "None", ...) are null, also in quotes; whole numbers beside them become floats.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/file.h"
#include "base/json.h"
#include "data/file_text.h"

namespace hone::data {

// take(row, its 1-based line); false stops. UserError for a quote that is not closed (file, line and column), a
// row with more fields than the header, a later value that is not of its column's type, bad UTF-8.
void for_each_csv_row(FileText text, const base::fs::path& path, char separator,
                      const std::function<bool(base::Json, std::int64_t)>& take);

}  // namespace hone::data
