#include "report/fit_page.h"

#include <gtest/gtest.h>

#include <sstream>

#include "report/terminal/text_width.h"

namespace hone::report {
namespace fit_page_test {

TEST(FitPage, BreaksAtSpacesBelowTheLinesOwnText) {
  EXPECT_EQ(fit_page("hone: [doctor] expected a run that can learn\n"
                     "  found:  NUM-10: weight_decay 500 takes 50 % of every weight in each step\n"
                     "  do:     weight_decay: 0.01\n",
                     40),
            "hone: [doctor] expected a run that\n"
            "    can learn\n"
            "  found:  NUM-10: weight_decay 500 takes\n"
            "          50 % of every weight in each\n"
            "          step\n"
            "  do:     weight_decay: 0.01\n");
}

TEST(FitPage, AGapFarToTheRightIsNoMargin) {
  EXPECT_EQ(fit_page("  --model_name_or_path string            a folder or a file\n", 50),
            "  --model_name_or_path string            a\n"
            "      folder or a file\n");
}

TEST(FitPage, KeepsWordsWholeAndWhatIsNoTerminal) {
  const std::string path = "  do:     look at /a/path/that/is/wider/than/the/terminal/and/stays/whole now";
  EXPECT_EQ(fit_page(path, 0), path);
  EXPECT_EQ(fit_page(path, 10), path);
  EXPECT_EQ(
      fit_page(path, 40),
      "  do:     look at\n          /a/path/that/is/wider/than/the/terminal/and/stays/whole\n          now");
  EXPECT_EQ(fit_page("", 40), "");
  EXPECT_EQ(fit_page("\n\nshort\n", 40), "\n\nshort\n");
  const std::string colored = "\x1b[1ma line with colors that is wider than forty columns\x1b[0m";
  EXPECT_EQ(fit_page(colored, 40), colored);
}

TEST(FitPage, NoLineIsWiderThanTheTerminalWhereWordsAllow) {
  std::string page;
  for (int i = 0; i < 8; ++i)
    page += std::string(static_cast<std::size_t>(i), ' ') +
            "a line  with a gap and é wide — words, of which there are several\n";
  for (const int columns : {30, 45, 60}) {
    std::istringstream lines(fit_page(page, columns));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), columns) << line;
  }
}

}  // namespace fit_page_test
}  // namespace hone::report
