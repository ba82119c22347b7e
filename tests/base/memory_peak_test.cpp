#include "base/process/memory_peak.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "base/files/crc32c.h"
#include "base/files/file.h"
#include "base/files/mapped_crc.h"
#include "base/process/process_memory.h"

namespace hone::base {
namespace memory_peak_test {

TEST(MemoryPeak, CountsAnew) {
  constexpr std::size_t kBytes = std::size_t{96} << 20;
  {
    const auto held = std::make_unique<char[]>(kBytes);
    std::memset(held.get(), 1, kBytes);
    ASSERT_EQ(held[kBytes - 1], 1);
  }
  const std::int64_t before = process_memory().peak;
  if (!reset_memory_peak()) GTEST_SKIP() << "this kernel does not reset it";
  EXPECT_LT(process_memory().peak, before - static_cast<std::int64_t>(kBytes / 2));
}

// What a checkpoint's record reads again of its files.
TEST(MemoryPeak, AMappedFilesChecksumTakesAWindowOfIt) {
  constexpr std::size_t kBytes = std::size_t{160} << 20;
  const fs::path path = fs::path(testing::TempDir()) / "hone_mapped_crc.bin";
  {
    FileWriter writer(path, kBytes);
    const std::string part(kBytes / 64, 'x');
    for (int i = 0; i < 64; ++i) writer.write(part);
    writer.commit();
  }
  const MappedFile file = MappedFile::open(path);
  const bool counts = reset_memory_peak();
  const std::int64_t before = process_memory().resident;
  const std::uint32_t crc = mapped_crc32c(file.bytes());
  const std::int64_t most = process_memory().peak - before;
  EXPECT_EQ(crc, crc32c(file.bytes()));
  EXPECT_EQ(mapped_crc32c({}), crc32c(std::string_view()));
  fs::remove(path);
  if (!counts) GTEST_SKIP() << "this kernel does not reset the peak";
  EXPECT_LT(most, static_cast<std::int64_t>(kBytes / 2));
}

}  // namespace memory_peak_test
}  // namespace hone::base
