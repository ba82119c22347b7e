#include "data/forms/rows.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"

namespace hone::data {
namespace rows_test {

Rows parse(std::string_view text) {
  return parse_rows(text, "d.jsonl", "text");
}

std::string message_of(std::string_view text) {
  try {
    parse(text);
  } catch (const base::UserError& error) {
    return error.what();
  }
  return "no error";
}

// `message` holds every one of `parts`.
void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << "\nin " << message;
}

TEST(Rows, Text) {
  const Rows rows = parse("{\"text\": \"a\"}\n\n  \r\n{\"text\": \"\", \"other\": 1}\n");
  EXPECT_EQ(rows.form, RowForm::kText);
  EXPECT_FALSE(rows.conversational);
  ASSERT_EQ(rows.rows.size(), 2U);
  EXPECT_EQ(rows.lines, (std::vector<int>{1, 4}));
  EXPECT_EQ(rows.where(1), "d.jsonl:4");
}

TEST(Rows, ByteOrderMarkCrLfAndNoLastNewline) {
  const Rows rows = parse("\xEF\xBB\xBF{\"text\": \"a\"}\r\n{\"text\": \"b\"}");
  ASSERT_EQ(rows.rows.size(), 2U);
  EXPECT_EQ(rows.rows[1]["text"], "b");
}

TEST(Rows, TheTextColumnHasAName) {
  const Rows rows = parse_rows("{\"body\": \"a\"}", "d.jsonl", "body");
  EXPECT_EQ(rows.form, RowForm::kText);
  EXPECT_EQ(rows.text_field, "body");
}

TEST(Rows, PromptAndCompletion) {
  EXPECT_FALSE(parse(R"({"prompt": "a", "completion": "b", "text": "c"})").conversational);
  EXPECT_TRUE(
      parse(
          R"({"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]})")
          .conversational);
}

TEST(Rows, Messages) {
  const Rows rows =
      parse(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": []}],)"
            R"( "tools": "[{\"name\": \"f\"}]", "chat_template_kwargs": {"x": 1}})");
  EXPECT_EQ(rows.form, RowForm::kMessages);
  EXPECT_TRUE(rows.conversational);
  EXPECT_EQ(rows.rows[0]["tools"][0]["name"], "f");
}

TEST(Rows, ConversationsBecomeMessages) {
  const Rows rows = parse(R"({"id": 7, "conversations": [{"from": "gpt", "value": "a", "weight": 1}]})");
  EXPECT_EQ(rows.form, RowForm::kMessages);
  EXPECT_EQ(base::dump_json(rows.rows[0]["messages"]), R"([{"weight":1,"role":"gpt","content":"a"}])");
  EXPECT_FALSE(rows.rows[0].contains("conversations"));
  EXPECT_EQ(parse(R"({"conversations": [{"role": "user", "content": "a"}]})").form, RowForm::kMessages);
}

TEST(Rows, AFileAndAFoldersTrainFile) {
  const auto folder = base::fs::path(testing::TempDir()) / "hone_rows_test";
  base::fs::create_directories(folder);
  std::ofstream(folder / "train.jsonl") << "{\"text\": \"a\"}\n";
  EXPECT_EQ(read_rows(folder, "text").path, folder / "train.jsonl");
  EXPECT_EQ(read_rows(folder / "train.jsonl", "text").rows.size(), 1U);
  EXPECT_THROW(read_rows(folder / "missing.jsonl", "text"), base::UserError);
  base::fs::remove_all(folder);
}

// ---- bad input

TEST(BadRows, ALineThatDoesNotParse) {
  expect_parts(message_of("{\"text\": \"a\"}\n{\"text\": 'b'}\n"), {"[d.jsonl:2:10]", "single quotes"});
}

TEST(BadRows, ALineCutShort) {
  expect_parts(message_of("{\"text\": \"a\"}\n{\"text\": \"b"), {"[d.jsonl:2:"});
}

TEST(BadRows, InvalidUtf8) {
  expect_parts(message_of("{\"text\": \"a\xFF\"}"), {"[d.jsonl:1:", "UTF-8"});
}

TEST(BadRows, NotAnObject) {
  expect_parts(message_of("[{\"text\": \"a\"}]"),
               {"[d.jsonl:1]", "expected one JSON object on the line", "found:  a list", "not JSON Lines"});
  expect_parts(message_of("{\"text\": \"a\"}\n3"), {"[d.jsonl:2]", "found:  a number"});
}

TEST(BadRows, Empty) {
  expect_parts(message_of(""), {"[d.jsonl]", "expected at least one row", "an empty file"});
  expect_parts(message_of("\n \n"), {"only blank lines"});
}

TEST(BadRows, AbsentColumn) {
  expect_parts(
      message_of(R"({"texts": "a", "id": 1})"),
      {"[d.jsonl:1]", "a column 'text' (dataset_text_field), 'messages', or 'prompt' and 'completion'",
       "columns: texts, id.", "Did you mean 'texts'?"});
  expect_parts(message_of(R"({"prompt": "a", "response": "b"})"),
               {"a column 'completion' for the other half", "columns: prompt, response."});
  expect_parts(message_of(R"({"completion": "a"})"), {"a column 'prompt' for the other half"});
  expect_parts(message_of("{}"), {"columns: none"});
}

TEST(BadRows, AbsentInALaterRow) {
  expect_parts(message_of("{\"text\": \"a\"}\n{\"txt\": \"b\"}"), {"[d.jsonl:2]", "columns: txt."});
}

TEST(BadRows, MixedForms) {
  expect_parts(message_of("{\"text\": \"a\"}\n{\"prompt\": \"a\", \"completion\": \"b\"}"),
               {"[d.jsonl:2]", "a row like the first one (d.jsonl:1): text (column 'text')",
                "prompt and completion, as strings", "the same form"});
  expect_parts(message_of("{\"prompt\": \"a\", \"completion\": \"b\"}\n"
                          R"({"prompt": [{"role": "user", "content": "a"}], "completion": "b"})"),
               {"[d.jsonl:2]", "prompt and completion, as messages"});
  expect_parts(message_of(R"({"prompt": "a", "completion": [{"role": "assistant", "content": "b"}]})"),
               {"[d.jsonl:1]", "column 'completion' to be a string", "a list"});
}

TEST(BadRows, WrongTypes) {
  expect_parts(message_of(R"({"text": 3})"),
               {"[d.jsonl:1]", "column 'text' to be a string", "found:  a number"});
  expect_parts(message_of(R"({"text": null})"), {"column 'text' to be a string", "found:  null"});
  expect_parts(message_of(R"({"prompt": true, "completion": "b"})"),
               {"column 'prompt' to be a string", "a boolean"});
  expect_parts(message_of(R"({"messages": "hello"})"),
               {"column 'messages' to be a list of at least one message"});
  expect_parts(message_of(R"({"messages": []})"), {"an empty list"});
  expect_parts(message_of(R"({"conversations": "x"})"), {"columns: conversations."});
  expect_parts(message_of(R"({"messages": [{"role": "user", "content": "a"}], "tools": {}})"),
               {"column 'tools' to be a list of tools, or null", "an object"});
  expect_parts(message_of(R"({"messages": [{"role": "user", "content": "a"}], "tools": "[oops"})"),
               {"d.jsonl:1 column 'tools'"});
  expect_parts(message_of(R"({"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": 1})"),
               {"column 'chat_template_kwargs' to be an object, or null", "a number"});
}

TEST(BadRows, MessagesWithoutRoleOrContent) {
  expect_parts(message_of(R"({"messages": [{"role": "user", "content": "a"}, {"content": "b"}]})"),
               {"[d.jsonl:1]", "a 'role' in messages[1]", "keys: content"});
  expect_parts(message_of(R"({"messages": [{"role": "user"}]})"),
               {"a 'content' (or tool_calls) in messages[0]", "keys: role"});
  expect_parts(message_of(R"({"messages": [{"from": "user", "value": "a"}]})"),
               {"a 'role' in messages[0]", "belong in a column named 'conversations'"});
  expect_parts(message_of(R"({"messages": ["a"]})"),
               {"column 'messages[0]' to be an object with 'role' and 'content'"});
  expect_parts(message_of(R"({"messages": [{"role": 1, "content": "a"}]})"),
               {"'messages[0].role' to be a string"});
  expect_parts(message_of(R"({"messages": [{"role": "user", "content": 5}]})"),
               {"'messages[0].content' to be a string, a list or null", "a number"});
  expect_parts(message_of(R"({"prompt": [{"role": "user", "content": "a"}], "completion": []})"),
               {"column 'completion' to be a list of at least one message"});
}

}  // namespace rows_test
}  // namespace hone::data
