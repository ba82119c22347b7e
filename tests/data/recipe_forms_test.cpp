// What recipes ask of rows beside TRL 1.16: prompts cut to max_prompt_length, conversations made of a column.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "data/preferences.h"
#include "data/prompts.h"
#include "data/unpaired.h"

namespace hone::data {
namespace recipe_forms_test {

using base::Json;
using Ids = std::vector<std::int32_t>;

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer value = text::Tokenizer::from_folder(HONE_FIXTURES "/text/tiny");
  return value;
}

class RecipeForms : public testing::Test {
 protected:
  void TearDown() override { base::fs::remove(file_); }
  base::fs::path write(const std::string& text) const {
    std::ofstream(file_) << text;
    return file_;
  }
  base::fs::path file_ =
      base::fs::temp_directory_path() / ("hone_recipe_forms_" + std::to_string(getpid()) + ".jsonl");
};

TEST_F(RecipeForms, APairsPromptKeepsItsLastTokens) {
  const std::string text = R"({"prompt": "a long prompt of words", "chosen": " yes", "rejected": " no"})";
  const PreferenceRows rows = parse_preference_rows(text, "pairs.jsonl");
  const PreferencePair whole = tokenize_preferences(rows, tokenizer(), nullptr, {}).pairs.at(0);
  const PreferencePair cut =
      tokenize_preferences(rows, tokenizer(), nullptr, {.max_prompt_length = 3}).pairs.at(0);
  ASSERT_GT(whole.chosen.context.size(), 3U);
  EXPECT_EQ(cut.chosen.context, Ids(whole.chosen.context.end() - 3, whole.chosen.context.end()));
  EXPECT_EQ(cut.rejected.context, cut.chosen.context);
  EXPECT_EQ(cut.chosen.scored, whole.chosen.scored);
  EXPECT_EQ(cut.rejected.scored, whole.rejected.scored);
  const PreferencePair wide =
      tokenize_preferences(rows, tokenizer(), nullptr, {.max_prompt_length = 1000}).pairs.at(0);
  EXPECT_EQ(wide.chosen.context, whole.chosen.context);
}

TEST_F(RecipeForms, APromptIsCutBeforeThePair) {
  // Without the cut the prompt would fill max_length, and the pair be dropped.
  const std::string text = R"({"prompt": "a long prompt of words", "chosen": " yes", "rejected": " no"})";
  const PreferenceRows rows = parse_preference_rows(text, "pairs.jsonl");
  const PreferenceData data =
      tokenize_preferences(rows, tokenizer(), nullptr, {.max_length = 6, .max_prompt_length = 2});
  ASSERT_EQ(data.pairs.size(), 1U);
  EXPECT_EQ(data.pairs[0].chosen.context.size(), 2U);
  EXPECT_LE(data.pairs[0].chosen.tokens(), 6);
}

TEST_F(RecipeForms, AMarkedRowsPromptKeepsItsLastTokens) {
  const UnpairedRows rows =
      read_unpaired_rows(write(R"({"prompt": "a long prompt", "completion": " yes", "label": true}
{"prompt": "another one", "completion": " no", "label": false}
)"));
  const UnpairedData whole = tokenize_unpaired(rows, tokenizer(), nullptr, {.batch_size = 2});
  const UnpairedData cut =
      tokenize_unpaired(rows, tokenizer(), nullptr, {.max_prompt_length = 2, .batch_size = 2});
  const Ids& context = whole.rows[0].chosen.context;
  EXPECT_EQ(cut.rows[0].chosen.context, Ids(context.end() - 2, context.end()));
  EXPECT_EQ(cut.rows[0].chosen.scored, whole.rows[0].chosen.scored);
}

TEST_F(RecipeForms, AColumnBecomesAConversation) {
  const auto rows = read_prompt_rows(write(R"({"problem": "2 + 3?", "solution": "5"})"),
                                     {.system = "Be brief.", .column = "problem"});
  EXPECT_EQ(rows.at(0).prompt, Json::array({{{"role", "system"}, {"content", "Be brief."}},
                                            {{"role", "user"}, {"content", "2 + 3?"}}}));
  EXPECT_EQ(rows[0].columns, Json({{"problem", "2 + 3?"}, {"solution", "5"}}));
}

TEST_F(RecipeForms, ASystemTurnComesBeforePrompts) {
  const PromptForm form = {.system = "Be brief.", .column = ""};
  const auto of_text = read_prompt_rows(write(R"({"prompt": "2 + 3?"})"), form);
  EXPECT_EQ(of_text.at(0).prompt.size(), 2U);
  const auto of_messages =
      read_prompt_rows(write(R"({"prompt": [{"role": "user", "content": "2 + 3?"}]})"), form);
  EXPECT_EQ(of_messages.at(0).prompt, of_text[0].prompt);
  const auto with_its_own = read_prompt_rows(
      write(R"({"prompt": [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]})"), form);
  EXPECT_EQ(with_its_own.at(0).prompt[0]["content"], "x");
  EXPECT_EQ(with_its_own[0].prompt.size(), 2U);
}

TEST_F(RecipeForms, AColumnThatIsNotThereIsNamed) {
  const base::fs::path file = write(R"({"problm": "2 + 3?"})");
  try {
    read_prompt_rows(file, {.system = "", .column = "problem"});
    FAIL();
  } catch (const base::UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("column 'problem'"), std::string::npos) << text;
    EXPECT_NE(text.find("problm"), std::string::npos) << text;
  }
  EXPECT_THROW(read_prompt_rows(write(R"({"problem": 5})"), {.system = "", .column = "problem"}),
               base::UserError);
}

}  // namespace recipe_forms_test
}  // namespace hone::data
