#include "base/strings/pattern.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hone::base {
namespace pattern_test {

// The matches' texts, joined by |.
std::string all(const std::string& pattern, const std::string& text, Pattern::Flags flags = {}) {
  const std::u32string points = to_code_points(text);
  std::string out;
  for (const Match& one : Pattern(pattern, flags, "test").find_all(points))
    out += (out.empty() ? "" : "|") + to_utf8(one.text(points));
  return out;
}

TEST(Pattern, FindsAsPythonDoes) {  // each expectation was checked with re.finditer
  EXPECT_EQ(all("a+", "aa b aaa"), "aa|aaa");
  EXPECT_EQ(all("a+?", "aa"), "a|a");
  EXPECT_EQ(all("a{2,3}", "aaaaa"), "aaa|aa");
  EXPECT_EQ(all("a{,2}b", "aaab b"), "aab|b");
  EXPECT_EQ(all("a{2}?", "aaaa"), "aa|aa");
  EXPECT_EQ(all("x{a}", "x{a}"), "x{a}");
  EXPECT_EQ(all("(ab|a)(c|bcd)", "abcd"), "abc");
  EXPECT_EQ(all("[^a-c]+", "abcdefc"), "def");
  EXPECT_EQ(all("[]a]+", "]a]"), "]a]");
  EXPECT_EQ(all("[a-]+", "a-b"), "a-");
  EXPECT_EQ(all(R"([\d,]+)", "1,234 x 5"), "1,234|5");
  EXPECT_EQ(all(R"(\bcat\b)", "cat concat cat"), "cat|cat");
  EXPECT_EQ(all(R"((?<!\\)\$)", "\\$ $"), "$");
  EXPECT_EQ(all(R"((?<=a|b)c)", "ac bc cc"), "c|c");
  EXPECT_EQ(all("a(?!b)", "ab ac"), "a");
  EXPECT_EQ(all("(?=(a+))a", "aa"), "a|a");
  EXPECT_EQ(all(R"((\w)\1)", "aabbc"), "aa|bb");
  EXPECT_EQ(all(R"((?P<q>['"]).*?(?P=q))", "'a' \"b'\""), "'a'|\"b'\"");
  EXPECT_EQ(all("(?i:ab)c", "ABc abC"), "ABc");
  EXPECT_EQ(all("(?i)ab", "ABc aB"), "AB|aB");
  EXPECT_EQ(all("a.c", "abc a\nc"), "abc");
  EXPECT_EQ(all("a.c", "abc a\nc", {.dot_all = true}), "abc|a\nc");
  EXPECT_EQ(all("^b", "a\nb"), "");
  EXPECT_EQ(all("^b", "a\nb", {.multi_line = true}), "b");
  EXPECT_EQ(all("b$", "b\n"), "b");
  EXPECT_EQ(all(R"(b\Z)", "b\n"), "");
  EXPECT_EQ(all("é+", "caféé"), "éé");
  EXPECT_EQ(all(R"(\s+)", "a\u00a0b"), "\u00a0");
  EXPECT_EQ(all(R"(\x41\u0042)", "AB"), "AB");
  EXPECT_EQ(all("(a*)*b", "aab"), "aab");
  EXPECT_EQ(all("(a|ab)(bc|c)?$", "abc"), "abc");
}

TEST(Pattern, GroupsOfTheLastRound) {
  const std::u32string text = U"abac";
  const auto found = Pattern("(?:(a)|(b))*").match(text);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->end(), 3U);
  EXPECT_EQ(found->begin(1), 2U);
  EXPECT_EQ(found->begin(2), 1U);
}

TEST(Pattern, Replaces) {
  EXPECT_EQ(to_utf8(Pattern(R"((\d)(\d))").replace(U"a12b34", U"\\2\\1")), "a21b43");
  EXPECT_EQ(to_utf8(Pattern("x").replace(U"axb", U"\\frac")), "a\\fracb");
}

TEST(Pattern, SearchesFromAPlaceOfTheText) {
  const std::u32string text = U"ab ab";
  long steps = 1000;
  EXPECT_EQ(Pattern("ab").search(text, 1, steps)->begin(), 3U);
  EXPECT_EQ(Pattern("(?<=a)b").search(text, 1, steps)->begin(), 1U);  // what stands before counts
  EXPECT_FALSE(Pattern("^ab").search(text, 3, steps).has_value());    // and the beginning is the text's
  EXPECT_FALSE(Pattern("ab").search(text, 4, steps).has_value());
  long none = 0;
  EXPECT_THROW(Pattern("ab").search(text, 0, none), PatternTooSlow);
}

TEST(Pattern, LongTextsNeedNoStack) {
  const std::u32string text(300'000, U'a');
  EXPECT_EQ(Pattern("(?:a|b)*").match(text)->end(), text.size());
}

TEST(Pattern, NestedRepetitionTakesTimeInProportion) {  // each of these was 2^n or n^3
  const std::u32string text(20'000, U'a');
  for (const char* const slow :
       {"(a+)+$b", "(a|a)*b", "(a|aa)+c", "(?:a*)*b", "(.*)(.*)(.*)x", "(\\w+\\.?)+x"})
    EXPECT_FALSE(Pattern(slow).search(text)) << slow;
}

TEST(Pattern, GivesUp) {  // with a back-reference nothing can be remembered
  const std::u32string text(60, U'a');
  EXPECT_THROW(Pattern("(a|a)*\\1b").search(text), PatternTooSlow);
}

TEST(Pattern, MatchesTheWhole) {
  const auto whole = [](const char* pattern, const std::u32string& text) {
    long steps = Pattern::kMaxSteps;
    return Pattern(pattern).full_match(text, steps);
  };
  EXPECT_TRUE(whole("a|ab", U"ab"));  // re.match takes a; re.fullmatch goes back
  EXPECT_TRUE(whole("a*?", U"aaa"));
  EXPECT_FALSE(whole("a", U"ab"));
  EXPECT_FALSE(whole("a$", U"a\n"));
  EXPECT_TRUE(whole("(?=a)a|b", U"a"));
}

TEST(Pattern, Limits) {
  const auto said = [](const std::string& pattern) -> std::string {
    try {
      const Pattern compiled(pattern, {}, "adapter_config.json: target_modules");
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const std::string deep = said(std::string(20'000, '(') + std::string(20'000, ')'));
  EXPECT_NE(deep.find("adapter_config.json: target_modules"), std::string::npos);
  EXPECT_NE(deep.find("at most 200 deep"), std::string::npos) << deep;
  EXPECT_LT(deep.size(), 1000U);
  EXPECT_NE(said(std::string(65'537, 'a')).find("at most 65536 characters"), std::string::npos);
  EXPECT_NE(said("((?:){99999}){99999}").find("at most 100000 steps"), std::string::npos);
  EXPECT_NE(said("(((?:a{99999}){99999}){99999}){99999}").find("at most 100000 steps"), std::string::npos);
}

TEST(Pattern, WhatIsWrongIsSaid) {
  for (const char* const bad :
       {"(", ")", "[a", "*a", "a**", "a++", "(?>a)", "(?P<a>b)(?P<a>c)", "\\2", "(?<=a*)b", "\\p{L}", "[b-a]",
        "a{3,2}", "\\", "(?P=x)", "(?(1)a)", "((a{100}){100}){100}"})
    EXPECT_THROW(Pattern{bad}, UserError) << bad;
}

TEST(Pattern, CodePoints) {
  EXPECT_EQ(to_utf8(to_code_points("aé€😀")), "aé€😀");
  EXPECT_EQ(to_code_points("\xff\xc3"), U"\uFFFD\uFFFD");
}

}  // namespace pattern_test
}  // namespace hone::base
