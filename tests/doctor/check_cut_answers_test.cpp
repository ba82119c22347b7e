// DATA-16: answers that a generator's limit cuts, and answers that only have one length.
#include "doctor/checks/row_texts.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hone::doctor {
namespace check_cut_answers_test {

std::size_t words_in(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), ' ')) + 1;
}

// So many words, which no other answer has.
std::string answer(std::size_t words, std::size_t n, const char* end) {
  std::string out = "word" + std::to_string(n);
  for (std::size_t i = 1; i < words; ++i) out += " and";
  return out + end;
}

std::optional<base::Verdict> judged(const std::vector<std::string>& answers) {
  std::vector<RowTexts> rows;
  for (std::size_t i = 0; i < answers.size(); ++i)
    rows.push_back({.where = "rows.jsonl:" + std::to_string(i + 1), .completion = answers[i]});
  return check_cut_answers(rows, words_in);
}

// 90 answers of 10 to 54 words that end by themselves.
std::vector<std::string> whole_answers() {
  std::vector<std::string> out;
  for (std::size_t n = 0; n < 90; ++n) out.push_back(answer(10 + n / 2, n, "."));
  return out;
}

TEST(CutAnswers, OfOneNumberOfTokensAreNamed) {
  std::vector<std::string> answers = whole_answers();
  for (std::size_t n = 0; n < 10; ++n) answers.push_back(answer(64, 100 + n, ""));
  const auto found = judged(answers);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->code, "DATA-16");
  EXPECT_EQ(found->level, base::Level::kWarn);
  EXPECT_NE(found->what.find("have an answer of 64 tokens that ends within a sentence"), std::string::npos)
      << found->what;
  EXPECT_TRUE(found->evidence.starts_with("rows.jsonl:91: ... ")) << found->evidence;
}

TEST(CutAnswers, OthersAreNot) {
  EXPECT_FALSE(judged({}).has_value());
  EXPECT_FALSE(judged(whole_answers()).has_value());
  const auto with = [](std::size_t count, std::size_t words, const char* end, std::size_t step = 0) {
    std::vector<std::string> answers = whole_answers();
    for (std::size_t n = 0; n < count; ++n) answers.push_back(answer(words + n * step, 100 + n, end));
    return judged(answers).has_value();
  };
  EXPECT_TRUE(with(10, 64, ","));
  EXPECT_TRUE(with(10, 64, " ```x=1;"));
  EXPECT_FALSE(with(10, 64, ".")) << "they end by themselves";
  EXPECT_FALSE(with(10, 64, "", 1)) << "of many lengths";
  EXPECT_FALSE(with(4, 64, "")) << "four of 94";
  EXPECT_FALSE(with(10, 30, "")) << "shorter than others";
  std::vector<std::string> same(100, answer(64, 0, ""));
  EXPECT_FALSE(judged(same).has_value()) << "one answer again and again";
  std::vector<std::string> even;
  for (std::size_t n = 0; n < 100; ++n) even.push_back(answer(64, n, ""));
  EXPECT_FALSE(judged(even).has_value()) << "all of one length: a form, not a limit";
}

TEST(CutAnswers, KnowAnOpenEnd) {
  for (const char* open : {"and then", "one, ", "one,", "```python\nx = (1)", "in 1999"})
    EXPECT_TRUE(ends_open(open)) << open;
  for (const char* whole : {"", "Yes.", "Really?", "```x```", "(see above)", "\"no\"", "好。"})
    EXPECT_FALSE(ends_open(whole)) << whole;
}

}  // namespace check_cut_answers_test
}  // namespace hone::doctor
