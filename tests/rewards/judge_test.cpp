// Judges: Python functions, objects as TRL's, and an OpenAI-compatible API, against a server of our own.
#include "rewards/http/judge.h"

#include <atomic>
#include <cstdlib>

#include "rewards/http_server.h"
#include "rewards/python_helpers.h"

namespace hone::rewards {
namespace judge_test {

// `n` pairs, completions "", "x", "xx", ... of prompts "prompt 0", "prompt 0", "prompt 1", ...
Request pairs_of(std::size_t n, std::int64_t first_sample = 0) {
  Request request = request_of(2 * n, first_sample);
  for (std::size_t i = 0; i < 2 * n; ++i) {
    request.prompts[i] = "prompt " + std::to_string(i / 2);
    request.columns["answer"][i] = static_cast<std::int64_t>(i / 2);
  }
  return request;
}

const PythonFile& judges() {
  static const PythonFile file(R"(
def longer(prompts, completions):
    return [int(len(second) > len(first)) for first, second in completions]

def by_answer(prompts, completions, answer, log_extra, **rest):
    assert "completion_ids" not in rest and "trainer_state" in rest, rest
    assert [p for p in prompts] == [f"prompt {a}" for a in answer]
    log_extra("why", ["because"] * len(prompts))
    return [a % 2 for a in answer]

def unsure(prompts, completions):
    return [None, -1, 0.5, "x", True][:len(prompts)]

def raises_once(prompts, completions):
    if len(prompts) > 1 or prompts[0] == "prompt 1":
        raise ValueError("no idea")
    return [0] * len(prompts)

class Judge:
    def judge(self, prompts, completions, shuffle_order=True):
        return [1 for _ in prompts]

judge = Judge()

def alone(completions):
    return []
)");
  return file;
}

Scores judged(const std::string& function, const Request& request) {
  return open_judge({.word = judges().word(function)}, {})->score(request);
}

TEST(Judge, TheBetterOfAPairHasOne) {
  EXPECT_EQ(judged("longer", pairs_of(2)).values, (std::vector<double>{0, 1, 0, 1}));
  const Scores found = judged("by_answer", pairs_of(3));
  EXPECT_EQ(found.values, (std::vector<double>{1, 0, 0, 1, 1, 0}));
  ASSERT_EQ(found.extra.size(), 1U);
  EXPECT_EQ(found.extra[0].second.size(), 6U);
  EXPECT_EQ(judged("judge", pairs_of(1)).values, (std::vector<double>{0, 1}));
}

TEST(Judge, WhatIsNoVerdictIsNone) {
  const Scores found = judged("unsure", pairs_of(5, 100));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_TRUE(is_none(found.values[i])) << i;
  EXPECT_EQ(found.values[8], 0);
  EXPECT_EQ(found.values[9], 1);
  ASSERT_EQ(found.failures.size(), 2U);  // None and -1 are answers
  EXPECT_EQ(found.failures[0].sample, 106);
  expect_says(found.failures[0].what, {"not a number", "x"});
  EXPECT_EQ(found.failures[1].sample, 104);
  expect_says(found.failures[1].what, {"0.5", "neither 0 nor 1"});
}

TEST(Judge, APairThatRaisesIsLeftOut) {
  const Scores found = judged("raises_once", pairs_of(3));
  EXPECT_EQ(found.values[0], 1);
  EXPECT_TRUE(is_none(found.values[2]) && is_none(found.values[3]));
  EXPECT_EQ(found.values[4], 1);
  ASSERT_EQ(found.failures.size(), 1U);
  EXPECT_EQ(found.failures[0].sample, 2);
  expect_says(found.failures[0].what, {"no idea"});
}

TEST(Judge, AFunctionMustTakePromptsAndCompletions) {
  expect_says(message_of([] { judged("alone", pairs_of(1)); }), {"alone does not take prompts"});
}

std::string chat(const std::string& content) {
  return HttpServer::reply(Json{{"choices", {{{"message", {{"content", content}}}}}}}.dump());
}

std::unique_ptr<Reward> open_api(const HttpServer& server, const std::string& prompt = "") {
  return open_judge({.word = server.url("/v1"), .model = "wise", .prompt = prompt}, impatient());
}

TEST(Judge, AsksAnOpenAiCompatibleApiOncePerPair) {
  std::vector<std::string> requests;
  const std::vector<std::string> answers = {"0", "The better one is 1.", "<think>0 or 1?</think>\n1"};
  const HttpServer server([&](const std::string& text) {
    requests.push_back(text);
    return chat(answers[(requests.size() - 1) % 3]);
  });
  const auto judge = open_api(server);
  EXPECT_EQ(judge->name(), "wise");
  EXPECT_EQ(judge->score(pairs_of(3)).values, (std::vector<double>{1, 0, 0, 1, 0, 1}));
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_TRUE(requests[0].starts_with("POST /v1/chat/completions HTTP/1.1\r\n")) << requests[0];
  const Json body = Json::parse(HttpServer::body(requests[1]));
  EXPECT_EQ(body.at("model"), "wise");
  EXPECT_EQ(body.at("temperature"), 0);
  expect_says(body.at("messages").at(0).at("content").get<std::string>(),
              {"prompt 1", "Answer 0:\nxx\n", "xxx"});
}

TEST(Judge, AConversationIsRenderedAsText) {
  std::string request;
  const HttpServer server([&](const std::string& text) {
    request = text;
    return chat("1");
  });
  Request pair = pairs_of(1);
  for (std::size_t i = 0; i < 2; ++i) {
    pair.prompts[i] = Json::parse(
        R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "{first}?"}])");
    pair.completions[i] = Json::array({{{"role", "assistant"}, {"content", i == 0 ? "no" : "yes"}}});
  }
  open_api(server, "Q {prompt} A {first} B {second}")->score(pair);
  EXPECT_EQ(Json::parse(HttpServer::body(request)).at("messages").at(0).at("content"),
            "Q system: Be brief.\nuser: {first}? A no B yes");
}

TEST(Judge, AnApiThatDoesNotJudge) {
  const HttpServer words([](const std::string&) { return chat("Both 0 and 1 have merits."); });
  const Scores found = open_api(words)->score(pairs_of(1));
  EXPECT_TRUE(is_none(found.values[0]));
  ASSERT_EQ(found.failures.size(), 1U);
  expect_says(found.failures[0].what, {"merits"});
  const HttpServer other([](const std::string&) { return HttpServer::reply(R"({"rewards": [1]})"); });
  const Scores none = open_api(other)->score(pairs_of(2));
  ASSERT_EQ(none.failures.size(), 2U);
  ASSERT_TRUE(none.broken);
  expect_says(UserError(*none.broken).what(), {"choices", "rewards"});
}

// A pair that the API is too busy for is asked about again; those before it are not.
TEST(Judge, ABusyApiIsAskedAgain) {
  std::atomic<int> calls = 0;
  const HttpServer server([&](const std::string&) {
    return ++calls == 2 ? HttpServer::reply("", "429 Too Many Requests") : chat("1");
  });
  const Scores found = open_api(server)->score(pairs_of(3));
  EXPECT_EQ(found.values, (std::vector<double>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(server.calls(), 4);
}

TEST(Judge, APairThatTheApiRefusesIsLeftOut) {
  const HttpServer server([](const std::string& text) {
    return text.find("prompt 1") != std::string::npos ? HttpServer::reply("too long", "400 Bad Request")
                                                      : chat("0");
  });
  const Scores found = open_api(server)->score(pairs_of(3));
  EXPECT_EQ(found.values[0] + found.values[4], 2);
  EXPECT_TRUE(is_none(found.values[2]));
  ASSERT_EQ(found.failures.size(), 1U);
  expect_says(found.failures[0].what, {"400", "too long"});
  EXPECT_FALSE(found.broken);
}

// OPENAI_API_KEY was sent to any address.
TEST(Judge, KeysGoWhereTheyAreMeantFor) {
  ::setenv("OPENAI_API_KEY", "sk-openai", 1);
  ::setenv("HONE_TEST_KEY", "sk-other", 1);
  std::string request;
  const HttpServer server([&](const std::string& text) {
    request = text;
    return chat("1");
  });
  open_api(server)->score(pairs_of(1));
  EXPECT_EQ(request.find("Authorization"), std::string::npos) << request;
  const auto open = [](const std::string& url, const std::string& variable) {
    return open_judge({.word = url, .model = "wise", .prompt = {}, .key_variable = variable}, impatient());
  };
  open(server.url("/v1"), "HONE_TEST_KEY")->score(pairs_of(1));
  expect_says(request, {"Authorization: Bearer sk-other\r\n"});
  expect_says(message_of([&] { open("http://example.org/v1", "HONE_TEST_KEY"); }),
              {"https", "http to example.org", "127.0.0.1"});
  expect_says(message_of([&] { open("https://example.org/v1", "HONE_TEST_NOT_SET"); }),
              {"HONE_TEST_NOT_SET", "judge_api_key_env", "not set"});
  ::unsetenv("OPENAI_API_KEY");
}

}  // namespace judge_test
}  // namespace hone::rewards
