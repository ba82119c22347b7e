#include "base/memory_peak.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "base/process_memory.h"

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

}  // namespace memory_peak_test
}  // namespace hone::base
