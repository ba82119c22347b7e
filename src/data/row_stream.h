// A data set's rows in blocks, so that not all of them are in memory. Another thread reads and parses the next block meanwhile.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "data/row_source.h"
#include "data/rows.h"

namespace hone::data {

// A block ends with the row that reaches one of the two; `bytes` are of the rows' texts.
struct RowBlock {
  std::size_t rows = 2048;
  std::size_t bytes = std::size_t{8} << 20;
};

class RowStream {
 public:
  RowStream(RowSource source, std::string text_field, RowBlock size = {});
  ~RowStream();  // does not wait for the rest of the rows
  RowStream(const RowStream&) = delete;
  RowStream& operator=(const RowStream&) = delete;

  // nullopt: there were all. UserError: what read_rows says, after the rows before the one that is wrong.
  std::optional<Rows> next();

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace hone::data
