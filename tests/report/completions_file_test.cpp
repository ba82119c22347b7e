#include "report/completions_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "report/rollouts.h"
#include "train/saves/run_folder.h"

namespace hone::report {
namespace completions_file_test {

std::vector<std::string> lines_of(const base::fs::path& path) {
  std::istringstream text(base::read_text(path));
  std::vector<std::string> out;
  for (std::string line; std::getline(text, line);) out.push_back(line);
  return out;
}

TEST(CompletionsFile, HoldsEveryCompletionInTrlsColumns) {
  const TestFolder folder("completions");
  CompletionsFiles(folder.path(), 0).write(rollouts(12));
  const auto lines = lines_of(folder.path() / "completions" / "completions_00012.jsonl");
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0], R"({"step":12,"prompt":"2 + 3?","completion":"5","accuracy_reward":1.0,"format":null,)"
                      R"("advantage":0.7071,"truncated":false})");
  const base::Json second = base::Json::parse(lines[1]);
  EXPECT_EQ(second["completion"], "6\n\x1b[2J") << "as it is: a file is no terminal";
  EXPECT_EQ(second["truncated"], true);
}

TEST(CompletionsFile, ExtraColumnsStandBeforeTheAdvantageAndNothingOfOneNameIsLost) {
  const TestFolder folder("completions_extra");
  train::RolloutFacts facts = rollouts(1);
  facts.reward_names = {"f", "f"};
  facts.completions.resize(1);
  facts.completions[0].rewards = {0.25, 0.5};
  facts.completions[0].extra = {{"parsed", "5"}, {"prompt", 3}};
  CompletionsFiles(folder.path(), 0).write(facts);
  EXPECT_EQ(lines_of(folder.path() / "completions" / "completions_00001.jsonl").at(0),
            R"({"step":1,"prompt":"2 + 3?","completion":"5","f":0.25,"f_2":0.5,"parsed":"5","prompt_2":3,)"
            R"("advantage":0.7071,"truncated":false})");
}

TEST(CompletionsFile, ADialogueIsItsMessagesAsInTrl) {
  const TestFolder folder("completions_dialogue");
  train::RolloutFacts facts = dialogues(1);
  facts.completions[0].extra = {{"calls", 7}};
  CompletionsFiles(folder.path(), 0).write(facts);
  const base::Json line =
      base::Json::parse(lines_of(folder.path() / "completions" / "completions_00001.jsonl").at(0));
  EXPECT_EQ(line["completion"], facts.completions[0].messages);
  EXPECT_EQ(line["calls"],
            base::Json({{{"turn", 0}, {"name", "add"}, {"failed", false}},
                        {{"turn", 0}, {"name", "look"}, {"failed", true}},
                        {{"turn", 1}, {"name", "add"}, {"failed", false}, {"unread", "too long"}}}));
  EXPECT_EQ(line["spans"], facts.completions[0].spans);
  EXPECT_EQ(line["calls_2"], 7) << "a column of log_extra with that name is not lost";
  EXPECT_EQ(line["advantage"], 0.7071);
}

TEST(CompletionsFile, AResumedRunReplacesWhatItRepeatsAndNothingElse) {
  const TestFolder folder("completions_resumed");
  CompletionsFiles first(folder.path(), 0);
  for (const std::int64_t step : {1, 2, 3, 123456}) first.write(rollouts(step));
  const base::fs::path inside = folder.path() / "completions";
  std::ofstream(inside / "completions_notes.jsonl") << "mine\n";
  CompletionsFiles resumed(folder.path(), 2);
  EXPECT_TRUE(base::fs::exists(inside / train::completions_name(1)));
  EXPECT_TRUE(base::fs::exists(inside / train::completions_name(2)));
  EXPECT_FALSE(base::fs::exists(inside / train::completions_name(3)));
  EXPECT_FALSE(base::fs::exists(inside / train::completions_name(123456)));
  EXPECT_TRUE(base::fs::exists(inside / "completions_notes.jsonl"));
  train::RolloutFacts again = rollouts(2);
  again.completions.resize(1);
  resumed.write(again);
  EXPECT_EQ(lines_of(inside / train::completions_name(2)).size(), 1U);
}

TEST(CompletionsFile, BatchesOfOneStepStandAfterAnother) {
  const TestFolder folder("completions_accumulated");
  CompletionsFiles files(folder.path(), 0);
  for (const std::int64_t step : {1, 1, 2}) files.write(rollouts(step));
  EXPECT_EQ(lines_of(folder.path() / "completions" / train::completions_name(1)).size(), 8U);
  EXPECT_EQ(lines_of(folder.path() / "completions" / train::completions_name(2)).size(), 4U);
}

TEST(CompletionsFile, AFolderThatCannotBeMadeIsSaid) {
  const TestFolder folder("completions_blocked");
  std::ofstream(folder.path() / "completions") << "a file";
  try {
    CompletionsFiles(folder.path(), 0).write(rollouts(1));
    FAIL() << "completions went nowhere";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("completions]"), std::string::npos) << error.what();
  }
}

}  // namespace completions_file_test
}  // namespace hone::report
