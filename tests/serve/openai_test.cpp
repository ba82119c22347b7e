// OpenAI's API without a network.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "serve/openai/answers.h"
#include "serve/openai/fields.h"
#include "serve/openai/stream.h"
#include "serve/router.h"
#include "serve/tiny_served.h"
#include "tools/families.h"

namespace hone::serve {
namespace openai_test {

using base::Json;

TEST(OpenAi, ACompletionAnswersOnce) {
  TinyServed tiny;
  const auto one =
      tiny.ask("/v1/completions", {{"prompt", "one two"}, {"max_tokens", 3}, {"temperature", 0}});
  const Json said = one->wait();
  EXPECT_EQ(one->answers, 1);
  EXPECT_EQ(said["model"], "tiny");
  EXPECT_EQ(said["usage"]["completion_tokens"].get<int>() <= 3, true);
  EXPECT_EQ(said["choices"].size(), 1U);
}

TEST(OpenAi, AClientThatLeavesEndsItsRequest) {
  TinyServed tiny;
  const auto one =
      tiny.ask("/v1/completions", {{"prompt", "one two"}, {"max_tokens", 400}, {"ignore_eos", true}});
  std::function<void()> left;
  while (!left && one->answers == 0) left = one->left;
  if (left) left();
  one->wait();
  while (tiny.scheduler.facts().jobs > 0) std::this_thread::yield();  // its last call has answered already
  EXPECT_EQ(one->answered.status, 503);
}

TEST(OpenAi, WhatIsUnknownIsNamed) {
  TinyServed tiny;
  const Json said = tiny.ask("/v1/completions", {{"prompt", "a"}, {"temperatur", 1}})->wait();
  EXPECT_EQ(said["error"]["param"], "temperatur");
  EXPECT_NE(said["error"]["message"].get<std::string>().find("'temperature'"), std::string::npos);
}

// A turn that the model is taken to have said.
openai::Choice said(const TinyServed& tiny, const std::string& text) {
  openai::Wish wish;
  openai::Choice out;
  out.completion.ids = tiny.tokenizer.encode(text, false).ids;
  out.completion.finish_reason = rollout::FinishReason::kStopToken;
  out.observed = std::make_unique<openai::Observed>(wish, true);
  return out;
}

TEST(OpenAi, CallsAreReadAndStreamedAtTheEndOfATurn) {
  TinyServed tiny;
  const auto family = std::find_if(tools::families().begin(), tools::families().end(),
                                   [](const tools::Family& one) { return one.name == "Qwen3"; });
  const auto parser = tools::ResponseParser::from_json(family->response_template, "Qwen3");
  tiny.served.parser = &parser;
  openai::Wish wish;
  wish.form = openai::Form::kChat;
  wish.weights = {.name = "tiny"};
  wish.prompts = {tiny.tokenizer.encode("<|im_start|>assistant\n", false).ids};
  wish.tools = Json::parse(R"([{"type": "function", "function": {"name": "add", "parameters": {}}}])");
  const openai::Told told{.served = tiny.served, .wish = wish, .id = "chatcmpl-7"};
  const openai::Choice call =
      said(tiny, R"(Let me see.<tool_call>{"name": "add", "arguments": {"a": 2}}</tool_call><|im_end|>)");
  bool calls = false;
  const Json message = openai::message_of(told, call, calls);
  EXPECT_TRUE(calls);
  EXPECT_EQ(message["content"], "Let me see.");
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "add");
  EXPECT_EQ(Json::parse(message["tool_calls"][0]["function"]["arguments"].get<std::string>()),
            Json({{"a", 2}}));

  FakeExchange exchange(asked("POST", "/"));
  openai::Stream stream(told, exchange, 1);
  openai::Choice half = said(tiny, "Let me");
  stream.tell(half, false);
  EXPECT_EQ(exchange.answered.body, "");
  stream.tell(call, true);
  EXPECT_NE(exchange.answered.body.find(R"("finish_reason":"tool_calls")"), std::string::npos);
  EXPECT_NE(exchange.answered.body.find(R"("content":"Let me see.")"), std::string::npos);
  EXPECT_NE(exchange.answered.body.find(R"("index":0}])"), std::string::npos);

  const Json plain = openai::message_of(told, said(tiny, "Two.<|im_end|>"), calls);
  EXPECT_FALSE(calls);
  EXPECT_EQ(plain["content"], "Two.");
}

TEST(OpenAi, TheShortestNumberGivesTheFloatBack) {
  for (const float value : {-0.1F, -1.1754944e-38F, -13.271828F, -0.33333334F, 0.0F}) {
    const std::string text = Json(openai::shortest(value)).dump();
    EXPECT_EQ(static_cast<float>(Json::parse(text).get<double>()), value) << text;
    EXPECT_LE(text.size(), 16U) << text;
  }
}

TEST(Fields, DepthIsBoundedBeforeParsing) {
  EXPECT_THROW(openai::parse_body(std::string(100, '[') + std::string(100, ']')), openai::Refusal);
  EXPECT_EQ(openai::parse_body(R"({"a": "[[[[\"[["})")["a"], "[[[[\"[[");
}

TEST(Router, KeysAreAskedBeforeAnything) {
  TinyServed tiny;
  Router router("secret");
  router.add(std::make_unique<openai::OpenAiApi>(tiny.served));
  const auto status = [&](const std::string& path, Headers headers) {
    const auto one = std::make_shared<FakeExchange>(asked("GET", path, "", std::move(headers)));
    router.handle(one);
    return one->answered.status;
  };
  EXPECT_EQ(status("/v1/models", {}), 401);
  EXPECT_EQ(status("/v1/models", {{"authorization", "Bearer secre"}}), 401);
  EXPECT_EQ(status("/v1/models", {{"authorization", "Bearer secret"}}), 200);
  EXPECT_EQ(status("/v1/models", {{"x-api-key", "secret"}}), 200);
  EXPECT_EQ(status("/none", {}), 401);
  EXPECT_EQ(status("/none", {{"x-api-key", "secret"}}), 404);
  EXPECT_EQ(status("/healthz", {}), 200);
}

}  // namespace openai_test
}  // namespace hone::serve
