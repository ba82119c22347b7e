// OpenAI's API without a network.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "base/process/instruction_level.h"
#include "serve/openai/answers.h"
#include "serve/openai/errors.h"
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
  while (!left && one->answers == 0) left = one->left();
  if (left) left();
  one->wait();
  while (tiny.scheduler.facts().jobs > 0) std::this_thread::yield();  // its last call has answered already
  EXPECT_EQ(one->answered.status, 503);
}

// So many answers of a path that the metrics count, "503" of those that the network had no room for.
std::string counted(const TinyServed& tiny, const std::string& path, const std::string& code) {
  const std::string labels =
      "hone_requests_total{api=\"openai\",path=\"" + path + "\",code=\"" + code + "\"} ";
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (std::string text; std::chrono::steady_clock::now() < end; std::this_thread::yield()) {
    text = tiny.served.metrics.text(tiny.scheduler.facts(), 0, {});
    const std::size_t at = text.find(labels);
    if (at != std::string::npos)
      return text.substr(at + labels.size(), text.find('\n', at) - at - labels.size());
  }
  return "none";
}

// Of an answer in one piece, of an error, and of what is answered at once.
TEST(OpenAi, AnAnswerThatTheNetworkRefusesIsCountedAsA503) {
  TinyServed tiny;
  const auto refused = [&](const std::string& method, const std::string& path, const Json& body) {
    const auto one = std::make_shared<FakeExchange>(asked(method, path, base::dump_json(body)));
    one->is_full = true;
    tiny.api.handle(one);
    one->wait();
    EXPECT_EQ(one->answered.status, 503);
  };
  refused("POST", "/v1/completions", {{"prompt", "one"}, {"max_tokens", 2}});
  EXPECT_EQ(counted(tiny, "/v1/completions", "503"), "1");
  tiny.served.numbers = openai::kMostNumbersHeld + 1;
  refused("POST", "/v1/completions",
          {{"prompt", {5, 6}}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}});
  while (counted(tiny, "/v1/completions", "503") == "1") std::this_thread::yield();
  refused("GET", "/v1/models", nullptr);
  EXPECT_EQ(counted(tiny, "/v1/models", "503"), "1");
  refused("POST", "/tokenize", {{"prompt", "one"}});
  EXPECT_EQ(counted(tiny, "/tokenize", "503"), "1");
  const std::string text = tiny.served.metrics.text(tiny.scheduler.facts(), 0, {});
  for (const char* code : {"200", "400", "429"})
    EXPECT_EQ(text.find("code=\"" + std::string(code)), std::string::npos) << text;
}

TEST(OpenAi, WhatIsUnknownIsNamed) {
  TinyServed tiny;
  const Json said = tiny.ask("/v1/completions", {{"prompt", "a"}, {"temperatur", 1}})->wait();
  EXPECT_EQ(said["error"]["param"], "temperatur");
  EXPECT_NE(said["error"]["message"].get<std::string>().find("'temperature'"), std::string::npos);
}

// A text that a stream has said, with its log-probabilities.
std::pair<std::string, std::vector<double>> streamed(TinyServed& tiny, Json asked) {
  asked["stream"] = true;
  const auto one = tiny.ask("/v1/completions", asked);
  one->wait();
  std::pair<std::string, std::vector<double>> out;
  std::istringstream lines(one->answered.body);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: {")) continue;
    const Json event = Json::parse(line.substr(6));
    if (event["choices"].empty()) continue;
    const Json& choice = event["choices"][0];
    out.first += choice["text"].get<std::string>();
    if (choice["logprobs"].is_null()) continue;
    for (const Json& value : choice["logprobs"]["token_logprobs"]) out.second.push_back(value);
  }
  return out;
}

// A text that repeats itself: several of its tokens come at once, in one event of the stream.
TEST(OpenAi, DraftsChangeNoAnswerAndNoStream) {
  TinyServed plain, drafting(rollout::Drafts::kAlways);
  for (const Json& more :
       {Json{{"logprobs", 0}}, Json{{"stop", {"zz", "th"}}}, Json{{"temperature", 0.3}, {"seed", 4}},
        Json{{"logprobs", 2}, {"max_tokens", 9}}}) {
    Json asked = {
        {"prompt", {12, 40, 12, 40, 12, 40}}, {"max_tokens", 80}, {"temperature", 0}, {"ignore_eos", true}};
    asked.update(more);
    const Json wanted = plain.ask("/v1/completions", asked)->wait()["choices"];
    EXPECT_EQ(drafting.ask("/v1/completions", asked)->wait()["choices"], wanted) << more;
    const auto [text, logprobs] = streamed(drafting, asked);
    EXPECT_EQ(text, wanted[0]["text"].get<std::string>()) << more;
    if (wanted[0]["logprobs"].is_null()) continue;
    EXPECT_EQ(Json(logprobs), wanted[0]["logprobs"]["token_logprobs"]) << more;
  }
  if (base::instruction_level() < base::InstructionLevel::kAvx2) return;  // nothing is guessed there
  drafting.scheduler.stop();
  EXPECT_GT(drafting.scheduler.facts().drafts.accepted, 0);
}

// Its ids, and log-probabilities where they were asked for.
std::pair<std::vector<std::int32_t>, std::vector<double>> sampled(TinyServed& tiny, const Json& more,
                                                                  const Json& logprobs) {
  Json asked = {{"prompt", {12, 40, 12, 77, 5, 40}}, {"max_tokens", 24},    {"seed", 5}, {"temperature", 0.7},
                {"return_token_ids", true},          {"logprobs", logprobs}};
  asked.update(more);
  const Json one = tiny.ask("/v1/completions", asked)->wait()["choices"][0];
  if (one["logprobs"].is_null()) return {one["token_ids"], {}};
  return {one["token_ids"], one["logprobs"]["token_logprobs"]};
}

// The model's own at temperature 1, whatever was drawn from; and what is told changes no token.
TEST(OpenAi, LogprobsBesidePenaltiesAreTheModels) {
  TinyServed tiny;
  for (const Json& more : {Json{{"repetition_penalty", 1.7}}, Json{{"min_tokens", 20}},
                           Json{{"repetition_penalty", 0.8}, {"min_tokens", 20}, {"presence_penalty", 1}}}) {
    const auto [plain, none] = sampled(tiny, more, nullptr);
    EXPECT_TRUE(none.empty());
    const auto [ids, logprobs] = sampled(tiny, more, 0);
    EXPECT_EQ(ids, plain) << more;
    EXPECT_EQ(sampled(tiny, more, 3), (std::pair{ids, logprobs})) << more;
    std::vector<std::int32_t> whole = {12, 40, 12, 77, 5, 40};
    whole.insert(whole.end(), ids.begin(), ids.end());
    const Json scored =
        tiny.ask("/v1/completions", {{"prompt", whole}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 0}})
            ->wait()["choices"][0]["logprobs"]["token_logprobs"];
    ASSERT_EQ(scored.size(), 6 + logprobs.size());
    for (std::size_t i = 0; i < logprobs.size(); ++i)
      EXPECT_NEAR(logprobs[i], scored[6 + i].get<double>(), 1e-4) << more << " token " << i;
  }
}

// A request gives its numbers back behind its answer: what is held then, waited for.
std::int64_t held_of(const TinyServed& tiny, std::int64_t expected) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (tiny.served.numbers != expected && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return tiny.served.numbers;
}

TEST(OpenAi, AnswersAreBounded) {
  TinyServed tiny;
  const std::vector<int> prompt(60, 7);
  const auto code = [&](int samples, int tokens) {
    const auto one = tiny.ask("/v1/completions", {{"prompt", prompt},
                                                  {"n", samples},
                                                  {"max_tokens", tokens},
                                                  {"echo", true},
                                                  {"logprobs", 64},
                                                  {"ignore_eos", true}});
    const Json said = one->wait();
    EXPECT_EQ(one->answers, 1);
    return one->answered.status == 200 ? "" : said["error"]["code"].get<std::string>();
  };
  EXPECT_EQ(code(128, 0), "");                    // 128 x 60 x 65 are 499,200 of 524,288
  EXPECT_EQ(code(128, 400), "answer_too_large");  // told when it is
  EXPECT_EQ(tiny.ask("/v1/completions", {{"prompt", {prompt, prompt, prompt}},
                                         {"n", 64},
                                         {"max_tokens", 0},
                                         {"echo", true},
                                         {"logprobs", 64}})
                ->wait()["error"]["param"],
            "logprobs");
  EXPECT_EQ(held_of(tiny, 0), 0);

  tiny.served.numbers = openai::kMostNumbersHeld + 1;  // of others
  const auto busy =
      tiny.ask("/v1/completions", {{"prompt", prompt}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}});
  EXPECT_EQ(busy->wait()["error"]["type"], "overloaded");
  EXPECT_EQ(busy->answered.status, 429);
  EXPECT_EQ(held_of(tiny, openai::kMostNumbersHeld + 1), openai::kMostNumbersHeld + 1);
}

// With or without echo, at the start and while tokens are drawn, in one piece or as a stream.
TEST(OpenAi, AllAnswersTogetherAreBounded) {
  TinyServed tiny;
  std::int64_t others = 0;  // what other requests hold
  const auto status = [&](const Json& more) {
    tiny.served.numbers = others;
    Json asked = {{"prompt", {5, 6, 7}}, {"max_tokens", 30}, {"ignore_eos", true}, {"n", 2}};
    asked.update(more);
    const auto one = tiny.ask("/v1/completions", asked);
    one->wait();
    EXPECT_EQ(held_of(tiny, others), others);
    const bool is_told = one->answered.body.find("too many log-probabilities") != std::string::npos;
    return is_told && one->answered.status == 200 ? 0 : one->answered.status;  // 0: a stream that tells it
  };
  others = openai::kMostNumbersHeld + 1;
  EXPECT_EQ(status({{"logprobs", 20}}), 429);
  EXPECT_EQ(status({{"logprobs", nullptr}}), 200);
  others = openai::kMostNumbersHeld - std::int64_t{2 * 30 * 21};
  EXPECT_EQ(status({{"logprobs", 20}}), 200);
  ++others;
  EXPECT_EQ(status({{"logprobs", 20}}), 429);
  EXPECT_EQ(status({{"logprobs", 20}, {"stream", true}}), 0);
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

TEST(OpenAi, AnAnswerIsMadeWithinItsBytes) {
  TinyServed tiny;
  openai::Wish wish;
  wish.weights = {.name = "tiny"};
  wish.prompts = {{5, 6, 7}};
  wish.samples = 2;
  const openai::Told told{.served = tiny.served, .wish = wish, .id = "cmpl-7"};
  std::vector<openai::Choice> choices;
  for (int i = 0; i < 2; ++i) {
    choices.push_back(said(tiny, "one two three"));
    choices.back().index = i;
  }
  const std::string text = openai::answer_of(told, choices, openai::kMostBytes);
  const Json whole = Json::parse(text);
  EXPECT_EQ(whole["choices"].size(), 2U);
  EXPECT_EQ(whole["choices"][1]["index"], 1);
  EXPECT_EQ(whole["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(whole["object"], "text_completion");
  EXPECT_NO_THROW(openai::answer_of(told, choices, text.size()));
  EXPECT_THROW(openai::answer_of(told, choices, text.size() - 1), openai::Refusal);
  EXPECT_EQ(Json::parse(openai::answer_of(told, {}, 1000))["choices"], Json::array());
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
