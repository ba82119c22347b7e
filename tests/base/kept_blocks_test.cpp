#include "base/gguf/kept_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace hone::base {
namespace kept_blocks_test {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeeps = false;
#else
constexpr bool kKeeps = true;
#endif

constexpr std::size_t kLarge = KeptBlocks::kKept;

TEST(KeptBlocks, AFreedBlockServesTheNextOfAboutItsSize) {
  if (!kKeeps) GTEST_SKIP() << "AddressSanitizer sees every block";
  KeptBlocks blocks;
  const KeptBlocks::Block first = blocks.take(2 * kLarge), second = blocks.take(kLarge);
  EXPECT_TRUE(first.is_new);
  blocks.release(first.memory, first.bytes);
  blocks.release(second.memory, second.bytes);
  EXPECT_EQ(blocks.sizes().kept, 3 * kLarge);
  const KeptBlocks::Block same = blocks.take(2 * kLarge - kLarge / 20);
  EXPECT_EQ(same.memory, first.memory);
  EXPECT_EQ(same.bytes, first.bytes);
  EXPECT_FALSE(same.is_new);
  blocks.release(same.memory, same.bytes);
  const KeptBlocks::Block other =
      blocks.take(2 * kLarge - 2 * kLarge / 15);  // too small for the one that is kept
  EXPECT_TRUE(other.is_new);
  blocks.release(other.memory, other.bytes);
  blocks.return_kept();
  EXPECT_EQ(blocks.sizes().kept, 0U);
}

TEST(KeptBlocks, NeverHoldMoreThanWhatLivedAtMost) {
  KeptBlocks blocks;
  std::vector<KeptBlocks::Block> live;
  std::size_t most = 0;
  const auto check = [&] {
    const KeptBlocks::Sizes sizes = blocks.sizes();
    most = std::max(most, sizes.live);
    EXPECT_EQ(sizes.most_live, most);
    EXPECT_LE(sizes.live + sizes.kept, most);
  };
  for (std::size_t i = 0; i < 400; ++i) {
    if (i % 7 < 4 && live.size() < 6) {
      live.push_back(blocks.take(kLarge / 8 * (1 + i * i % 23) + i));
      ASSERT_NE(live.back().memory, nullptr);
    } else if (!live.empty()) {
      const std::size_t which = i * 5 % live.size();
      blocks.release(live[which].memory, live[which].bytes);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    }
    check();
  }
  for (const KeptBlocks::Block& block : live) blocks.release(block.memory, block.bytes);
  check();
  EXPECT_EQ(blocks.sizes().live, 0U);
  EXPECT_EQ(blocks.sizes().kept > 0, kKeeps);
  blocks.return_kept();
  EXPECT_EQ(blocks.sizes().kept, 0U);
  EXPECT_EQ(blocks.sizes().most_live, 0U);
}

TEST(KeptBlocks, OutOfMemoryIsNoBlock) {
  KeptBlocks blocks;
  const KeptBlocks::Block kept = blocks.take(kLarge);
  blocks.release(kept.memory, kept.bytes);
  EXPECT_EQ(blocks.take(std::size_t{1} << 60).memory, nullptr);
  EXPECT_EQ(blocks.sizes().live, 0U);
  EXPECT_EQ(blocks.sizes().most_live, kLarge);
  EXPECT_EQ(blocks.sizes().kept, 0U) << "they were given back before it was refused";
}

TEST(KeptBlocks, ServeThreads) {
  KeptBlocks blocks;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&blocks, t] {
      for (std::size_t i = 0; i < 200; ++i) {
        const KeptBlocks::Block block = blocks.take(kLarge / 2 * (1 + (i + t) % 3));
        *static_cast<char*>(block.memory) = 1;
        blocks.release(block.memory, block.bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(blocks.sizes().live, 0U);
}

}  // namespace kept_blocks_test
}  // namespace hone::base
