// Forms that TRL does not read, own response templates, and texts that no model should write.
#include <gtest/gtest.h>

#include <ctime>

#include "base/error.h"
#include "tools/families.h"
#include "tools/response_parser.h"
#include "tools/small_templates.h"
#include "tools/turn_helpers.h"

namespace hone::tools {
namespace turn_forms_test {

using base::Json;

ResponseParser open(const std::string& source, const std::string& eos, Extras extras = Extras::kOn) {
  const text::Tokenizer tokenizer = bytes_tokenizer(eos, source);
  const text::ChatTemplate chat(source, tokenizer.special(), "template");
  return ResponseParser::open(tokenizer, chat, "template", extras);
}

std::string hermes(const std::string& turn_start = "", const std::string& turn_end = "") {
  std::string out = kHermesTemplate;
  out.replace(out.find("TURN_START"), 10, turn_start);
  return out.replace(out.find("TURN_END"), 8, turn_end);
}

double cpu_seconds(std::clock_t since) {  // however busy the machine is
  return static_cast<double>(std::clock() - since) / CLOCKS_PER_SEC;
}

// "forecast{"city":"Rome"};clock{}"
std::string calls_of(const Turn& turn) {
  std::string out;
  for (const Call& call : turn.calls)
    out += (out.empty() ? "" : ";") + call.name + base::dump_json(call.arguments);
  return out;
}

TEST(TurnForms, HarmonyCallsAsTheModelWritesThem) {
  const ResponseParser parser = open(kHarmonyTemplate, "<|return|>");
  EXPECT_EQ(parser.family(), "gpt-oss");
  const std::string prompt = "<|start|>user<|message|>Weather?<|end|><|start|>assistant";
  const std::string thought = "<|channel|>analysis<|message|>I ask.<|end|><|start|>assistant";
  for (const char* const header : {"<|channel|>commentary to=functions.forecast <|constrain|>json<|message|>",
                                   "<|channel|>commentary to=functions.forecast<|message|>",
                                   " to=functions.forecast<|channel|>commentary <|constrain|>json<|message|>",
                                   " to=functions.forecast<|channel|>commentary json<|message|>"}) {
    const Turn turn =
        parser.parse(prompt, thought + header + "{\"city\": \"Rome\"}<|call|>", "plain", nullptr);
    EXPECT_EQ(calls_of(turn), "forecast{\"city\":\"Rome\"}") << header;
    EXPECT_EQ(turn.message["thinking"], "I ask.") << header;
    EXPECT_EQ(turn.message["content"], "") << header;
  }
  const Turn answer =
      parser.parse(prompt, thought + "<|channel|>final<|message|>Warm.<|return|>", "p", nullptr);
  EXPECT_EQ(base::dump_json(answer.message), R"({"role":"assistant","thinking":"I ask.","content":"Warm."})");
}

TEST(TurnForms, LlamaCallsAsTheModelWritesThem) {
  const ResponseParser parser = open(kLlamaTemplate, "<|eot_id|>");
  EXPECT_EQ(parser.family(), "Llama 3");
  const std::string prompt = "<|start_header_id|>assistant<|end_header_id|>\n\n";
  const auto calls = [&](const std::string& text) {
    return calls_of(parser.parse(prompt, text, text, nullptr));
  };
  const std::string one = R"({"name": "forecast", "parameters": {"city": "a}; b", "in": {"n": 1}}})";
  const std::string read = R"(forecast{"city":"a}; b","in":{"n":1}})";
  EXPECT_EQ(calls(one + "<|eot_id|>"), read);
  EXPECT_EQ(calls(one + "<|eom_id|>"), read);
  EXPECT_EQ(calls(one), read);
  EXPECT_EQ(calls("<|python_tag|>" + one + "<|eom_id|>"), read);
  const std::string two = R"({"name": "forecast", "parameters": {"city": "Rome"}}; )"
                          R"({"type": "function", "name": "clock", "parameters": {}}<|eot_id|>)";
  EXPECT_EQ(calls(two), "forecast{\"city\":\"Rome\"};clock{}");
  EXPECT_EQ(calls("I have no tool for this.<|eot_id|>"), "");
}

TEST(TurnForms, MistralIsReadBeyondTrlOnly) {
  const ResponseParser parser = open(kMistralTemplate, "</s>");
  EXPECT_EQ(parser.family(), "Mistral");
  const Turn turn = parser.parse(
      "[INST]Weather?[/INST]",
      R"([TOOL_CALLS][{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": {}}]</s>)", "plain",
      nullptr);
  EXPECT_EQ(calls_of(turn), "a{\"x\":1};b{}");
  EXPECT_THROW(open(kMistralTemplate, "</s>", Extras::kOff), base::UserError);
}

TEST(TurnForms, ExtrasAreOffForParity) {
  const ResponseParser parser = open(kLlamaTemplate, "<|eot_id|>", Extras::kOff);
  const std::string text = R"({"name": "a", "parameters": {}}; {"name": "b", "parameters": {}}<|eot_id|>)";
  const Turn turn = parser.parse("<|start_header_id|>assistant<|end_header_id|>\n\n", text, "plain", nullptr);
  EXPECT_TRUE(turn.calls.empty());
  EXPECT_EQ(turn.message["content"], "plain");
}

TEST(TurnForms, AnotherHeaderAndEndAreTakenFromTheTemplate) {
  std::string source = hermes();
  for (std::size_t at = 0; (at = source.find("<|im_start|>", at)) != source.npos;)
    source.replace(at, 12, "<|turn>");
  for (std::size_t at = 0; (at = source.find("<|im_end|>", at)) != source.npos;)
    source.replace(at, 10, "<turn|>");
  const ResponseParser parser = open(source, "<turn|>");
  EXPECT_EQ(parser.family(), "Qwen3");
  ASSERT_EQ(parser.notes().size(), 1U);
  EXPECT_NE(parser.notes()[0].find("its own header"), std::string::npos);
  const Turn turn = parser.parse(
      "<|turn>user\nHi<turn|>\n<|turn>assistant\n",
      "Hm.\n<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call><turn|>", "p", nullptr);
  EXPECT_EQ(calls_of(turn), "a{}");
  EXPECT_EQ(turn.message["content"], "Hm.");
}

TEST(TurnForms, ATokenizersOwnTemplateComesFirst) {
  const Json own = Json::parse(R"({"start_anchor": "A:", "fields": {
    "tool_calls": {"open": "<c>", "close": "</c>", "repeats": true, "content": "kv-lines",
      "transform": {"type": "function", "function": {"name": "note", "arguments": "{content}"}}},
    "content": {}}})");
  const std::string source = hermes();
  const text::Tokenizer tokenizer = bytes_tokenizer("<|im_end|>", source, {{"response_template", own}});
  const text::ChatTemplate chat(source, tokenizer.special(), "template");
  const ResponseParser parser = ResponseParser::open(tokenizer, chat, "template");
  EXPECT_EQ(parser.family(), "the tokenizer's own");
  EXPECT_EQ(calls_of(parser.parse("A:", "Yes <c>x: 1\ny: two</c><|im_end|>", "p", nullptr)),
            "note{\"x\":\"1\",\"y\":\"two\"}");
}

TEST(TurnForms, WhatTransformersRefusesIsRefused) {
  const auto error = [](const char* spec) {
    try {
      ResponseParser::from_json(Json::parse(spec), "tokenizer_config.json, response_template");
    } catch (const base::UserError& thrown) {
      return std::string(thrown.what());
    }
    return std::string();
  };
  for (const auto& [spec, part] : std::vector<std::pair<const char*, const char*>>{
           {R"([])", "an object"},
           {R"({"fields": {"a": {}}})", "start_anchor"},
           {R"({"version": 2, "start_anchor": "A", "fields": {"a": {}}})", "version"},
           {R"({"start_anchor": "A", "more": 1, "fields": {"a": {}}})", "'more'"},
           {R"({"start_anchor": "A", "fields": {"a": {}, "b": {}}})", "'a' and 'b'"},
           {R"({"start_anchor": "A", "fields": {"a": {"open": "x", "open_pattern": "y"}}})", "both"},
           {R"({"start_anchor": "A", "fields": {"a": {"open_pattern": "(?P<n>x).*"}}})", "a transform"},
           {R"({"start_anchor": "A", "fields": {"a": {"content": "yaml"}}})", "'yaml'"},
           {R"({"start_anchor": "A", "fields": {"a": {"content": "xml-inline"}}})", "tag_pattern"},
           {R"({"start_anchor": "A", "fields": {"a": {"open_pattern": "(x"}}})", "open_pattern"},
           {R"({"start_anchor": "A", "fields": {"a": {"transform": "a {content}"}}})", "a placeholder alone"},
           {R"({"start_anchor": "A", "fields": {"a": {"join": ","}}})", "repeats"}}) {
    EXPECT_NE(error(spec).find(part), std::string::npos) << spec << "\n" << error(spec);
  }
}

TEST(TurnForms, ATemplateWithoutToolsIsRefused) {
  const char* const source =
      "{% for m in messages %}{{ m.role + ': ' + m.content + '<|im_end|>' }}{% endfor %}";
  try {
    open(source, "<|im_end|>");
    ADD_FAILURE() << "no UserError";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("response_template"), std::string::npos) << error.what();
  }
}

// All of them in 32 KB, where quadratic time would show, and two in a megabyte.
TEST(TurnForms, LongTurnsComeBackInTime) {
  const std::vector<std::string> parts = {"<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
                                          "plain text ",
                                          "<tool_call>",
                                          "<think>",
                                          "{",
                                          "{\"a\":",
                                          "[",
                                          "<tool_call>\n<function=f>",
                                          "<tool_call>\n<function=f>\n<parameter=a>1</parameter>",
                                          "<parameter=a>",
                                          "<arg_key>a</arg_key>\n<arg_value>",
                                          "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>",
                                          "<|tool_call_start|>[f(a=1)]<|tool_call_end|>",
                                          ", f(",
                                          ", f(a='",
                                          "f(a=[[[",
                                          "<|tool_call>call:f{a:<|\"|>",
                                          "<|tool_call>call:f{a:1}<tool_call|>",
                                          "</think>",
                                          "\n",
                                          " ",
                                          "{\"name\": \"f\", \"parameters\": {}}; ",
                                          "to=functions.f<|channel|>commentary json<|message|>",
                                          "[TOOL_CALLS]",
                                          "[TOOL_CALLS]f[ARGS]{}"};
  double slowest = 0;
  const auto parse = [&slowest](const ResponseParser& parser, const std::string& text) {
    const std::clock_t start = std::clock();
    const Turn turn = parser.parse("", text, text, nullptr);
    EXPECT_TRUE(turn.message["content"].is_string());
    slowest = std::max(slowest, cpu_seconds(start));
  };
  for (const Family& family : families()) {
    for (const Json& spec : {family.response_template, family.extra}) {
      if (spec.is_null()) continue;
      const ResponseParser parser = ResponseParser::from_json(spec, family.name);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::size_t size = i < 2 ? std::size_t{1} << 20U : std::size_t{1} << 15U;
        std::string text;
        while (text.size() < size) text += parts[i];
        parse(parser, text);
        if (i >= 2)
          parse(parser, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"" + text + "\"}}</tool_call>");
      }
    }
  }
  EXPECT_LT(slowest, 20);
}

// Reasoning that never ends, with a pattern that looks ahead for its end from every place.
TEST(TurnForms, ALookAheadOverALongTextIsFast) {
  for (const Family& family : families()) {
    if (family.name != "Nemotron 3") continue;
    const ResponseParser parser = ResponseParser::from_json(family.response_template, family.name);
    const std::string text =
        std::string(200'000, 'x') + "<tool_call>\n<function=f>\n</function>\n</tool_call><|im_end|>";
    EXPECT_EQ(calls_of(parser.parse("<|im_start|>assistant\n<think></think>", text, "p", nullptr)), "f{}");
  }
}

}  // namespace turn_forms_test
}  // namespace hone::tools
