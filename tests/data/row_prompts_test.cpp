// Prompts of rows of every form, with the columns that rewards compare with.
#include "data/forms/row_prompts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"

namespace hone::data {
namespace row_prompts_test {

using base::Json;

class RowPrompts : public testing::Test {
 protected:
  void TearDown() override { base::fs::remove(path_); }
  std::vector<PromptRow> read(const std::string& text, std::int64_t most = 0) const {
    std::ofstream(path_, std::ios::trunc) << text;
    return read_row_prompts(RowSource(path_), "text", most);
  }
  base::fs::path path_ =
      base::fs::temp_directory_path() / ("hone_row_prompts_" + std::to_string(getpid()) + ".jsonl");
};

TEST_F(RowPrompts, OfPromptsAndCompletions) {
  const auto rows = read(R"({"prompt": "a", "completion": " b", "answer": 5}
{"prompt": "c", "completion": " d", "answer": 6}
)");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].prompt, "a");
  EXPECT_EQ(rows[0].columns, Json::parse(R"({"completion": " b", "answer": 5})"));
  EXPECT_EQ(rows[1].where, path_.string() + ":2");
  EXPECT_EQ(read(R"({"prompt": "a", "completion": " b"}
{"prompt": "c", "completion": " d"}
)",
                 1)
                .size(),
            1U);
}

TEST_F(RowPrompts, OfConversations) {
  const auto rows = read(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}], "id": 1}
{"messages": [{"role": "user", "content": "a"}]}
)");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].prompt.size(), 3U);
  EXPECT_EQ(rows[0].prompt.back()["content"], "c");
  EXPECT_EQ(rows[0].columns, Json::parse(R"({"id": 1, "completion": "d"})"));
  EXPECT_EQ(rows[1].prompt.size(), 1U) << "no answer: all of it is the prompt";
  EXPECT_FALSE(rows[1].columns.contains("completion"));
  const auto share =
      read(R"({"conversations": [{"from": "user", "value": "a"}, {"from": "assistant", "value": "b"}]})");
  EXPECT_EQ(share[0].prompt, Json::parse(R"([{"role": "user", "content": "a"}])"));
}

TEST_F(RowPrompts, OfPairs) {
  const auto plain = read(R"({"prompt": "a", "chosen": " b", "rejected": " c"})");
  EXPECT_EQ(plain[0].prompt, "a");
  EXPECT_EQ(plain[0].columns, Json::parse(R"({"chosen": " b", "rejected": " c"})"));
  const auto implicit = read(R"({"chosen": "2 + 3 = 5", "rejected": "2 + 3 = 6"})");
  EXPECT_EQ(implicit[0].prompt, "2 + 3 =");
  EXPECT_EQ(implicit[0].columns, Json::parse(R"({"chosen": " 5", "rejected": " 6"})"));
  const auto chat = read(
      R"({"prompt": "a", "chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "rejected": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "c"}]})");
  EXPECT_EQ(chat[0].prompt, Json::parse(R"([{"role": "user", "content": "a"}])"))
      << "a text that repeats the first turn";
  EXPECT_EQ(chat[0].columns, Json::parse(R"({"chosen": "b", "rejected": "c"})"));
}

TEST_F(RowPrompts, OfKto) {
  const auto rows = read(R"({"prompt": "a", "completion": " b", "label": true})");
  EXPECT_EQ(rows[0].prompt, "a");
  EXPECT_EQ(rows[0].columns, Json::parse(R"({"completion": " b", "label": true})"));
}

TEST_F(RowPrompts, ATextHasNoPrompt) {
  try {
    read("{\"text\": \"a b\"}\n");
    FAIL();
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("rows with a prompt"), std::string::npos) << error.what();
  }
  EXPECT_THROW(read(R"({"chosen": "a", "rejected": ["b"]})"), base::UserError);
}

TEST_F(RowPrompts, SaysWhetherRowsAreConversations) {
  const auto are = [&](const std::string& text) {
    std::ofstream(path_, std::ios::trunc) << text;
    return are_conversations(RowSource(path_), "text");
  };
  EXPECT_TRUE(are(R"({"messages": [{"role": "user", "content": "a"}]})"));
  EXPECT_FALSE(are(R"({"text": "a"})"));
  EXPECT_FALSE(are(R"({"prompt": "a", "completion": "b"})"));
  EXPECT_TRUE(are(R"({"chosen": [{"role": "user", "content": "a"}], "rejected": []})"));
}

}  // namespace row_prompts_test
}  // namespace hone::data
