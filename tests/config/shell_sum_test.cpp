// Sums of integers, as bash has them in $((...)) and expr.
#include "config/others/shell_sum.h"

#include <gtest/gtest.h>

namespace hone::config {
namespace shell_sum_test {

std::optional<std::int64_t> sum(std::string_view text) {
  return shell_sum(text, [](const std::string& name) {
    return name == "N" ? std::string("8") : name == "WORD" ? std::string("eight") : std::string();
  });
}

TEST(ShellSum, IsBashs) {
  EXPECT_EQ(sum("32 / $N"), 4);
  EXPECT_EQ(sum("32/N"), 4);
  EXPECT_EQ(sum("2 + 3 * 4"), 14);
  EXPECT_EQ(sum("(2 + 3) * ${N}"), 40);
  EXPECT_EQ(sum("4 \\* 2"), 8);
  EXPECT_EQ(sum("7 / 2"), 3);
  EXPECT_EQ(sum("7 % 4 - 5"), -2);
  EXPECT_EQ(sum(" 16 "), 16);
}

TEST(ShellSum, SaysNothingOfWhatIsNoSum) {
  for (const char* text : {"", "1 / 0", "5 % 0", "$M + 1", "$WORD", "1 +", "(1", "1)", "1.5", "a",
                           "9999999999", "1 ** 2", "99999 * 99999", "$1", "2 > 1"})
    EXPECT_EQ(sum(text), std::nullopt) << text;
  EXPECT_EQ(sum(std::string(1000, '(')), std::nullopt);
}

}  // namespace shell_sum_test
}  // namespace hone::config
