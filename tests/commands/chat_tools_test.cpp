// hone chat --tools: a turn's calls are read, run, shown, and written behind the turn as the template writes them.
#include "commands/chat_tools.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tools/pool_helpers.h"
#include "tools/small_templates.h"
#include "tools/turn_helpers.h"

namespace hone::commands {
namespace chat_tools_test {

using base::Json;
using Ids = std::vector<std::int32_t>;

constexpr std::string_view kTools = R"(
def add(a: int, b: int) -> int:
    """
    Adds two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


def look(where: str) -> str:
    """
    Looks.

    Args:
        where: A place.
    """
    raise KeyError(where)
)";

std::string hermes() {
  std::string out = tools::kHermesTemplate;
  for (const std::string mark : {"TURN_START", "TURN_END"}) out.erase(out.find(mark), mark.size());
  return out;
}

class ChatToolsTest : public testing::Test {
 protected:
  train::OpenedText open(const std::string& source) const {
    train::OpenedText out{.tokenizer = tools::bytes_tokenizer("<|im_end|>", source),
                          .chat_template = nullptr};
    out.chat_template = std::make_unique<text::ChatTemplate>(source, out.tokenizer.special(), "test");
    return out;
  }
  std::unique_ptr<tools::ToolPool> pool() const {
    return std::make_unique<tools::ToolPool>(file_.options("add,look"));
  }
  tools::ToolsFile file_{kTools};
};

TEST_F(ChatToolsTest, CallsAreShownRunAndWrittenBehindTheTurn) {
  const train::OpenedText text = open(hermes());
  const std::int32_t end = text.tokenizer.token_to_id("<|im_end|>").value();
  std::vector<std::int64_t> stops = {7};
  ChatTools chat(pool(), text, "a model", {}, stops);
  EXPECT_EQ(stops, (std::vector<std::int64_t>{7, end})) << "where a turn with calls ends";
  EXPECT_EQ(chat.schemas().size(), 2U);

  const Json user = {{"role", "user"}, {"content", "2 + 3?"}};
  Json messages = Json::array({user});
  const auto prompt_of = [&](bool header) {
    return text::tokenize_chat(
               text.tokenizer, chat.chat(),
               {.messages = messages, .tools = chat.schemas(), .add_generation_prompt = header})
        .ids;
  };
  const Ids prompt = prompt_of(true);
  const std::string said =
      "I add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 2, \"b\": 3}}\n</tool_call>\n"
      "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"where\": \"up\"}}\n</tool_call><|im_end|>";
  const Ids drawn = text.tokenizer.encode(said, false).ids;
  const tools::Turn turn = chat.read(prompt, drawn);
  ASSERT_EQ(turn.calls.size(), 2U);

  std::vector<std::string> shown;
  const ChatTools::Results results =
      chat.run(turn, drawn.back(), [&](const std::string& line) { shown.push_back(line); });
  EXPECT_EQ(shown, (std::vector<std::string>{"-> add {\"a\":2,\"b\":3}", "-> look {\"where\":\"up\"}",
                                             "<- add: 5", "<- look failed: {'error': \"'up'\"}"}));
  ASSERT_EQ(results.notes.size(), 1U);
  EXPECT_NE(results.notes[0].find("KeyError"), std::string::npos) << results.notes[0];

  // The ids so far are those of the whole conversation.
  for (const Json& message : results.messages) messages.push_back(message);
  Ids all = prompt;
  all.insert(all.end(), drawn.begin(), drawn.end());
  all.insert(all.end(), results.suffix.begin(), results.suffix.end());
  EXPECT_EQ(text.tokenizer.decode(all, false), text.tokenizer.decode(prompt_of(true), false));
  EXPECT_EQ(all, prompt_of(true));

  const Ids answer = text.tokenizer.encode("It is 5.<|im_end|>", false).ids;
  EXPECT_TRUE(chat.read(all, answer).calls.empty());

  // The next message is written behind what was drawn, though the answer's text would be tokenized otherwise.
  Ids drawn_answer = text.tokenizer.encode("It is ", false).ids;
  const Ids rest = text.tokenizer.encode("5.<|im_end|>", false).ids;
  drawn_answer.insert(drawn_answer.end(), rest.begin(), rest.end());
  messages.push_back({{"role", "assistant"}, {"content", "It is 5."}});
  messages.push_back(user);
  const auto more = chat.behind(messages, end);
  ASSERT_TRUE(more);
  EXPECT_EQ(text.tokenizer.decode(*more, false),
            "\n<|im_start|>user\n2 + 3?<|im_end|>\n<|im_start|>assistant\n");
  all.insert(all.end(), drawn_answer.begin(), drawn_answer.end());
  all.insert(all.end(), more->begin(), more->end());
  EXPECT_EQ(text.tokenizer.decode(all, false), text.tokenizer.decode(prompt_of(true), false));
}

// A template that takes the reasoning out of turns that are over: the conversation is rendered again.
TEST_F(ChatToolsTest, ATurnThatChangesIsRenderedAgain) {
  std::string source = hermes();
  const std::string content = "{{- m.content -}}";
  ASSERT_NE(source.find(content), std::string::npos);
  source.replace(source.find(content), content.size(),
                 "{{- '' if m.role == 'assistant' and not m.tool_calls and not loop.last else m.content -}}");
  const train::OpenedText text = open(source);
  std::vector<std::int64_t> stops;
  ChatTools chat(pool(), text, "a model", {}, stops);
  const Json messages = Json::array({{{"role", "user"}, {"content", "a"}},
                                     {{"role", "assistant"}, {"content", "b"}},
                                     {{"role", "user"}, {"content", "c"}}});
  EXPECT_FALSE(chat.behind(messages, text.tokenizer.token_to_id("<|im_end|>").value()));
}

TEST_F(ChatToolsTest, ACallThatIsNoObjectStaysAConversation) {
  const train::OpenedText text = open(hermes());
  std::vector<std::int64_t> stops;
  ChatTools chat(pool(), text, "a model", {}, stops);
  const tools::Turn turn = {.message = {{"role", "assistant"}, {"content", ""}},
                            .calls = {{"add", "two and three"}, {"gone", Json::object()}}};
  const ChatTools::Results results = chat.run(turn, -1, [](const std::string&) {});
  ASSERT_EQ(results.messages.size(), 3U);
  EXPECT_TRUE(results.messages[0]["tool_calls"][0]["function"]["arguments"].is_object());
  EXPECT_NE(results.messages[2]["content"].get<std::string>().find("Tool gone not found"), std::string::npos);
}

TEST_F(ChatToolsTest, ATemplateWithoutToolsIsRefused) {
  const train::OpenedText text =
      open("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}");
  std::vector<std::int64_t> stops;
  const std::string said = base::message_of([&] { ChatTools(pool(), text, "models/base", {}, stops); });
  EXPECT_NE(said.find("the chat template of models/base"), std::string::npos) << said;
}

}  // namespace chat_tools_test
}  // namespace hone::commands
