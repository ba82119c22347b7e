// Parquet, Arrow, gzip and zstd, which the first bytes tell.
#include "fuzz/targets/rows.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hone;
  return fuzz::one_input(data, size, [](std::string_view bytes) { fuzz::read_rows(bytes, ".jsonl"); });
}
