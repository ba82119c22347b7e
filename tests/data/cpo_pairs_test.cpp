// Against TRL's own tokenization (tests/parity/record_cpo_pairs.py), and what bad rows get.
#include "data/forms/cpo_pairs.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/pair_lists.h"

namespace hone::data {
namespace cpo_pairs_test {

using base::Json;

const base::fs::path kFixtures = HONE_FIXTURES;

const Json& golden() {
  static const Json value =
      base::parse_json(base::read_text(kFixtures / "data" / "cpo_pairs.json"), "cpo_pairs.json");
  return value;
}

// tests/fixtures/text/tiny, with or without some of its special tokens.
text::Tokenizer tokenizer_without(const std::vector<std::string>& absent) {
  const base::fs::path folder = kFixtures / "text" / "tiny";
  Json config = base::parse_json(base::read_text(folder / "tokenizer_config.json"), "tokenizer_config.json");
  for (const std::string& name : absent) config.erase(name);
  return text::Tokenizer::from_json(base::read_text(folder / "tokenizer.json"), base::dump_json(config),
                                    "tiny");
}

const text::Tokenizer& tokenizer(bool bos = true) {
  static const text::Tokenizer with = tokenizer_without({}), without = tokenizer_without({"bos_token"});
  return bos ? with : without;
}

const text::ChatTemplate& chat_template() {
  static const text::ChatTemplate value(*tokenizer().chat_template(), tokenizer().special(), "template");
  return value;
}

// A pair that TRL keeps without a completion.
bool is_empty(const Json& pair) {
  const auto none = [](const Json& side) { return side.at(1).empty() || side.at(1).back() == Json(0); };
  return none(pair.at("chosen")) || none(pair.at("rejected"));
}

class CpoPairsGolden : public testing::TestWithParam<std::size_t> {};

TEST_P(CpoPairsGolden, EqualsTrl) {
  const Json& recorded = golden().at("cases").at(GetParam());
  const PreferenceRows rows =
      read_preference_rows(kFixtures / "data" / "cpo_pairs" / recorded.at("file").get<std::string>(),
                           ImplicitPrompts::kExtractMixed);
  PairOptions options{.max_length = recorded.at("options").value("max_length", 1024), .threads = 1};
  const text::Tokenizer& used = tokenizer(recorded.at("tokenizer") == "tiny");
  const PreferenceData data = tokenize_cpo_pairs(rows, used, &chat_template(), options);
  const Json& pairs = recorded.at("pairs");
  ASSERT_EQ(rows.rows.size(), pairs.size());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    SCOPED_TRACE(rows.where(i));
    if (is_empty(pairs.at(i))) continue;
    ASSERT_LT(kept, data.records.size());
    const ListedPair& ours = listed(data.records[kept++]);
    EXPECT_EQ(ours.row, static_cast<std::int64_t>(i));
    EXPECT_EQ(recorded_form(ours.first), pairs.at(i).at("chosen"));
    EXPECT_EQ(recorded_form(ours.second), pairs.at(i).at("rejected"));
  }
  EXPECT_EQ(kept, data.records.size());
  EXPECT_EQ(data.facts.prompts_too_long, static_cast<std::int64_t>(pairs.size() - kept));
  options.threads = 2;
  EXPECT_EQ(tokenize_cpo_pairs(rows, used, &chat_template(), options).records.size(), kept);
}

INSTANTIATE_TEST_SUITE_P(Cases, CpoPairsGolden, testing::Range(std::size_t{0}, golden().at("cases").size()));

PreferenceData prepare(const std::string& text, const text::Tokenizer& used = tokenizer(),
                       const PairOptions& options = {}) {
  return tokenize_cpo_pairs(parse_preference_rows(text, "pairs.jsonl", ImplicitPrompts::kExtractMixed), used,
                            &chat_template(), options);
}

void expect_error(const std::string& text, const std::vector<std::string>& parts,
                  const text::Tokenizer& used = tokenizer(), const PairOptions& options = {}) {
  std::string found = "no error";
  try {
    prepare(text, used, options);
  } catch (const base::UserError& error) {
    found = error.what();
  }
  for (const std::string& part : parts)
    EXPECT_NE(found.find(part), std::string::npos) << part << "\nin: " << found;
}

const char* const kGood = R"({"prompt": "q", "chosen": " a", "rejected": " b"})"
                          "\n";
const char* const kAnswers = R"("chosen": [{"role": "assistant", "content": "b"}],
  "rejected": [{"role": "assistant", "content": "c"}]})";

std::string chat_row(const std::string& prompt) {
  std::string row = R"({"prompt": )" + prompt + ", " + kAnswers;
  row.erase(row.find('\n'), 1);
  return row;
}

TEST(CpoPairs, BadRowsAreNamed) {
  expect_error(chat_row(R"([{"role": "system", "content": "be kind"}])"), {"pairs.jsonl:1", "role 'system'"});
  expect_error(chat_row(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": 5}])"),
               {"pairs.jsonl:1"});
  expect_error(kGood, {"end-of-sequence"}, tokenizer_without({"eos_token"}));
  expect_error(chat_row(R"([{"role": "user", "content": "a"}])"), {"end-of-sequence"},
               tokenizer_without({"eos_token"}));
  expect_error(R"({"prompt": "", "chosen": "", "rejected": "b"})", {"pairs.jsonl:1 chosen", "one token"},
               tokenizer(/*bos=*/false));
  expect_error(R"({"prompt": "q", "chosen": " a", "rejected": " a"})", {"PREF-01"});
  expect_error(kGood, {"pairs.jsonl", "max_length = 2"}, tokenizer(), {.max_length = 2});
  expect_error(kGood, {"DATA-10"}, tokenizer(), {.vocab_size = 3});
}

// A conversation and a prompt of text; another method takes no such rows.
TEST(CpoPairs, APromptThatRepeatsTheConversation) {
  const std::string row = R"({"prompt": "a", "chosen": [{"role": "user", "content": "a"},)"
                          R"( {"role": "assistant", "content": "b"}], "rejected": [{"role": "user",)"
                          R"( "content": "a"}, {"role": "assistant", "content": "c"}]})";
  const PreferenceData data = prepare(row);
  EXPECT_TRUE(data.facts.implicit);
  EXPECT_TRUE(listed(data.records[0]).shares_context);
  EXPECT_THROW(parse_preference_rows(row, "pairs.jsonl"), base::UserError);
}

}  // namespace cpo_pairs_test
}  // namespace hone::data
