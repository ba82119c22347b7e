// What becomes of a reward model's pairs; that it is what TRL makes of them is tests/parity/trl_reward_test.
#include "data/forms/reward_pairs.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/pair_lists.h"

namespace hone::data {
namespace reward_pairs_test {

using Ids = std::vector<std::int32_t>;

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer value =
      text::Tokenizer::from_folder(base::fs::path(HONE_FIXTURES) / "text" / "tiny");
  return value;
}

PreferenceData prepare(const std::string& text, PairOptions options = {}) {
  const PreferenceRows rows = parse_preference_rows(text, "pairs.jsonl", ImplicitPrompts::kKeep);
  return tokenize_reward_pairs(rows, tokenizer(), nullptr, options);
}

std::string error_of(const std::string& text, const PairOptions& options = {}) {
  try {
    prepare(text, options);
  } catch (const base::UserError& error) {
    return error.what();
  }
  return "no error";
}

Ids whole(const ListedSequence& side) {
  Ids out = side.context;
  out.insert(out.end(), side.scored.begin(), side.scored.end());
  return out;
}

Ids encode(const std::string& text) {
  return tokenizer().encode(text, /*add_special=*/true).ids;
}

TEST(RewardPairs, TextIsConcatenatedAndEnded) {
  const std::string eos = *tokenizer().special().eos;
  const PreferenceData explicit_prompt =
      prepare(R"({"prompt": "2 + 3 =", "chosen": " 5", "rejected": " 6"})");
  const PreferenceData implicit = prepare(R"({"chosen": "2 + 3 = 5", "rejected": "2 + 3 = 6"})");
  for (const PreferenceData* data : {&explicit_prompt, &implicit}) {
    ASSERT_EQ(data->records.size(), 1U);
    EXPECT_EQ(whole(listed(data->records[0]).first), encode("2 + 3 = 5" + eos));
    EXPECT_EQ(whole(listed(data->records[0]).second), encode("2 + 3 = 6" + eos));
    EXPECT_TRUE(listed(data->records[0]).shares_context);
    EXPECT_FALSE(data->records[0].margin.has_value());
  }
  EXPECT_TRUE(implicit.facts.implicit);
}

// A score is read at the last token that is no pad token; the tokens after it are counted all the same.
TEST(RewardPairs, PadTokensAtTheEndAreLeftOut) {
  const std::string rows = R"({"chosen_ids": [5, 6, 7, 2, 2], "rejected_ids": [5, 6, 2, 8, 2]})";
  const PreferenceData data = prepare(rows, {.pad_id = 2});
  EXPECT_EQ(whole(listed(data.records[0]).first), (Ids{5, 6, 7}));
  EXPECT_EQ(whole(listed(data.records[0]).second), (Ids{5, 6, 2, 8}));
  EXPECT_EQ(listed(data.records[0]).first.context, (Ids{5, 6}));
  EXPECT_EQ(data.facts.tokens, 10);
  EXPECT_EQ(whole(listed(prepare(rows).records[0]).first).size(), 5U);
  EXPECT_EQ(
      whole(listed(prepare(R"({"chosen_ids": [2, 2], "rejected_ids": [2, 3]})", {.pad_id = 2}).records[0])
                .first),
      (Ids{2}));
}

TEST(RewardPairs, EachSideKeepsATokenOfItsOwn) {
  const PreferenceData data = prepare(R"({"chosen_ids": [5, 6], "rejected_ids": [5, 6, 7]})"
                                      "\n"
                                      R"({"chosen_ids": [4, 6], "rejected_ids": [5, 6]})"
                                      "\n"
                                      R"({"chosen_ids": [4], "rejected_ids": [4, 6]})");
  EXPECT_EQ(listed(data.records[0]).first.scored, (Ids{6}));
  EXPECT_EQ(listed(data.records[0]).second.scored, (Ids{6, 7}));
  EXPECT_FALSE(listed(data.records[1]).shares_context);
  EXPECT_EQ(listed(data.records[1]).first.context, (Ids{4}));
  EXPECT_EQ(listed(data.records[2]).first.scored, (Ids{4}));
  EXPECT_TRUE(listed(data.records[2]).first.context.empty());
}

TEST(RewardPairs, LongPairsAreLeftOutWithTheirMargins) {
  const PreferenceData data = prepare(R"({"chosen_ids": [5, 6, 7], "rejected_ids": [5], "margin": 1})"
                                      "\n"
                                      R"({"chosen_ids": [5, 6], "rejected_ids": [5], "margin": 2.5})",
                                      {.max_length = 2});
  EXPECT_EQ(data.facts.too_long, 1);
  ASSERT_EQ(data.records.size(), 1U);
  EXPECT_EQ(listed(data.records[0]).row, 1);
  EXPECT_EQ(data.records[0].margin, 2.5);
  EXPECT_NE(error_of(R"({"chosen_ids": [5, 6, 7], "rejected_ids": [5]})", {.max_length = 2}).find("DATA-01"),
            std::string::npos);
}

TEST(RewardPairs, BadRowsAreNamed) {
  const auto says = [](const std::string& text, const std::string& part) {
    const std::string found = error_of(text);
    EXPECT_NE(found.find(part), std::string::npos) << part << "\nin: " << found;
  };
  const std::string good = R"({"prompt": "q", "chosen": " a", "rejected": " b"})"
                           "\n";
  says(good + R"({"prompt": "q", "chosen": "a", "rejected": "b", "margin": 1})", "pairs.jsonl:2");
  says(R"({"prompt": "q", "chosen": "a", "rejected": "b", "margin": "big"})", "margin");
  says(R"({"prompt": "q", "chosen": "a", "rejected": "a"})", "PREF-01");
  says(R"({"chosen_ids": [1, 2]})", "rejected_ids");
  says(R"({"chosen_ids": [], "rejected_ids": [1]})", "a list of token ids");
  EXPECT_NE(error_of(R"({"chosen_ids": [1, 900], "rejected_ids": [1]})", {.vocab_size = 384}).find("DATA-10"),
            std::string::npos);
}

}  // namespace reward_pairs_test
}  // namespace hone::data
