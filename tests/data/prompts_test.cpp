#include "data/prompts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace hone::data {
namespace {

class Prompts : public testing::Test {
 protected:
  void TearDown() override { base::fs::remove(path_); }

  std::vector<base::Json> read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_prompts(path_);
  }

  std::string message_of(const std::string& text) {
    try {
      read(text);
    } catch (const base::UserError& error) {
      return error.what();
    }
    return "no error";
  }

  base::fs::path path_ = base::fs::path(testing::TempDir()) / "hone_prompts_test.jsonl";
};

TEST_F(Prompts, AByteOrderMarkAndCrlfAreNoMistake) {
  const auto prompts = read("\xEF\xBB\xBF{\"prompt\": \"a\"}\r\n{\"prompt\": \"b\"}\r\n");
  EXPECT_EQ(prompts, (std::vector<base::Json>{"a", "b"}));
}

TEST_F(Prompts, StringsAndMessages) {
  const auto prompts =
      read("{\"prompt\": \"a\"}\n\n{\"prompt\": [{\"role\": \"user\", \"content\": \"b\"}]}");
  ASSERT_EQ(prompts.size(), 2U);
  EXPECT_EQ(prompts[0], "a");
  EXPECT_EQ(prompts[1][0]["content"], "b");
}

TEST_F(Prompts, BadRows) {
  EXPECT_NE(message_of("{\"text\": \"a\", \"id\": 1}").find("the columns text, id"), std::string::npos);
  EXPECT_NE(
      message_of("{\"prompt\": \"a\"}\n{\"prompt\": 3}").find(":2 prompt] expected a string, or a list"),
      std::string::npos);
  EXPECT_NE(message_of("[1]").find("a row that is no object"), std::string::npos);
  EXPECT_NE(message_of("\n").find("expected at least one prompt"), std::string::npos);
  EXPECT_NE(message_of("{\"prompt\": \"a\"}\n{oops}").find("_test.jsonl:2:2]"), std::string::npos);
}

}  // namespace
}  // namespace hone::data
