#include "report/completions_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "report/rollouts.h"
#include "report/terminal/text_width.h"

namespace hone::report {
namespace completions_table_test {

TEST(CompletionsTable, PutsEachPromptAboveItsCompletions) {
  EXPECT_EQ(completions_table(rollouts(12), {}, {}),
            "completions of step 12\n"
            "  prompt  2 + 3?\n"
            "    accuracy_reward   format  advantage  completion\n"
            "               1.00        -       0.71  5\n"
            "               0.00     0.50      -0.71  6\\n\\x1b[2J (truncated)\n"
            "  prompt  4 + 4?\n"
            "    accuracy_reward   format  advantage  completion\n"
            "               1.00     1.00       0.00  8\n"
            "               1.00     1.00       0.00  8\n");
}

TEST(CompletionsTable, ADialogueHasALineForEachThingThatWasSaid) {
  train::RolloutFacts facts = dialogues(3);
  facts.completions[0].truncated = true;
  EXPECT_EQ(completions_table(facts, {}, {}),
            "completions of step 3\n"
            "  prompt  2 + 3?\n"
            "    accuracy_reward   format  advantage  completion\n"
            "               1.00        -       0.71  (thinks) Add.\\nThen look.\n"
            "                                         -> add {\"a\":2}\n"
            "                                         -> look not an object\n"
            "                                         <- add: 5\n"
            "                                         <- look failed: {'error': 'gone'}\n"
            "                                         So 5, or more.\n"
            "                                         -> add {\"a\":3}\n"
            "                                         <- add: too long (not read) (truncated)\n");
}

TEST(CompletionsTable, TheMiddleOfALongDialogueIsLeftOut) {
  train::RolloutFacts facts = dialogues(1);
  base::Json& messages = facts.completions[0].messages;
  messages = base::Json::array();
  for (int i = 1; i <= 40; ++i)
    messages.push_back({{"role", "assistant"}, {"content", "turn " + std::to_string(i)}});
  facts.completions[0].calls.clear();
  const std::string table = completions_table(facts, {}, {});
  EXPECT_NE(table.find("turn 8\n" + std::string(41, ' ') + "... 24 more ...\n" + std::string(41, ' ') +
                       "turn 33\n"),
            std::string::npos)
      << table;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3 + 17) << table;
}

TEST(CompletionsTable, ShowsAsManyAsWereAskedForSpreadOverTheBatch) {
  const std::string two = completions_table(rollouts(1), {.most = 2}, {});
  EXPECT_NE(two.find("  5\n"), std::string::npos) << two;
  EXPECT_NE(two.find("4 + 4?"), std::string::npos) << two;
  EXPECT_EQ(std::count(two.begin(), two.end(), '\n'), 7) << two;
  const std::string unique = completions_table(rollouts(1), {.unique_prompts = true}, {});
  EXPECT_EQ(std::count(unique.begin(), unique.end(), '\n'), 7) << unique;
  EXPECT_EQ(unique.find("truncated"), std::string::npos) << unique;
  EXPECT_EQ(completions_table({.step = 1}, {}, {}), "completions of step 1\n");
}

TEST(CompletionsTable, ShowsExtraColumnsAsTheyAre) {
  train::RolloutFacts facts = rollouts(1);
  for (auto& completion : facts.completions) completion.extra = {{"parsed", "five"}, {"n", 3}};
  facts.completions[1].extra.clear();
  const std::string table = completions_table(facts, {}, {});
  EXPECT_NE(table.find("advantage  parsed  n  completion\n"), std::string::npos) << table;
  EXPECT_NE(table.find("0.71  five    3  5\n"), std::string::npos) << table;
  EXPECT_NE(table.find("-0.71  -       -  6"), std::string::npos) << table;
}

// With names, texts and columns that want more, every width is kept, down to where 16 columns for the text
// and 7 for each number leave no choice.
TEST(CompletionsTable, FitsNarrowTerminals) {
  train::RolloutFacts facts = rollouts(1);
  for (auto& completion : facts.completions) {
    completion.prompt += std::string(300, 'p') + "é";
    completion.completion = "begin 日本 " + std::string(300, 'c') + " end";
    completion.extra = {{"a_name_that_is_long", std::string(100, 'x')}};
  }
  for (int width = 58; width <= 200; width += 7) {
    std::istringstream lines(completions_table(facts, {}, {.columns = width}));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), width) << line;
  }
  const std::string narrow = completions_table(facts, {}, {.columns = 20});
  EXPECT_NE(narrow.find("beg"), std::string::npos) << "something of a text is left: " << narrow;
}

TEST(CompletionsTable, UsesColorOnlyWhereThereIsSome) {
  EXPECT_EQ(completions_table(rollouts(1), {}, {}).find('\x1b'), std::string::npos);
  EXPECT_NE(completions_table(rollouts(1), {}, {.color = true}).find("\x1b[32m5\x1b[0m"), std::string::npos);
}

}  // namespace completions_table_test
}  // namespace hone::report
