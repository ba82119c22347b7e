#include "ops/sampling/kv_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "base/error.h"

namespace hone::ops {
namespace kv_pages_test {

using Pages = std::vector<std::int32_t>;
using Cuts = std::vector<std::int64_t>;

Pages pages_of(const PagedTokens& tokens) {
  return {tokens.pages().begin(), tokens.pages().end()};
}
Cuts cuts_of(const PagedTokens& tokens) {
  return {tokens.cuts().begin(), tokens.cuts().end()};
}

struct Book {
  explicit Book(std::int64_t pages) : book(std::make_shared<KvPages>(pages)) {}
  PagedTokens sequence(std::int64_t length) {
    PagedTokens out(book);
    EXPECT_TRUE(out.extend(length, copies));
    return out;
  }
  std::shared_ptr<KvPages> book;
  std::vector<PageCopy> copies;
};

TEST(KvPages, TakesPagesAsTokensComeAndGivesThemBack) {
  Book b(4);
  PagedTokens one = b.sequence(64);
  EXPECT_EQ(pages_of(one), (Pages{0}));
  EXPECT_EQ(one.needed(0), 0);
  EXPECT_EQ(one.needed(1), 1);
  ASSERT_TRUE(one.extend(65, b.copies));
  EXPECT_EQ(pages_of(one), (Pages{0, 1, 2}));
  EXPECT_EQ(one.slot(63), 63);
  EXPECT_EQ(one.slot(128), 2 * 64);
  EXPECT_THROW(one.slot(129), base::InternalError);
  EXPECT_EQ(b.book->unused(), 1);
  one.truncate(64);
  EXPECT_EQ(b.book->unused(), 3);
  {
    const PagedTokens moved = std::move(one);
  }
  EXPECT_EQ(b.book->unused(), 4);
  EXPECT_TRUE(b.copies.empty());
}

TEST(KvPages, AForkSharesPagesAndCopiesThePartOfOneWhenItGoesOn) {
  Book b(8);
  PagedTokens prompt = b.sequence(100);
  PagedTokens first = prompt.fork(), second = prompt.fork();
  EXPECT_EQ(b.book->unused(), 6);
  EXPECT_EQ(b.book->owners(1), 3);
  EXPECT_EQ(first.needed(1), 1);
  ASSERT_TRUE(first.extend(1, b.copies));
  ASSERT_EQ(b.copies.size(), 1);
  EXPECT_EQ(b.copies[0].from, 1);
  EXPECT_EQ(b.copies[0].to, 2);
  EXPECT_EQ(pages_of(first), (Pages{0, 2}));
  EXPECT_EQ(pages_of(second), (Pages{0, 1}));
  EXPECT_EQ(b.book->owners(0), 3);
  EXPECT_EQ(b.book->owners(1), 2);
  // The last one that has a page goes on in it.
  prompt.truncate(0);
  EXPECT_EQ(second.needed(1), 0);
  ASSERT_TRUE(second.extend(1, b.copies));
  EXPECT_EQ(b.copies.size(), 1);
  EXPECT_EQ(pages_of(second), (Pages{0, 1}));
}

TEST(KvPages, AForkOfWholePagesCopiesNothing) {
  Book b(4);
  const PagedTokens prompt = b.sequence(64);
  PagedTokens sample = prompt.fork();
  ASSERT_TRUE(sample.extend(1, b.copies));
  EXPECT_TRUE(b.copies.empty());
  EXPECT_EQ(pages_of(sample), (Pages{0, 1}));
}

TEST(KvPages, PartsBeginAnewBehindTheWholePagesOfEachFork) {
  Book b(9);
  const PagedTokens system = b.sequence(70);
  PagedTokens prompt = system.fork();
  ASSERT_TRUE(prompt.extend(100, b.copies));
  PagedTokens sample = prompt.fork();
  EXPECT_EQ(cuts_of(system), Cuts{});
  EXPECT_EQ(cuts_of(prompt), Cuts{1});
  EXPECT_EQ(cuts_of(sample), (Cuts{1, 2}));
  EXPECT_EQ(cuts_of(sample.fork()), (Cuts{1, 2}));  // no page is between them
  sample.truncate(64);
  EXPECT_EQ(cuts_of(sample), Cuts{1});
  EXPECT_EQ(cuts_of(b.sequence(10).fork()), Cuts{});
}

TEST(KvPages, NothingChangesWhereTooFewPagesAreFree) {
  Book b(3);
  PagedTokens one = b.sequence(100);
  PagedTokens other = one.fork();
  EXPECT_FALSE(other.extend(65, b.copies));  // a copy, and a page more
  EXPECT_TRUE(b.copies.empty());
  EXPECT_EQ(pages_of(other), pages_of(one));
  EXPECT_EQ(other.length(), 100);
  EXPECT_EQ(b.book->unused(), 1);
  EXPECT_TRUE(other.extend(28, b.copies));
  EXPECT_EQ(b.book->unused(), 0);
  EXPECT_FALSE(one.extend(29, b.copies));
  EXPECT_TRUE(one.extend(28, b.copies));
}

TEST(KvPages, ABlockTableHasThePagesOfEachRow) {
  Book b(9);
  const PagedTokens one = b.sequence(130), none = b.sequence(0), other = one.fork();
  const std::vector<const PagedTokens*> rows = {&one, &none, &other};
  EXPECT_EQ(block_table(rows, 4), (Pages{0, 1, 2, -1, -1, -1, -1, -1, 0, 1, 2, -1}));
  EXPECT_THROW(block_table(rows, 2), base::InternalError);
}

// A memory of numbers that follows the book: each sequence finds its own tokens, whatever the others do.
class Contents {
 public:
  explicit Contents(std::int64_t pages)
      : numbers_(static_cast<std::size_t>(pages * KvPages::kPageTokens), -1) {}
  void copy(const std::vector<PageCopy>& copies) {
    for (const auto& [from, to] : copies)
      std::copy_n(numbers_.begin() + from * KvPages::kPageTokens, KvPages::kPageTokens,
                  numbers_.begin() + to * KvPages::kPageTokens);
  }
  int& at(std::int64_t slot) { return numbers_.at(static_cast<std::size_t>(slot)); }

 private:
  std::vector<int> numbers_;
};

TEST(KvPages, RandomUseKeepsEachSequencesTokensAndLeaksNoPage) {
  constexpr std::int64_t kPages = 40;
  std::mt19937 random(3);  // NOLINT(bugprone-random-generator-seed): the same each time
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  const auto book = std::make_shared<KvPages>(kPages);
  struct Sequence {
    PagedTokens tokens;
    std::vector<int> expected;
  };
  std::deque<Sequence> all;
  Contents contents(kPages);
  int next = 0, refused = 0;
  for (int turn = 0; turn < 6000; ++turn) {
    const std::size_t what = below(10);
    if (all.empty() || (what == 0 && all.size() < 30)) {
      all.push_back({PagedTokens(book), {}});
    } else if (what == 1 && all.size() < 30) {
      Sequence& from = all[below(all.size())];
      all.push_back({from.tokens.fork(), from.expected});
    } else if (what == 2) {
      std::swap(all[below(all.size())], all.back());
      all.pop_back();
    } else if (what == 3) {
      Sequence& one = all[below(all.size())];
      one.expected.resize(below(one.expected.size() + 1));
      one.tokens.truncate(static_cast<std::int64_t>(one.expected.size()));
    } else {
      Sequence& one = all[below(all.size())];
      const auto count = static_cast<std::int64_t>(below(what == 4 ? 200 : 20));
      std::vector<PageCopy> copies;
      const std::int64_t needed = one.tokens.needed(count), unused = book->unused();
      const bool extended = one.tokens.extend(count, copies);
      ASSERT_EQ(extended, needed <= unused);
      ASSERT_EQ(book->unused(), extended ? unused - needed : unused);
      refused += extended ? 0 : 1;
      if (!extended) continue;
      contents.copy(copies);
      for (std::int64_t i = 0; i < count; ++i) {
        contents.at(one.tokens.slot(static_cast<std::int64_t>(one.expected.size()))) = next;
        one.expected.push_back(next++);
      }
    }
    std::map<std::int32_t, std::int64_t> owners;
    for (const Sequence& one : all) {
      for (const std::int32_t page : one.tokens.pages()) ++owners[page];
      for (std::size_t i = 0; i < one.expected.size(); ++i)
        ASSERT_EQ(contents.at(one.tokens.slot(static_cast<std::int64_t>(i))), one.expected[i]) << turn;
    }
    ASSERT_EQ(book->unused(), kPages - static_cast<std::int64_t>(owners.size()));
    for (const auto& [page, count] : owners) ASSERT_EQ(book->owners(page), count);
  }
  EXPECT_GT(refused, 50);
  all.clear();
  EXPECT_EQ(book->unused(), kPages);
}

}  // namespace kv_pages_test
}  // namespace hone::ops
