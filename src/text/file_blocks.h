// Compressed text, Parquet and Arrow files, block after block; read by text-ffi/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/files/file.h"
#include "text/ffi.h"

namespace hone::text {

enum class BlockKind { kGzip = 1, kZstd = 2, kParquet = 3, kArrow = 4 };

struct FreeData {
  void operator()(hone_text_data* data) const { hone_text_data_free(data); }
};

class FileBlocks {
 public:
  // UserError for a file that is cut, damaged, or claims what it cannot hold.
  FileBlocks(const base::fs::path& path, BlockKind kind);

  // kGzip, kZstd: the next megabyte of text. kParquet, kArrow: whole lines, a JSON object a row. Empty at the
  // end; valid until the next call. UserError as above; the object is then of no more use.
  std::string_view next();
  // kParquet, kArrow: how many there are.
  std::optional<std::int64_t> rows() const { return rows_; }

 private:
  base::fs::path path_;
  BlockKind kind_;
  std::unique_ptr<hone_text_data, FreeData> data_;
  std::optional<std::int64_t> rows_;
  std::unique_ptr<RustText> block_;
};

}  // namespace hone::text
