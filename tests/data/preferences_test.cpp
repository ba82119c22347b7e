// Against TRL's own preparation and collator (tests/parity/record_pairs.py), and what bad rows get.
#include "data/forms/preferences.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "data/pair_lists.h"

namespace hone::data {
namespace preferences_test {

using base::Json;

const base::fs::path kFixtures = HONE_FIXTURES;

const Json& golden() {
  static const Json value =
      base::parse_json(base::read_text(kFixtures / "data" / "pairs.json"), "pairs.json");
  return value;
}

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer value = text::Tokenizer::from_folder(kFixtures / "text" / "tiny");
  return value;
}

const text::ChatTemplate& chat_template() {
  static const text::ChatTemplate value(*tokenizer().chat_template(), tokenizer().special(), "template");
  return value;
}

class PreferenceGolden : public testing::TestWithParam<std::size_t> {};

TEST_P(PreferenceGolden, EqualsTrl) {
  const Json& recorded = golden().at("cases").at(GetParam());
  const Json& given = recorded.at("options");
  const PreferenceRows rows =
      read_preference_rows(kFixtures / "data" / "pairs" / recorded.at("file").get<std::string>());
  const bool cuts = !given.contains("max_length") || !given.at("max_length").is_null();
  PairOptions options{.max_length = cuts ? given.value("max_length", 1024) : 0,
                      .keep_end = given.value("truncation_mode", "keep_start") == "keep_end",
                      .threads = 1};
  const PreferenceData data = tokenize_preferences(rows, tokenizer(), &chat_template(), options);
  const Json& pairs = recorded.at("pairs");
  ASSERT_EQ(data.records.size(), pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    SCOPED_TRACE(rows.where(static_cast<std::size_t>(listed(data.records[i]).row)));
    EXPECT_EQ(listed(data.records[i]).row, pairs.at(i).at("row").get<std::int64_t>());
    EXPECT_EQ(recorded_form(listed(data.records[i]).first), pairs.at(i).at("chosen"));
    EXPECT_EQ(recorded_form(listed(data.records[i]).second), pairs.at(i).at("rejected"));
  }
  options.threads = 2;
  EXPECT_EQ(tokenize_preferences(rows, tokenizer(), &chat_template(), options).records.size(), pairs.size());
}

INSTANTIATE_TEST_SUITE_P(Cases, PreferenceGolden,
                         testing::Range(std::size_t{0}, golden().at("cases").size()));

PreferenceRows parse(const std::string& text) {
  return parse_preference_rows(text, "pairs.jsonl");
}

PreferenceData prepare(const std::string& text, const PairOptions& options = {}) {
  return tokenize_preferences(parse(text), tokenizer(), &chat_template(), options);
}

TEST(Preferences, LongPairsAreLeftOutWhereTheyAreToBe) {
  const std::string rows =
      "{\"prompt\": \"a\", \"chosen\": \"The quick brown fox jumps\", \"rejected\": \"b\"}\n"
      "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n";
  const PreferenceData data = prepare(rows, {.max_length = 8, .drop_long = true});
  ASSERT_EQ(data.records.size(), 1);
  EXPECT_EQ(data.records[0].row, 1);
  EXPECT_EQ(data.facts.too_long, 1);
  EXPECT_EQ(prepare(rows, {.max_length = 8}).records.size(), 2);
}

template <typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const base::UserError& error) {
    return error.what();
  }
  return "no error";
}

void expect_error(const std::string& text, const std::vector<std::string>& parts,
                  const PairOptions& options = {}) {
  const std::string found = error_of([&] { prepare(text, options); });
  for (const std::string& part : parts)
    EXPECT_NE(found.find(part), std::string::npos) << part << "\nin: " << found;
}

const char* const kGood = R"({"prompt": "q", "chosen": " a", "rejected": " b"})"
                          "\n";

TEST(Preferences, BadRowsAreNamed) {
  const std::string good = kGood;
  expect_error(good + R"({"prompt": "q", "chosen": "a"})", {"pairs.jsonl:2", "'rejected'", "prompt, chosen"});
  expect_error(R"({"prompt": "q", "chosn": "a", "rejected": "b"})", {"'chosen'", "chosn"});
  expect_error(R"({"prompt": "q", "completion": "a"})", {"hone sft"});
  expect_error(good + R"({"prompt": "q", "chosen": null, "rejected": "b"})",
               {"pairs.jsonl:2 chosen", "null"});
  expect_error(good + R"({"chosen": "q a", "rejected": "q b"})", {"pairs.jsonl:2", "with a column 'prompt'"});
  expect_error(
      R"({"prompt": "q", "chosen": [{"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "b"}]})",
      {"pairs.jsonl:1 prompt", "remove the column 'prompt'"});
  expect_error(
      R"({"chosen": [{"role": "user", "content": "a"}], "rejected": [{"role": "user", "content": "b"}]})",
      {"with the same messages at the beginning"});
  expect_error(R"({"prompt": "q", "chosen": ["a"], "rejected": ["b"]})", {"pairs.jsonl:1"});
  expect_error("", {"pairs.jsonl"});
}

TEST(Preferences, PairsThatTeachNothing) {
  const std::string same = R"({"prompt": "q", "chosen": " a", "rejected": " a"})"
                           "\n";
  const PreferenceData data = prepare(kGood + same);
  EXPECT_EQ(data.facts.equal, 1);
  EXPECT_EQ(data.facts.kept, 2);
  expect_error(same + same, {"PREF-01", "all 2 pairs"});
  expect_error(kGood, {"every prompt fills max_length = 2"}, {.max_length = 2});
  const PreferenceData cut =
      prepare(std::string(kGood) + R"({"prompt": "a longer one", "chosen": " c", "rejected": " d"})",
              {.max_length = 4});
  EXPECT_EQ(cut.facts.prompts_too_long, 1);
  EXPECT_EQ(cut.records.size(), 1U);
}

TEST(Preferences, OnlyTheEndIsAnEmptyCompletionsToken) {
  const PreferenceData data = prepare(R"({"prompt": "q", "chosen": "", "rejected": "b"})");
  EXPECT_EQ(listed(data.records[0]).first.scored, std::vector<std::int32_t>{*tokenizer().eos_id()});
}

TEST(Preferences, TokensOutsideTheEmbedding) {
  expect_error(kGood, {"pairs.jsonl:1", "DATA-10"}, {.vocab_size = 3});
}

TEST(Preferences, MessagesNeedATemplate) {
  const PreferenceRows rows = read_preference_rows(kFixtures / "data" / "pairs" / "chat.jsonl");
  EXPECT_NE(error_of([&] { tokenize_preferences(rows, tokenizer(), nullptr, {}); }).find("chat template"),
            std::string::npos);
}

// TRL would look for a space at the end of chosen, find one, and cut there.
TEST(Preferences, ADifferenceInTheFirstCharacterLeavesNoPrompt) {
  const PreferenceRows rows = parse(R"({"chosen": "a ", "rejected": "b "})");
  EXPECT_EQ(rows.rows.at(0).prompt, "");
  EXPECT_EQ(rows.rows.at(0).chosen, "a ");
}

TEST(Preferences, SharedContextCountsOnce) {
  const PreferenceData data = prepare(kGood);
  const SequencePair pair = sides_of(data.records[0]);
  EXPECT_TRUE(pair.shares_context());
  EXPECT_EQ(pair.tokens(false) - pair.tokens(true), std::ssize(pair.first.context));
}

}  // namespace preferences_test
}  // namespace hone::data
