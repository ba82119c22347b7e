#include "report/terminal/text_width.h"

#include <gtest/gtest.h>

namespace hone::report {
namespace text_width_test {

TEST(TextWidth, CountsColumns) {
  EXPECT_EQ(columns_of(""), 0);
  EXPECT_EQ(columns_of("±42é"), 4);
  EXPECT_EQ(columns_of("日本"), 4);
  EXPECT_EQ(columns_of("😀"), 2);
  EXPECT_EQ(columns_of("e\xCC\x81"), 1) << "a combining accent";
  EXPECT_EQ(columns_of("\xE6\x97"), 2) << "torn: a column a byte, and no reading past the end";
}

TEST(TextWidth, CutsTheMiddleAndNeverACharacter) {
  EXPECT_EQ(fit_line("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(fit_line("abcdefghijk", 10), "abcdef…ijk");
  EXPECT_EQ(fit_line("日本語日本語", 8), "日本…語");
  EXPECT_EQ(fit_line("abc", 1), "…");
  EXPECT_EQ(fit_line("abc", 0), "");
  for (int width = 0; width < 30; ++width)
    EXPECT_LE(columns_of(fit_line("aé日😀b\nあc\x1b\td日日日", width)), width);
}

TEST(TextWidth, IsOneLineWithoutControls) {
  EXPECT_EQ(fit_line("a\nb\tc\x1b[2J\r", 80), "a\\nb\\tc\\x1b[2J\\x0d");
}

}  // namespace text_width_test
}  // namespace hone::report
