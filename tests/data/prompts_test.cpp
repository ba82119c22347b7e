#include "data/forms/prompts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace hone::data {
namespace prompts_test {

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
  EXPECT_NE(message_of("[1]").find("expected one JSON object on the line"), std::string::npos);
  EXPECT_NE(message_of("\n").find("expected at least one row"), std::string::npos);
  EXPECT_NE(message_of("{\"prompt\": \"a\"}\n{oops}").find("_test.jsonl:2:2]"), std::string::npos);
}

// ---- rows of GRPO

// The tiny tokenizer: BOS <|bos|>, a ChatML template that knows tools and enable_thinking, 384 tokens.
const text::Tokenizer& tiny() {
  static const text::Tokenizer tokenizer = text::Tokenizer::from_folder(HONE_FIXTURES "/text/tiny");
  return tokenizer;
}

class PromptRows : public testing::Test {
 protected:
  void SetUp() override { base::fs::create_directories(folder_); }
  void TearDown() override { base::fs::remove_all(folder_); }

  std::vector<PromptRow> read(const std::string& text) {
    std::ofstream(folder_ / "train.jsonl") << text;
    return read_prompt_rows(folder_);
  }
  std::vector<TokenizedPrompt> tokenize(const std::string& text, const base::Json& kwargs = {}) {
    return tokenize_prompts(read(text), tiny(), &template_, kwargs, vocab_size_);
  }
  std::string message_of(const std::string& text) {
    try {
      tokenize(text);
    } catch (const base::UserError& error) {
      return error.what();
    }
    return "no error";
  }
  void expect_error(const std::string& text, const std::vector<std::string>& parts) {
    const std::string message = message_of(text);
    for (const std::string& part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << part << "\nin " << message;
  }

  base::fs::path folder_ = base::fs::path(testing::TempDir()) / "hone_prompt_rows_test";
  text::ChatTemplate template_{tiny().chat_template().value(), tiny().special(), "tiny"};
  std::int64_t vocab_size_ = 384;
};

TEST_F(PromptRows, KeepEveryOtherColumnAndFillInWhatARowLacks) {
  const auto rows = read(R"({"prompt": "a", "answer": "1", "completion": "x", "completion_ids": [1]}

{"level": 3, "prompt": "b"})");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].prompt, "a");
  EXPECT_EQ(rows[0].columns.dump(), R"({"answer":"1","level":null})");
  EXPECT_EQ(rows[1].columns.dump(), R"({"answer":null,"level":3})") << "in the same order";
  EXPECT_EQ(rows[0].not_for_rewards.dump(), R"({"completion":"x","completion_ids":[1]})");
  EXPECT_EQ(rows[1].not_for_rewards.dump(), R"({"completion":null,"completion_ids":null})");
  EXPECT_NE(rows[1].where.find("train.jsonl:3"), std::string::npos);
}

TEST_F(PromptRows, AFileIsItself) {
  std::ofstream(folder_ / "test.jsonl") << R"({"prompt": "t"})";
  EXPECT_EQ(read_prompt_rows(folder_ / "test.jsonl").at(0).prompt, "t");
  EXPECT_THROW(read_prompt_rows(folder_), base::UserError);
}

// The ids are those of TRL 1.16's GRPOTrainer._tokenize_prompts with this tokenizer.
TEST_F(PromptRows, AreTokenizedAsTrlDoes) {
  const auto texts = tokenize("{\"prompt\": \"What is 2 + 3?\"}\n{\"prompt\": \"a\"}");
  EXPECT_EQ(texts[0].ids, (std::vector<std::int32_t>{3, 322, 287, 265, 224, 21, 224, 14, 303, 34}));
  EXPECT_EQ(texts[1].ids, (std::vector<std::int32_t>{3, 68})) << "with BOS";
  EXPECT_EQ(texts[0].text, "What is 2 + 3?");

  const auto chats = tokenize(R"({"prompt": [{"role": "user", "content": "hi"}]}
{"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  EXPECT_EQ(chats[0].ids,
            (std::vector<std::int32_t>{1, 276, 261, 202, 75, 76, 2, 202, 1, 286, 274, 284, 202}));
  EXPECT_EQ(chats[0].text, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(chats[1].ids, (std::vector<std::int32_t>{1,   276, 261, 202, 68,  2, 202, 1,   286, 274,
                                                     284, 202, 69,  2,   202, 1, 286, 274, 284, 202}))
      << "an assistant's turn is closed and a new one begins";
}

TEST_F(PromptRows, GiveTheTemplateItsColumnsAndTheOptionsKwargs) {
  const std::string thinks = R"("prompt": [{"role": "assistant", "content": "b", "reasoning_content": "c"}])";
  const auto text_of = [this](const std::string& row, const base::Json& kwargs) {
    return tokenize(row, kwargs).at(0).text;
  };
  EXPECT_NE(text_of("{" + thinks + "}", {}).find("<think>"), std::string::npos);
  const base::Json off = {{"enable_thinking", false}};
  EXPECT_EQ(text_of("{" + thinks + "}", off).find("<think>"), std::string::npos);
  const std::string on = R"({"chat_template_kwargs": {"enable_thinking": true}, )" + thinks + "}";
  EXPECT_NE(text_of(on, off).find("<think>"), std::string::npos) << "the row's own wins";

  const std::string user = R"("prompt": [{"role": "user", "content": "a"}])";
  EXPECT_EQ(text_of(R"({"tools": "[{\"name\": \"f\"}]", )" + user + "}", {}).find("<|im_start|>tools\n[{"),
            0U);
  EXPECT_EQ(text_of(R"({"tools": [], )" + user + "}", {}).find("tools"), std::string::npos);
}

TEST_F(PromptRows, SayWhichColumnsAreThereAndHowToMakePrompts) {
  const std::string gsm8k = R"({"question": "Natalia sold clips", "answer": "#### 72"})";
  expect_error(
      gsm8k, {"train.jsonl:1] expected a column 'prompt'", "the columns question, answer.",
              "{'prompt': [{'role': 'user', 'content': r.pop('question')}], **r}", "train.jsonl > prompts"});
  expect_error(R"({"messages": [], "id": 1})", {"the columns messages, id.", "r.pop('messages')[:-1]"});
  expect_error(R"({"promt": "a"})", {"Did you mean 'promt'?", "rename the column that holds the prompt"});
  expect_error("{}", {"no columns"});
}

TEST_F(PromptRows, BadRowsAreNamed) {
  expect_error(R"({"prompt": null})", {"train.jsonl:1 prompt] expected a string, or a list"});
  expect_error("{\"prompt\": \"a\"}\n{\"prompt\": [{\"role\": \"user\", \"content\": \"b\"}]}",
               {"train.jsonl:2] expected a prompt like the first one (", "train.jsonl:1): text",
                "a list of messages"});
  expect_error(R"({"prompt": []})", {"column 'prompt' to be a list of at least one message"});
  expect_error(R"({"prompt": [{"content": "a"}]})", {"a 'role' in prompt[0]"});
  expect_error(R"({"prompt": [{"role": "user", "content": "a"}], "chat_template_kwargs": 1})",
               {"chat_template_kwargs", "an object, or null"});
  expect_error(R"({"prompt": [{"role": "judge", "content": "a"}]})",
               {"train.jsonl:1, ", "Unknown role: judge"});
  expect_error("PAR1", {"a whole Parquet file"});
  vocab_size_ = 300;
  expect_error("{\"prompt\": \"What is 2 + 3?\"}",
               {"train.jsonl:1] expected token ids below 300", "DATA-10"});
}

TEST_F(PromptRows, MessagesNeedAChatTemplate) {
  const auto rows = read(R"({"prompt": [{"role": "user", "content": "a"}]})");
  EXPECT_THROW(tokenize_prompts(rows, tiny(), nullptr, {}), base::UserError);
  EXPECT_NO_THROW(tokenize_prompts(read(R"({"prompt": "a"})"), tiny(), nullptr, {}));
}

// A template may render nothing; text has at least the BOS, where the tokenizer adds one.
TEST_F(PromptRows, APromptWithoutTokensIsAnError) {
  template_ = {"{{ '' }}", tiny().special(), "empty"};
  expect_error(R"({"prompt": [{"role": "user", "content": "a"}]})",
               {"train.jsonl:1 prompt] expected at least one token", "an empty prompt"});
}

}  // namespace prompts_test
}  // namespace hone::data
