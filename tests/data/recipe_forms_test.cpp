// What recipes ask of rows beside TRL 1.16: prompts cut to max_prompt_length, conversations made of a column.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "data/files/row_source.h"
#include "data/forms/cpo_pairs.h"
#include "data/forms/preferences.h"
#include "data/forms/prompts.h"
#include "data/forms/system_turn.h"
#include "data/forms/unpaired.h"
#include "data/pair_lists.h"

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
  const ListedPair whole = listed(tokenize_preferences(rows, tokenizer(), nullptr, {}).records[0]);
  const ListedPair cut =
      listed(tokenize_preferences(rows, tokenizer(), nullptr, {.max_prompt_length = 3}).records[0]);
  ASSERT_GT(whole.first.context.size(), 3U);
  EXPECT_EQ(cut.first.context, Ids(whole.first.context.end() - 3, whole.first.context.end()));
  EXPECT_EQ(cut.second.context, cut.first.context);
  EXPECT_EQ(cut.first.scored, whole.first.scored);
  EXPECT_EQ(cut.second.scored, whole.second.scored);
  const ListedPair wide =
      listed(tokenize_preferences(rows, tokenizer(), nullptr, {.max_prompt_length = 1000}).records[0]);
  EXPECT_EQ(wide.first.context, whole.first.context);
}

TEST_F(RecipeForms, APromptIsCutBeforeThePair) {
  // Without the cut the prompt would fill max_length, and the pair be dropped.
  const std::string text = R"({"prompt": "a long prompt of words", "chosen": " yes", "rejected": " no"})";
  const PreferenceRows rows = parse_preference_rows(text, "pairs.jsonl");
  const PreferenceData data =
      tokenize_preferences(rows, tokenizer(), nullptr, {.max_length = 6, .max_prompt_length = 2});
  ASSERT_EQ(data.records.size(), 1U);
  EXPECT_EQ(listed(data.records[0]).first.context.size(), 2U);
  EXPECT_LE(listed(data.records[0]).first.tokens(), 6);
}

TEST_F(RecipeForms, AMarkedRowsPromptKeepsItsLastTokens) {
  const UnpairedRows rows =
      read_unpaired_rows(write(R"({"prompt": "a long prompt", "completion": " yes", "label": true}
{"prompt": "another one", "completion": " no", "label": false}
)"));
  const UnpairedData whole = tokenize_unpaired(rows, tokenizer(), nullptr, {.batch_size = 2});
  const UnpairedData cut =
      tokenize_unpaired(rows, tokenizer(), nullptr, {.max_prompt_length = 2, .batch_size = 2});
  const Ids context = listed(whole.records[0]).first.context;
  EXPECT_EQ(listed(cut.records[0]).first.context, Ids(context.end() - 2, context.end()));
  EXPECT_EQ(listed(cut.records[0]).first.scored, listed(whole.records[0]).first.scored);
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

TEST_F(RecipeForms, AColumnStandsInForAPromptThatIsNotThere) {
  const PromptForm form = {.column_without_prompt = "problem", .system_without_prompt = "Think."};
  const auto rows = read_prompt_rows(write(R"({"problem": "2 + 3?", "solution": "5"})"), form);
  EXPECT_EQ(rows.at(0).prompt, Json::array({{{"role", "system"}, {"content", "Think."}},
                                            {{"role", "user"}, {"content", "2 + 3?"}}}));
  const auto brief = read_prompt_rows(
      write(R"({"problem": "2 + 3?"})"),
      {.system = "Be brief.", .column_without_prompt = "problem", .system_without_prompt = "Think."});
  EXPECT_EQ(brief.at(0).prompt[0]["content"], "Be brief.");
  // A row with a prompt is as it was.
  EXPECT_EQ(read_prompt_rows(write(R"({"prompt": "4?", "problem": "2 + 3?"})"), form).at(0).prompt, "4?");
  EXPECT_THROW(read_prompt_rows(write(R"({"question": "2 + 3?"})"), form), base::UserError);
}

// The last turn is the completion, where nothing else says what the prompt is.
TEST_F(RecipeForms, MessagesAreSplitWhereTheyAreThePrompt) {
  const std::string turns = R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])";
  const Json user = {{"role", "user"}, {"content", "a"}},
             assistant = {{"role", "assistant"}, {"content", "b"}};
  const auto row_of = [&](const std::string& columns, const PromptForm& form) {
    return read_prompt_rows(write("{" + columns + "}"), form).at(0);
  };
  const PromptRow split = row_of("\"messages\": " + turns, {.splits_messages = true});
  EXPECT_EQ(split.prompt, Json::array({user}));
  EXPECT_EQ(split.not_for_rewards["completion"], Json::array({assistant}));

  const PromptForm named = {.system = "", .column = "messages", .splits_messages = true};
  EXPECT_EQ(row_of(R"("messages": [{"role": "user", "content": "a"}])", named).prompt, Json::array({user}));
  const PromptRow whole = row_of("\"messages\": " + turns, named);
  EXPECT_EQ(whole.prompt, Json::array({user, assistant}));
  EXPECT_FALSE(whole.not_for_rewards.contains("completion"));

  const PromptForm problem = {
      .column_without_prompt = "problem", .system_without_prompt = "Think.", .splits_messages = true};
  const PromptRow stands_in = row_of("\"problem\": \"2 + 3?\", \"messages\": " + turns, problem);
  EXPECT_EQ(stands_in.prompt, Json::array({{{"role", "system"}, {"content", "Think."}},
                                           {{"role", "user"}, {"content", "2 + 3?"}}}));
  EXPECT_TRUE(stands_in.columns.contains("messages"));

  const PromptForm question = {.system = "", .column = "question", .splits_messages = true};
  const PromptRow other = row_of("\"question\": \"2 + 3?\", \"messages\": " + turns, question);
  EXPECT_EQ(other.prompt, Json::array({{{"role", "user"}, {"content", "2 + 3?"}}}));
  EXPECT_FALSE(other.not_for_rewards.contains("completion")) << "it would be that of another prompt";
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

// ---- CPO and ORPO: the prompt gives way first, then the completion (TRL's CPOTrainer.tokenize_row up to 0.29)

ListedPair cpo_pair(const PairOptions& options) {
  const PreferenceRows rows = parse_preference_rows(
      R"({"prompt": "a long prompt of words", "chosen": " yes, it is so", "rejected": " no"})",
      "pairs.jsonl");
  return listed(tokenize_cpo_pairs(rows, tokenizer(), nullptr, options).records[0]);
}

TEST_F(RecipeForms, ACpoPromptIsCutOnlyInALongPair) {
  const ListedPair whole = cpo_pair({});
  const Ids& prompt = whole.first.context;
  const std::int64_t longer = std::ssize(prompt) + std::ssize(whole.first.scored);
  ASSERT_GT(whole.first.scored.size(), whole.second.scored.size());
  EXPECT_EQ(cpo_pair({.max_length = longer, .max_prompt_length = 2}).first.context, prompt);
  const ListedPair cut = cpo_pair({.max_length = longer - 1, .max_prompt_length = 2});
  EXPECT_EQ(cut.first.context, Ids(prompt.end() - 2, prompt.end()));
  EXPECT_EQ(cut.second.context, cut.first.context);  // the longer of the two decides for both
  EXPECT_EQ(cut.first.scored, whole.first.scored);
}

TEST_F(RecipeForms, ACpoCompletionIsCutWhereItsPromptIsNotEnough) {
  const ListedPair whole = cpo_pair({});
  ASSERT_GE(whole.first.scored.size(), 4U);
  const ListedPair cut = cpo_pair({.max_length = 5, .max_prompt_length = 2});
  EXPECT_EQ(cut.first.context.size(), 2U);
  EXPECT_EQ(cut.first.scored, Ids(whole.first.scored.begin(), whole.first.scored.begin() + 3));
}

// ---- an empty system turn

Json with_turn(Json row) {
  insert_empty_system_turn(row);
  return row;
}

TEST_F(RecipeForms, AConversationBeginsWithASystemTurn) {
  const Json user = {{"role", "user"}, {"content", "q"}};
  const Json empty = {{"role", "system"}, {"content", ""}};
  const Json own = {{"role", "system"}, {"content", "own"}};
  const Json answer = {{"role", "assistant"}, {"content", "a"}};
  EXPECT_EQ(with_turn({{"messages", {user, answer}}}), (Json{{"messages", {empty, user, answer}}}));
  EXPECT_EQ(with_turn({{"messages", {own, user}}}), (Json{{"messages", {own, user}}}));
  EXPECT_EQ(
      with_turn({{"conversations", {{{"from", "human"}, {"value", "q"}}}}}),
      (Json{{"conversations", {{{"from", "system"}, {"value", ""}}, {{"from", "human"}, {"value", "q"}}}}}));
  // Once for a pair: in its prompt, or where its two sides begin with the prompt.
  const Json pair = {{"prompt", {user}}, {"chosen", {answer}}, {"rejected", {answer}}};
  EXPECT_EQ(with_turn(pair), (Json{{"prompt", {empty, user}}, {"chosen", {answer}}, {"rejected", {answer}}}));
  EXPECT_EQ(with_turn({{"prompt", "q"}, {"chosen", {user, answer}}, {"rejected", {user, answer}}}),
            (Json{{"prompt", "q"}, {"chosen", {empty, user, answer}}, {"rejected", {empty, user, answer}}}));
  const Json text = {{"prompt", "q"}, {"completion", "a"}};
  EXPECT_EQ(with_turn(text), text);
  EXPECT_EQ(with_turn({{"messages", Json::array()}}), (Json{{"messages", Json::array()}}));
}

TEST_F(RecipeForms, RowsGetTheSystemTurnWhereTheirFilesSaySo) {
  base::RowFiles files(write(R"({"messages": [{"role": "user", "content": "q"}]})"));
  const auto turns = [&files] {
    std::size_t out = 0;
    RowNames names;
    RowSource(files).for_each(names, [&out](const Json& row, int) { out = row.at("messages").size(); });
    return out;
  };
  EXPECT_EQ(turns(), 1U);
  files.empty_system_turn = true;
  EXPECT_EQ(turns(), 2U);
}

TEST_F(RecipeForms, TemplatesThatKnowSystemTurns) {
  EXPECT_TRUE(knows_system_turns("{% if message.role == 'system' %}"));
  EXPECT_TRUE(knows_system_turns("<|im_start|>{{ message.role }}"));
  EXPECT_FALSE(knows_system_turns("<|user|>{{ messages[0].content }}"));
}

}  // namespace recipe_forms_test
}  // namespace hone::data
