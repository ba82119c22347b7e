// A file of rows in one of its formats: every row is parsed, or the file is refused.
#pragma once

#include "data/files/row_file.h"
#include "fuzz/targets/target.h"

namespace hone::fuzz {

inline void read_rows(std::string_view bytes, const std::string& ending) {
  const InputFile input(bytes, ending);
  data::RowFile(input.path()).for_each([](const data::RowText& row, int) {
    if (!row.parse().is_object()) finding("a row that is no object");
    return true;
  });
}

}  // namespace hone::fuzz
