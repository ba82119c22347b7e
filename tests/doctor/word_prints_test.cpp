// Near copies, items of benchmarks, secrets and personal data: texts alone, without a run.
#include "doctor/checks/word_prints.h"

#include <gtest/gtest.h>

#include "doctor/checks/benchmark_prints.h"
#include "doctor/checks/row_rules.h"

namespace hone::doctor {
namespace word_prints_test {

using base::Level;

// Twenty words that no other `kind` has.
std::string sentence(const std::string& kind, int changed = -1) {
  std::string out;
  for (int i = 0; i < 20; ++i)
    out += (i > 0 ? " " : "") + (i == changed ? std::string("other") : kind + std::to_string(i));
  return out;
}

TEST(WordPrints, WordsAreLowerCaseWithOneSpace) {
  EXPECT_EQ(words_of("  What's  3+4?\n\nÄ "), "what s 3+4 \xC3\x84");
  EXPECT_EQ(word_runs("a b c", 2).size(), 2U);
  EXPECT_EQ(word_runs("a b c", 2)[1], word_runs("b c", 2)[0]);
  EXPECT_TRUE(word_runs("a b c", 4).empty());
}

TEST(WordPrints, ATwinSharesMostRunsAndOthersDoNot) {
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i)
    texts.push_back(
        sentence(std::string(1, static_cast<char>('a' + i % 26)) + "x" + std::to_string(i) + "y"));
  texts.push_back(sentence("ax0y", 19));  // 15 of 17 runs
  texts.push_back(sentence("bx1y", 10));  // 11 of 21 runs
  const auto twins = near_twins(texts);
  EXPECT_EQ(twins[40], 0U);
  for (std::size_t i = 0; i < twins.size(); ++i) EXPECT_EQ(twins[i].has_value(), i == 40) << i;
}

TEST(WordPrints, TheWordingOfATaskIsNoTwin) {
  std::vector<std::string> texts;
  for (int i = 0; i < 50; ++i)
    texts.push_back(sentence("instruction") + " " + std::to_string(i) + " is what is asked");
  for (const auto& twin : near_twins(texts)) EXPECT_FALSE(twin.has_value());
}

std::vector<RowTexts> texts(const std::vector<std::string>& all) {
  std::vector<RowTexts> out;
  for (std::size_t i = 0; i < all.size(); ++i)
    out.push_back({.where = "rows.jsonl:" + std::to_string(i + 1), .text = all[i]});
  return out;
}

std::array<std::uint32_t, 2> print_of(const std::string& text) {
  auto runs = word_runs(words_of(text), 8);
  std::sort(runs.begin(), runs.end());
  return {runs[0], runs[1]};
}

TEST(Benchmarks, AnItemInARowIsFoundAndAPartOfItIsNot) {
  Benchmark made{.name = "Made", .items = 40};
  for (int i = 0; i < 40; ++i) made.prints.push_back(print_of(sentence("item" + std::to_string(i) + "w")));
  const auto judge = [&](const std::vector<std::string>& rows) {
    const std::vector<Benchmark> all = {made};
    return judge_benchmarks(all, texts(rows)).front();
  };
  const base::Verdict one = judge({"nothing", "Q: " + sentence("item7w") + "! A: 12", "nothing"});
  EXPECT_EQ(one.level, Level::kWarn);  // one of 40
  EXPECT_EQ(one.what, "1 of the first 3 rows hold items of Made's test");
  EXPECT_TRUE(one.evidence.starts_with("rows.jsonl:2 is the first; 1 of the 40 items")) << one.evidence;
  EXPECT_EQ(
      judge({sentence("other"), "item7w0 item7w1 item7w2 item7w3 item7w4 item7w5 item7w6 item7w7"}).level,
      Level::kOk);
}

TEST(Benchmarks, TheCommittedHashesAreThoseOfFiveBenchmarks) {
  const std::vector<Benchmark> all = read_benchmarks(kBenchmarkPrints);
  std::vector<std::pair<std::string, std::size_t>> found;
  for (const Benchmark& one : all) found.emplace_back(one.name, one.prints.size());
  const std::vector<std::pair<std::string, std::size_t>> expected = {
      {"GSM8K", 1319}, {"MATH-500", 478}, {"HumanEval", 162}, {"MMLU", 754}, {"IFEval", 541}};
  EXPECT_EQ(found, expected);
  EXPECT_EQ(all[3].every, 16);
  EXPECT_EQ(judge_benchmarks(all, texts({sentence("plain"), "What is 7 + 3? 10"})).front().level, Level::kOk);
}

// Made at random for this test; none was ever in use.
TEST(PrivateData, SecretsAreNamedAndNeverPrinted) {
  const std::string body = "q8Zt3LmV0xR7cKp2Yb9NdW5sHfJ4gTa6";
  for (const auto& [text, kind] : std::vector<std::pair<std::string, std::string>>{
           {"export HF_TOKEN=hf_" + body, "a Hugging Face token"},
           {"key: sk-" + body, "an API key (sk-)"},
           {"ghp_" + body + "Xk91", "a GitHub token"},
           {"AKIA"
            "Q3ZT7LMV0XR2CKPY",
            "an AWS access key"},
           {"-----BEGIN RSA PRIVATE KEY-----\n" + body + body + body, "a private key"}}) {
    const RowFinding found = find_secret(text);
    ASSERT_TRUE(found.has_value()) << kind;
    EXPECT_EQ(*found, kind);
    EXPECT_EQ(found->find(body.substr(0, 8)), std::string::npos);
  }
  for (const char* const text :
       {"hf_your_token_goes_here_and_is_long_enough", "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "AKIAIOSFODNN7EXAMPLE", "risk-averse-and-long-term-oriented-strategies",
        "-----BEGIN PRIVATE KEY-----\n...", "self.sk-learn", ""})
    EXPECT_FALSE(find_secret(text).has_value()) << text;
}

TEST(PrivateData, PersonalDataByTheirChecksums) {
  for (const auto& [text, kind] : std::vector<std::pair<std::string, std::string>>{
           {"Write to jane.doe@mail-of-hers.org today", "an e-mail address"},
           {"Call +49 30 98412765 now", "a telephone number"},
           {"IBAN DE89 3704 0044 0532 0130 00, BIC COBADEFF", "an IBAN"},
           {"Card 4539 5780 1263 4991, valid", "a payment card's number"}})
    EXPECT_EQ(find_personal(text).value_or("nothing"), kind) << text;
  for (const char* const text :
       {"me@example.com", "IBAN DE88 3704 0044 0532 0130 00", "4111 1111 1111 1111", "What is 4539 + 5780?",
        "4539578012634995", "x = +1234567890", "a @ b", "pi = 3.141592653589793", "v1.2.3@sha256"})
    EXPECT_FALSE(find_personal(text).has_value()) << text << ": " << find_personal(text).value_or("");
}

}  // namespace word_prints_test
}  // namespace hone::doctor
