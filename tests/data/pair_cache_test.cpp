// Kept pairs are the pairs that were made.
#include "data/pair_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace hone::data {
namespace pair_cache_test {

class PairCaches : public testing::Test {
 protected:
  void SetUp() override {
    base::fs::create_directories(folder_);
    std::ofstream(folder_ / "pairs.jsonl") << "{}\n";
  }
  void TearDown() override { base::fs::remove_all(folder_); }
  std::string key(const std::string& what = "dpo") const {
    const TokenMaker maker = {
        .program = "build 1", .tokenizer = "tiny", .chat_template = "", .text_field = "text"};
    return pair_key(base::RowFiles(folder_ / "pairs.jsonl"), maker, what, options_);
  }
  TokenCache cache() const { return {folder_ / "cache", key(), 1}; }

  PreferenceOptions options_;
  base::fs::path folder_ =
      base::fs::temp_directory_path() / ("hone_pair_cache_" + std::to_string(::getpid()));
};

PreferenceSequence side(std::vector<std::int32_t> context, std::vector<std::int32_t> scored,
                        std::int64_t more = 0) {
  const auto completion = static_cast<std::int64_t>(scored.size()) + more;
  return {.context = std::move(context), .scored = std::move(scored), .completion = completion};
}

void expect_equal(const PreferenceSequence& found, const PreferenceSequence& expected) {
  EXPECT_EQ(found.context, expected.context);
  EXPECT_EQ(found.scored, expected.scored);
  EXPECT_EQ(found.completion, expected.completion);
}

TEST_F(PairCaches, WhatIsKeptComesBack) {
  PreferenceData made;
  made.pairs = {{.row = 0, .chosen = side({1, 2, 3}, {4, 5}), .rejected = side({1, 2, 3}, {6})},
                {.row = 5, .chosen = side({7}, {8}, 1), .rejected = side({7, 9}, {8, 10, 11})},
                {.row = 6, .chosen = side({1}, {2}), .rejected = side({3}, {4}, 1)}};
  made.facts = {.rows = 9, .kept = 3, .implicit = true, .tokens = 24, .longest = 7, .mean_chosen = 1.25};
  EXPECT_FALSE(read_pairs(cache()));
  ASSERT_TRUE(keep_pairs(cache(), made));
  const auto found = read_pairs(cache());
  ASSERT_TRUE(found);
  ASSERT_EQ(found->pairs.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found->pairs[i].row, made.pairs[i].row);
    expect_equal(found->pairs[i].chosen, made.pairs[i].chosen);
    expect_equal(found->pairs[i].rejected, made.pairs[i].rejected);
  }
  EXPECT_EQ(found->facts.rows, 9);
  EXPECT_TRUE(found->facts.implicit);
  EXPECT_FALSE(found->facts.conversational);
  EXPECT_EQ(found->facts.longest, 7);
  EXPECT_EQ(found->facts.mean_chosen, 1.25);
}

TEST_F(PairCaches, OtherOptionsHaveOtherKeysAndFewTokensAreNotKept) {
  const std::string before = key();
  EXPECT_NE(key("cpo"), before);
  options_.keep_end = true;
  EXPECT_NE(key(), before);
  options_ = {.max_length = 7};
  EXPECT_NE(key(), before);
  options_ = {.max_prompt_length = 7};
  EXPECT_NE(key(), before);
  options_ = {.threads = 3};
  EXPECT_EQ(key(), before);
  const PreferenceData made = {.pairs = {{.chosen = side({1}, {2}), .rejected = side({1}, {3})}},
                               .facts = {.rows = 1, .kept = 1, .tokens = 4}};
  EXPECT_FALSE(keep_pairs(TokenCache(folder_ / "cache", key(), 5), made));
  EXPECT_FALSE(keep_pairs(TokenCache("", key(), 1), made));
}

}  // namespace pair_cache_test
}  // namespace hone::data
