// Rows of other forms: names of columns, Alpaca, ShareGPT, parts of text, templates, conversations.
#include "data/files/map_row.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/rng.h"

namespace hone::data {
namespace map_row_test {

using base::Json;
using base::RowFormat;
using base::RowMapping;

Json mapped(const std::string& row, const RowMapping& mapping, bool first = true) {
  return map_row(base::parse_json(row, "row"), mapping, "rows.jsonl:1", first);
}

void expect_fault(const std::string& row, const RowMapping& mapping, const std::vector<std::string>& says) {
  try {
    const Json out = mapped(row, mapping);
    FAIL() << out.dump();
  } catch (const base::UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("[rows.jsonl:1]"), std::string::npos) << text;
    for (const std::string& part : says) EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(MapRow, NothingAskedChangesNothing) {
  const std::string row = R"({"conversations": [{"from": "human", "value": "a"}], "x": 1})";
  EXPECT_TRUE(RowMapping().empty());
  EXPECT_EQ(mapped(row, {}), base::parse_json(row, "row"));
}

TEST(MapRow, ColumnsGetOtherNames) {
  const RowMapping mapping = {.columns = {{"question", "prompt"}, {"answer", "completion"}}};
  EXPECT_EQ(mapped(R"({"question": "q", "id": 3, "answer": "a"})", mapping).dump(),
            R"({"prompt":"q","id":3,"completion":"a"})");
  // Two may exchange names; a later row may lack one.
  EXPECT_EQ(mapped(R"({"a": 1, "b": 2})", {.columns = {{"a", "b"}, {"b", "a"}}}).dump(), R"({"b":1,"a":2})");
  EXPECT_EQ(mapped(R"({"question": "q"})", mapping, false).dump(), R"({"prompt":"q"})");
  expect_fault(R"({"qestion": "q", "answer": "a"})", mapping,
               {"the column 'question', which dataset_columns reads", "columns: qestion, answer"});
  expect_fault(R"({"question": "q", "answer": "a", "prompt": "p"})", mapping, {"no column 'prompt' yet"});
}

// github.com/tatsu-lab/stanford_alpaca, train.py, PROMPT_DICT.
TEST(MapRow, AlpacaHasItsPublishedText) {
  const RowMapping mapping = {.format = RowFormat::kAlpaca};
  EXPECT_EQ(
      mapped(R"({"instruction": "Add.", "input": "2 3", "output": "5", "text": "x"})", mapping),
      Json(
          {{"text", "x"},
           {"prompt",
            "Below is an instruction that describes a task, paired with an input that provides further context. "
            "Write a response that appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### "
            "Input:\n2 3\n\n### Response:"},
           {"completion", "5"}}));
  for (const char* input : {R"("input": "", )", R"("input": null, )", ""}) {
    EXPECT_EQ(
        mapped("{" + std::string(input) + R"("instruction": "Hi.", "output": "Hello."})", mapping)["prompt"],
        "Below is an instruction that describes a task. Write a response that appropriately completes the "
        "request.\n\n### Instruction:\nHi.\n\n### Response:");
  }
  expect_fault(R"({"instruction": "Hi."})", mapping, {"the column 'output', which row_format: alpaca reads"});
  expect_fault(R"({"instruction": 3, "output": ""})", mapping,
               {"column 'instruction' to be a string", "a number"});
  expect_fault(R"({"instruction": "b", "output": "c", "history": [["q", "a"]]})", mapping,
               {"no 'history'", "make_conversation: true"});
}

TEST(MapRow, AlpacaAsAConversation) {
  const RowMapping mapping = {
      .format = RowFormat::kAlpaca, .conversation = true, .system_prompt = "Be brief."};
  EXPECT_EQ(
      mapped(R"({"instruction": "Add.", "input": "2 3", "output": "5", "history": [["q", "a"]]})", mapping),
      base::parse_json(
          R"({"prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "q"},
                {"role": "assistant", "content": "a"}, {"role": "user", "content": "Add.\n2 3"}],
                "completion": [{"role": "assistant", "content": "5"}]})",
          "expected"));
  EXPECT_EQ(
      mapped(R"({"instruction": "Hi.", "output": "5", "system": "Own."})", mapping)["prompt"][0]["content"],
      "Own.");
}

TEST(MapRow, ShareGptGetsRolesAndContents) {
  const RowMapping mapping = {.format = RowFormat::kShareGpt};
  EXPECT_EQ(
      mapped(R"({"id": 1, "conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "q"},
                    {"from": "gpt", "value": "a", "weight": 1}, {"from": "tool", "value": "t"}]})",
             mapping),
      base::parse_json(
          R"({"id": 1, "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"},
                {"role": "assistant", "content": "a", "weight": 1}, {"role": "tool", "content": "t"}]})",
          "expected"));
  EXPECT_EQ(
      mapped(
          R"({"system": "s", "prompt": [{"from": "user", "value": "q"}], "chosen": [{"from": "gpt", "value": "a"}],
                    "rejected": [{"role": "assistant", "content": "b"}]})",
          mapping),
      base::parse_json(R"({"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}],
                "chosen": [{"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "b"}]})",
                       "expected"));
  EXPECT_EQ(
      mapped(R"({"prompt": [{"from": "human", "value": "q"}], "chosen": {"from": "gpt", "value": "a"}})",
             mapping)["chosen"],
      base::parse_json(R"([{"role": "assistant", "content": "a"}])", "expected"));
  expect_fault(R"({"conversations": [{"from": "narrator", "value": "s"}]})", mapping,
               {"'narrator'", "human, user, gpt"});
  expect_fault(R"({"conversations": [{"from": 3, "value": "s"}]})", mapping,
               {"conversations[0].from", "a number"});
  expect_fault(R"({"conversations": ["a"]})", mapping,
               {"conversations[0]", "an object with 'from' and 'value'"});
  expect_fault(R"({"text": "a"})", mapping, {"the column 'conversations', which row_format: sharegpt reads"});
}

TEST(MapRow, PartsOfTextBecomeOneText) {
  const RowMapping mapping = {.format = RowFormat::kOpenAi};
  EXPECT_EQ(mapped(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"},
                    {"type": "text", "text": "b", "image_url": null}]}, {"role": "assistant", "content": "c"},
                    {"role": "assistant", "content": null}]})",
                   mapping)["messages"],
            base::parse_json(R"([{"role": "user", "content": "ab"}, {"role": "assistant", "content": "c"},
                {"role": "assistant", "content": null}])",
                             "expected"));
  expect_fault(
      R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]})",
      mapping, {"messages[0].content", "image_url", "text only"});
  expect_fault(R"({"text": "a"})", mapping, {"the column 'messages'"});
}

TEST(MapRow, TemplatesTakeColumns) {
  EXPECT_EQ(mapped(R"({"q": "2 + 3?", "n": 4, "x": null, "completion": "5"})",
                   {.prompt_template = "{{{q}}} {n}{x} {open"})["prompt"],
            "{2 + 3?} 4 {open");
  EXPECT_EQ(mapped(R"({"q": "a", "prompt": "p", "completion": "c"})",
                   {.text_template = "{q}: {completion}", .text_field = "body"})
                .dump(),
            R"({"body":"a: c"})");
  expect_fault(R"({"quest": "a"})", {.prompt_template = "{question}"},
               {"the column 'question', which prompt_template reads", "quest"});
  expect_fault(R"({"q": [1]})", {.prompt_template = "{q}"}, {"a text or a number", "a list"});
}

TEST(MapRow, TextsBecomeTurns) {
  const RowMapping mapping = {.conversation = true};
  EXPECT_EQ(mapped(R"({"prompt": "q", "chosen": "a", "rejected": "b"})", mapping),
            base::parse_json(R"({"prompt": [{"role": "user", "content": "q"}],
                "chosen": [{"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "b"}]})",
                             "expected"));
  const std::string messages = R"({"messages": [{"role": "user", "content": "q"}]})";
  EXPECT_EQ(mapped(messages, mapping), base::parse_json(messages, "row"));
  EXPECT_EQ(mapped(messages, {.system_prompt = "s"})["messages"].size(), 2U);
  EXPECT_EQ(mapped(R"({"prompt": 3, "completion": "a"})", {.system_prompt = "s"})["prompt"], 3);
  expect_fault(R"({"text": "q"})", mapping, {"the column 'prompt', which make_conversation reads"});
}

// Any row, under any mapping: another row, or a UserError.
TEST(MapRow, FuzzedRows) {
  const std::vector<Json> values = {
      nullptr,
      true,
      -1,
      1.5,
      "",
      "a {b}",
      Json::array(),
      Json::object(),
      Json::array({1, nullptr}),
      Json::array({Json::array({"q", "a"})}),
      base::parse_json(R"([{"from": "human", "value": "q"}])", "v"),
      base::parse_json(R"([{"role": "user", "content": [{"type": "text", "text": "x"}]}])", "v"),
      base::parse_json(R"([{"role": 3, "content": [7]}, {}, "m"])", "v")};
  const std::vector<std::string> columns = {"prompt",   "completion",    "chosen",      "rejected",
                                            "messages", "conversations", "instruction", "input",
                                            "output",   "history",       "system",      "a"};
  int made = 0, refused = 0;
  for (std::uint64_t round = 0; round < 20'000; ++round) {
    const base::Stream random(7, base::Purpose::kDemoData, round);
    std::uint64_t at = 0;
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random.bits(at++) % n); };
    Json row = Json::object();
    for (const std::string& column : columns) {
      if (below(2) == 0) row[column] = values[below(values.size())];
    }
    RowMapping mapping;
    mapping.format = static_cast<RowFormat>(below(4));
    mapping.conversation = below(2) == 0;
    if (below(3) == 0) mapping.system_prompt = "s";
    if (below(4) == 0) mapping.prompt_template = "{a} {instruction}";
    if (below(4) == 0) mapping.columns = {{"a", "prompt"}, {"prompt", "b"}};
    try {
      EXPECT_TRUE(map_row(row, mapping, "rows.jsonl:1", below(2) == 0).is_object());
      ++made;
    } catch (const base::UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(made, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace map_row_test
}  // namespace hone::data
