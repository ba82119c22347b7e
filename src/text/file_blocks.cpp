#include "text/file_blocks.h"

#include <array>
#include <string>

#include "base/enum_names.h"
#include "base/error.h"
#include "base/strings/utf8.h"

namespace hone::text {
namespace {

constexpr std::size_t kMostSaid = 500;  // bytes: errors of parsers quote the file

const char* name_of(BlockKind kind) {
  static constexpr std::array<const char*, 5> kNames = {"", "gzip", "zstd", "Parquet", "Arrow"};
  return base::enum_name(kNames, kind);
}

void check(int status, const RustText& message, const base::fs::path& path, BlockKind kind) {
  if (status == HONE_TEXT_OK) return;
  const std::string said = base::cut_text(message.view(), kMostSaid);
  throw base::UserError(
      {.where = path.string(),
       .expected = std::string("a whole ") + name_of(kind) + " file",
       .found = status == HONE_TEXT_PANIC ? "it is damaged: its reader gave up (" + said + ")" : "it " + said,
       .cause = "a download or copy that was cut short, or a damaged file",
       .fix = "write or download the file again"});
}

}  // namespace

FileBlocks::FileBlocks(const base::fs::path& path, BlockKind kind) : path_(path), kind_(kind) {
  const std::string name = path.string();
  hone_text_data* data = nullptr;
  std::int64_t rows = -1;
  RustText message;
  const int status =
      hone_text_data_open(name.data(), name.size(), static_cast<int>(kind), &data, &rows, message.out());
  data_.reset(data);
  check(status, message, path_, kind_);
  if (rows >= 0) rows_ = rows;
}

std::string_view FileBlocks::next() {
  block_ = std::make_unique<RustText>();
  RustText message;
  check(hone_text_data_next(data_.get(), block_->out(), message.out()), message, path_, kind_);
  return block_->view();
}

}  // namespace hone::text
