// The tiny template against transformers' apply_chat_template (golden.json, made by make_tiny_tokenizer.py).
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include "helpers.h"

namespace hone::text {
namespace chat_template_test {

using base::Json;

const base::fs::path kTiny = base::fs::path(HONE_FIXTURES) / "text" / "tiny";

ChatRequest request_from(const Json& json) {
  ChatRequest request;
  request.messages = json["messages"];
  request.tools = json.value("tools", Json());
  request.template_kwargs = json.value("template_kwargs", Json());
  request.add_generation_prompt = json.value("add_generation_prompt", false);
  return request;
}

ChatRequest one_message(const std::string& content) {
  return request_from({{"messages", Json::array({{{"role", "user"}, {"content", content}}})}});
}

std::string render(std::string_view source, const ChatRequest& request) {
  return ChatTemplate(source, {}, "x").render(request).text;
}

TEST(ChatTemplate, TextsIdsAndMasksAreTransformers) {
  const Tokenizer tokenizer = Tokenizer::from_folder(kTiny);
  const ChatTemplate chat_template(*tokenizer.chat_template(), tokenizer.special(), "tiny");
  EXPECT_TRUE(chat_template.has_generation_tag());
  const Json chats = base::parse_json(base::read_text(kTiny / "golden.json"), "golden.json")["chats"];
  ASSERT_GE(chats.size(), 8U);
  for (const auto& golden : chats) {
    const ChatRequest request = request_from(golden["request"]);
    EXPECT_EQ(chat_template.render(request).text, golden["text"].get<std::string>());
    const TokenizedChat chat = tokenize_chat(tokenizer, chat_template, request);
    EXPECT_EQ(Json(chat.ids), golden["ids"]);
    EXPECT_EQ(Json(chat.assistant), golden["mask"]);
  }
}

TEST(ChatTemplate, SpansAreBytesOfTheText) {
  const ChatTemplate chat_template(
      "é{% generation %}ü{% endgeneration %}!{% generation %}{% endgeneration %}", {}, "x");
  const Rendered rendered = chat_template.render(one_message(""));
  EXPECT_EQ(rendered.text, "éü!");
  EXPECT_EQ(rendered.generation_spans,
            (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{2, 4}, {5, 5}}));
}

TEST(ChatTemplate, GenerationBlocksKeepWhatTheySet) {
  const std::string source =
      "{% set ns = namespace(x='a') %}{% set y = 'c' %}"
      "{%- generation %}{% set ns.x = 'b' %}{% set y = 'd' %}{{ y }}{% endgeneration -%}\n {{ ns.x + y }}";
  EXPECT_EQ(render(source, one_message("")),
            "dbc");  // a namespace is written through, a variable is the block's own
}

TEST(ChatTemplate, KnowsWhetherAMaskCanBeMade) {
  EXPECT_FALSE(ChatTemplate("{{ messages }}", {}, "x").has_generation_tag());
  EXPECT_FALSE(ChatTemplate("{% raw %}{% generation %}{% endraw %}", {}, "x").has_generation_tag());
  EXPECT_TRUE(ChatTemplate("{%- generation -%}{%- endgeneration -%}", {}, "x").has_generation_tag());
}

TEST(ChatTemplate, VariablesAreSpecialTokensAndKwargs) {
  SpecialTokens special;
  special.named = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  const ChatTemplate chat_template(
      "{{ bos_token }}{{ eos_token }}{{ mode }}{{ tools is none }}{{ pad_token is defined }}", special, "x");
  ChatRequest request = one_message("");
  request.template_kwargs = {{"mode", "m"}, {"eos_token", "<end>"}};
  EXPECT_EQ(chat_template.render(request).text, "<s><end>mTrueFalse");
}

TEST(ChatTemplate, PrintsAsPythonDoes) {
  ChatRequest request = one_message("<b> & 'é'");
  request.template_kwargs = {{"x", {1, 2.0, 1e-7, true, nullptr, "a"}}, {"n", 0.00001}};
  EXPECT_EQ(render("{{ x }} {{ n }} {{ x | tojson }} {{ messages[0].content | tojson }}", request),
            "[1, 2.0, 1e-07, True, None, 'a'] 1e-05 [1, 2.0, 1e-07, true, null, \"a\"] \"<b> & 'é'\"");
}

TEST(ChatTemplate, NullFieldsAreMissingOnes) {
  const ChatRequest request = request_from({{"messages", {{{"role", "user"}, {"content", nullptr}}}}});
  EXPECT_EQ(render("{{ messages[0].content is defined }}", request), "False");
}

TEST(ChatTemplate, ErrorsNameTheTemplateAndTheReason) {
  std::string message = user_error([] { ChatTemplate("{% if %}", {}, "chat template of m"); });
  EXPECT_TRUE(contains(message, "[chat template of m] expected a chat template (Jinja) that compiles"))
      << message;
  EXPECT_TRUE(contains(message, "syntax error")) << message;

  message = user_error(
      [] { render("{{ raise_exception('Only \"user\" & co: ' ~ messages[0].role) }}", one_message("")); });
  EXPECT_TRUE(contains(message, "found:  the template says: Only \"user\" & co: user\n")) << message;

  message = user_error([] { render("{{ messages[0].content.nothing() }}", one_message("")); });
  EXPECT_TRUE(contains(message, "expected a conversation that this chat template can render")) << message;
  EXPECT_TRUE(contains(message, "unknown method")) << message;
}

TEST(ChatTemplate, RequestsThatAreNotConversations) {
  const auto refusal = [](const Json& messages) {
    ChatRequest request;
    request.messages = messages;
    return user_error([&] { render("{{ messages }}", request); });
  };
  EXPECT_TRUE(contains(refusal(Json::array()), "found:  the conversation has no message"));
  EXPECT_TRUE(contains(refusal("hi"), "found:  messages must be a list"));
  EXPECT_TRUE(contains(refusal(Json::array({"hi"})), "found:  message 0 must be an object"));
}

TEST(ChatTemplate, TheMarksOfGenerationBlocksAreRefusedInInput) {
  const std::string mark = "\xf4\x8f\xa3\xa0";  // U+10F8E0
  const std::string generation = "{% generation %}{{ messages[0].content }}{% endgeneration %}";
  std::string message = user_error([&] { render(generation, one_message("a" + mark)); });
  EXPECT_TRUE(contains(message, "found:  the conversation holds U+10F8E0")) << message;
  message = user_error([&] { ChatTemplate(mark, {}, "x"); });
  EXPECT_TRUE(contains(message, "found:  the template holds U+10F8E0")) << message;
}

}  // namespace chat_template_test
}  // namespace hone::text
