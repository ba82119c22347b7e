#include "base/gguf/kept_blocks.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "base/process/address_sanitizer.h"
#include "base/process/page_size.h"

namespace hone::base {
namespace kept_blocks_test {

// Not under AddressSanitizer, and not where addresses are limited.
const bool kKeeps = KeptBlocks().keeps();

constexpr std::size_t kLarge = 8 * KeptBlocks::kCounted;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

using Block = KeptBlocks::Block;

Block written(KeptBlocks& blocks, std::size_t bytes, int value) {
  const Block out = blocks.take(bytes);
  std::memset(out.memory, value, out.bytes);
  return out;
}

void release(KeptBlocks& blocks, const Block& block) {
  blocks.release(block.memory, block.bytes);
}

// Bytes from `begin` to `end` of a block's mapping that have pages.
std::size_t resident(const Block& block, std::size_t begin, std::size_t end) {
  const std::size_t page = page_size();
  std::vector<unsigned char> pages((end - begin) / page);
  EXPECT_EQ(::mincore(static_cast<std::byte*>(block.memory) + begin, end - begin, pages.data()), 0);
  return page * static_cast<std::size_t>(std::count_if(pages.begin(), pages.end(),
                                                       [](unsigned char one) { return (one & 1) != 0; }));
}

// A soft limit of this process, at most the hard one; put back at the end.
class Limited {
 public:
  using Resource = decltype(RLIMIT_AS);
  Limited(Resource what, rlim_t bytes) : what_(what) {
    EXPECT_EQ(::getrlimit(what_, &before_), 0);
    const rlimit now = {std::min(bytes, before_.rlim_max), before_.rlim_max};
    EXPECT_EQ(::setrlimit(what_, &now), 0);
  }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;
  ~Limited() { EXPECT_EQ(::setrlimit(what_, &before_), 0); }

 private:
  Resource what_;
  rlimit before_{};
};

TEST(KeptBlocks, AreKeptWhereAddressesDoNotCount) {
  rlimit addresses{}, data{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &addresses), 0);
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &data), 0);
  int overcommit = 0;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> overcommit;
  EXPECT_EQ(kKeeps, !kHasAddressSanitizer && overcommit != 2 && addresses.rlim_cur == RLIM_INFINITY &&
                        data.rlim_cur == RLIM_INFINITY);
  constexpr rlim_t kMuch = rlim_t{1} << 46;
  {
    const Limited limit(RLIMIT_DATA, kMuch);
    EXPECT_FALSE(KeptBlocks().keeps());
  }
  if (kHasAddressSanitizer) return;  // it has more addresses itself
  const Limited limit(RLIMIT_AS, kMuch);
  EXPECT_FALSE(KeptBlocks().keeps());
}

TEST(KeptBlocks, AFreedBlockServesTheNextOfItsSize) {
  if (!kKeeps) GTEST_SKIP() << "every block is malloc's here";
  KeptBlocks blocks;
  const Block first = blocks.take(2 * kLarge), second = blocks.take(kLarge);
  EXPECT_TRUE(first.is_new);
  release(blocks, first);
  release(blocks, second);
  EXPECT_EQ(blocks.sizes().kept, 3 * kLarge);
  const Block same = blocks.take(2 * kLarge);
  EXPECT_EQ(same.memory, first.memory);
  EXPECT_FALSE(same.is_new);
  release(blocks, same);
  blocks.return_kept();
  EXPECT_EQ(blocks.sizes().kept, 0U);
}

TEST(KeptBlocks, AShorterBlockUsesALongerOneWhoseTailIsKept) {
  if (!kKeeps) GTEST_SKIP() << "every block is malloc's here";
  KeptBlocks blocks;
  release(blocks, written(blocks, 2 * kLarge, 1));
  const Block shorter = blocks.take(kLarge + kLarge / 2);
  EXPECT_FALSE(shorter.is_new);
  EXPECT_EQ(shorter.bytes, kLarge + kLarge / 2);
  EXPECT_EQ(blocks.sizes().live, kLarge + kLarge / 2);
  EXPECT_EQ(blocks.sizes().kept, kLarge / 2) << "its tail";
  EXPECT_EQ(resident(shorter, 0, 2 * kLarge), 2 * kLarge);
  release(blocks, shorter);
  EXPECT_EQ(blocks.sizes().kept, 2 * kLarge);
  EXPECT_FALSE(blocks.take(2 * kLarge).is_new) << "the longer one again";
}

TEST(KeptBlocks, TailsGoBackToTheSystemWhereOthersNeedTheRoom) {
  if (!kKeeps) GTEST_SKIP() << "every block is malloc's here";
  KeptBlocks blocks;
  release(blocks, written(blocks, 2 * kLarge, 1));
  const Block shorter = written(blocks, kLarge + kLarge / 2, 2), other = blocks.take(kLarge / 2);
  EXPECT_EQ(blocks.sizes().most_live, 2 * kLarge);
  EXPECT_TRUE(other.is_new);
  EXPECT_EQ(blocks.sizes().kept, 0U);
  EXPECT_EQ(resident(shorter, kLarge + kLarge / 2, 2 * kLarge), 0U);
  const auto* const bytes = static_cast<const char*>(shorter.memory);
  EXPECT_TRUE(std::all_of(bytes, bytes + shorter.bytes, [](char one) { return one == 2; }));
}

TEST(KeptBlocks, TailsOfSmallBlocksGoBackByPages) {
  if (!kKeeps) GTEST_SKIP() << "every block is malloc's here";
  constexpr std::size_t kSmall = 2 * KeptBlocks::kCounted;
  KeptBlocks blocks;
  release(blocks, written(blocks, kSmall + kSmall / 2, 1));
  const Block shorter = written(blocks, kSmall, 2);
  EXPECT_EQ(blocks.sizes().kept, kSmall / 2);
  const Block other = blocks.take(kSmall / 2);
  EXPECT_NE(other.memory, shorter.memory);
  EXPECT_EQ(blocks.sizes().kept, 0U);
  EXPECT_EQ(resident(shorter, kSmall, kSmall + kSmall / 2), 0U);
}

// The rest of a kept block serves on when others need a part of its pages.
TEST(KeptBlocks, TheOldestKeptBlockGivesItsEndBackFirst) {
  if (!kKeeps) GTEST_SKIP() << "every block is malloc's here";
  KeptBlocks blocks;
  const Block old = written(blocks, 8 * kLarge, 1);
  release(blocks, old);
  const Block other = blocks.take(2 * kLarge);  // far too short for the old one
  EXPECT_NE(other.memory, old.memory);
  const KeptBlocks::Sizes sizes = blocks.sizes();
  EXPECT_LE(sizes.live + sizes.kept, 8 * kLarge);
  EXPECT_GE(sizes.live + sizes.kept, 8 * kLarge - 2 * kHugePage);
  EXPECT_EQ(resident(old, 0, 8 * kLarge), sizes.kept);
}

TEST(KeptBlocks, ASmallerBlockGrowsWhereThereIsNoRoomForANewOne) {
  if (!kKeeps) GTEST_SKIP() << "every block is malloc's here";
  KeptBlocks blocks;
  const Block first = written(blocks, kLarge, 1);
  release(blocks, first);
  const Block grown = written(blocks, kLarge + kLarge / 4, 2);
  EXPECT_EQ(grown.memory, first.memory);
  EXPECT_TRUE(grown.is_new);
  EXPECT_EQ(blocks.sizes().live, kLarge + kLarge / 4);
  EXPECT_EQ(blocks.sizes().kept, 0U);
}

TEST(KeptBlocks, MayKeepSomeBytesMoreThanWhatLived) {
  if (!kKeeps) GTEST_SKIP() << "every block is malloc's here";
  for (const std::size_t over : {std::size_t{0}, kLarge}) {
    KeptBlocks blocks(over);
    release(blocks, blocks.take(2 * kLarge));
    release(blocks, blocks.take(kLarge / 2));
    release(blocks, blocks.take(kLarge / 2));
    const KeptBlocks::Sizes sizes = blocks.sizes();
    EXPECT_EQ(sizes.most_live, 2 * kLarge);
    if (over > 0) {
      EXPECT_EQ(sizes.kept, 2 * kLarge + kLarge / 2);
    } else {
      EXPECT_LE(sizes.kept, 2 * kLarge);
      EXPECT_GE(sizes.kept, 2 * kLarge - kHugePage);
    }
  }
}

// Blocks of 1 to 23 units of odd sizes.
void expect_bound(std::size_t unit) {
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
      live.push_back(blocks.take(unit * (1 + i * i % 23) + i));
      ASSERT_NE(live.back().memory, nullptr);
    } else if (!live.empty()) {
      const std::size_t which = i * 5 % live.size();
      blocks.release(live[which].memory, live[which].bytes);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    }
    check();
  }
  for (const KeptBlocks::Block& block : live) blocks.release(block.memory, block.bytes);
  live.clear();
  check();
  EXPECT_EQ(blocks.sizes().live, 0U);
  EXPECT_EQ(blocks.sizes().kept > 0, kKeeps);
  blocks.return_kept();
  EXPECT_EQ(blocks.sizes().kept, 0U);
  EXPECT_EQ(blocks.sizes().most_live, 0U);
}

TEST(KeptBlocks, NeverHoldMoreThanWhatLivedAtMost) {
  expect_bound(KeptBlocks::kCounted / 8);
  expect_bound(kLarge / 2);
}

TEST(KeptBlocks, WhereMappingsAreUsedUpTheOldestKeptOneGoes) {
  if (!kKeeps) GTEST_SKIP() << "every block is malloc's here";
  KeptBlocks blocks(kLarge);
  std::vector<Block> live;
  for (std::size_t i = 0; i < KeptBlocks::kMostMappings; ++i)
    live.push_back(blocks.take(KeptBlocks::kCounted));
  for (const Block& block : live) release(blocks, block);
  const Block other = written(blocks, 3 * KeptBlocks::kCounted, 1);
  EXPECT_EQ(blocks.sizes().kept, (KeptBlocks::kMostMappings - 1) * KeptBlocks::kCounted);
  release(blocks, other);
  EXPECT_EQ(blocks.sizes().kept, (KeptBlocks::kMostMappings + 2) * KeptBlocks::kCounted) << "it is a mapping";
}

TEST(KeptBlocks, TheSystemsNumberOfMappingsIsNoLimit) {
  KeptBlocks blocks;
  std::vector<Block> live;
  for (std::size_t i = 0; i < KeptBlocks::kMostMappings + 8; ++i) {
    live.push_back(blocks.take(KeptBlocks::kCounted));
    ASSERT_NE(live.back().memory, nullptr) << i;
  }
  std::memset(live.back().memory, 1, live.back().bytes);
  EXPECT_EQ(blocks.sizes().live, live.size() * KeptBlocks::kCounted);
  for (const Block& block : live) release(blocks, block);
  EXPECT_EQ(blocks.sizes().live, 0U);
  EXPECT_EQ(blocks.sizes().kept, kKeeps ? KeptBlocks::kMostMappings * KeptBlocks::kCounted : 0U)
      << "those of malloc are not kept";
  blocks.return_kept();
  EXPECT_EQ(blocks.sizes().kept, 0U);
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
