// Endpoints as rewards, against a server of our own.
#include "rewards/http_reward.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "rewards/http_server.h"
#include "rewards/python_helpers.h"

namespace hone::rewards {
namespace {

std::string fault(const std::string& url, std::size_t n = 2) {
  return message_of([&] { open_http_reward(url, {})->score(request_of(n)); });
}

std::string fault_of_reply(const std::string& reply, std::size_t n = 2) {
  const HttpServer server([&](const std::string&) { return reply; });
  return fault(server.url("/v1/score"), n);
}

TEST(HttpReward, PostsTheBatchAndTakesBothForms) {
  std::string request;
  std::string answer = R"({"rewards": [0.5, null, 1], "model": "judge"})";
  const HttpServer server([&](const std::string& text) {
    request = text;
    return HttpServer::reply(answer);
  });
  const std::unique_ptr<Reward> reward = open_http_reward(server.url("/v1/score?key=1"), {});
  EXPECT_EQ(reward->name(), "score");
  EXPECT_EQ(server.calls(), 0);
  const Scores scores = reward->score(request_of(3));
  EXPECT_EQ(scores.values[0] + scores.values[2], 1.5);
  EXPECT_TRUE(is_none(scores.values[1]));
  EXPECT_TRUE(request.starts_with("POST /v1/score?key=1 HTTP/1.1\r\n")) << request;
  expect_says(request, {"Content-Type: application/json"});
  EXPECT_EQ(Json::parse(HttpServer::body(request)),
            Json::parse(R"({"prompts": ["prompt 0", "prompt 1", "prompt 2"],
      "completions": ["", "x", "xx"], "completion_ids": [[0, 7], [1, 7], [2, 7]], "answer": [0, 10, 20]})"));

  answer = "[1, 2, NaN]";
  const Scores list = reward->score(request_of(3, 10));
  EXPECT_EQ(list.values[0] + list.values[1], 3);
  ASSERT_EQ(list.failures.size(), 1U);
  EXPECT_EQ(list.failures[0].sample, 12);
  EXPECT_EQ(list.failures[0].what, "NaN");
}

TEST(HttpReward, BesideFunctionsInOnePool) {
  const HttpServer server([](const std::string&) { return HttpServer::reply("[3]"); });
  const PythonFile file("def two(completions, **kwargs): return [2]\n");
  const auto rewards = open_python_rewards({server.url("/"), file.word("two")}, {});
  EXPECT_EQ(rewards[0]->name(), "127.0.0.1");
  EXPECT_EQ(rewards[0]->score(request_of(1)).values[0] + rewards[1]->score(request_of(1)).values[0], 5);
}

TEST(HttpReward, ConnectionErrorsAreTriedAgain) {
  std::atomic<int> drops = 2;
  const HttpServer server([&](const std::string&) { return drops-- > 0 ? "" : HttpServer::reply("[1, 1]"); });
  const std::unique_ptr<Reward> reward = open_http_reward(server.url("/score"), {});
  EXPECT_EQ(reward->score(request_of(2)).values, (std::vector<double>{1, 1}));
  EXPECT_EQ(server.calls(), 3);
  drops = 1000;
  expect_says(message_of([&] { reward->score(request_of(2)); }),
              {server.url("/score"), "RemoteDisconnected", "three times", "not running"});
}

TEST(HttpReward, NobodyListens) {
  std::string url;
  {
    const HttpServer server([](const std::string&) { return std::string(); });
    url = server.url("/score");
  }
  expect_says(fault(url), {url, "ConnectionRefusedError", "three times"});
  expect_says(message_of([] { open_http_reward("http:///score", {}); }),
              {"http://host:port/path", "no host"});
  expect_says(message_of([] { open_http_reward("http://host:port/", {}); }), {"http://host:port/path"});
}

TEST(HttpReward, EveryStatusIsNamed) {
  expect_says(fault_of_reply(HttpServer::reply("who?", "404 Not Found")),
              {"status 200", "404 Not Found, who?"});
  expect_says(fault_of_reply(HttpServer::reply("", "401 Unauthorized")), {"401 Unauthorized"});
  expect_says(fault_of_reply("HTTP/1.1 302 Found\r\nLocation: /else\r\nContent-Length: 0\r\n\r\n"),
              {"302 Found"});
  expect_says(fault_of_reply(HttpServer::reply("", "204 No Content")), {"204 No Content"});
  expect_says(fault_of_reply(HttpServer::reply("out of memory", "500 Oops")),
              {"HttpStatus: 500 Internal Server Error, out of memory", "in all of 2 samples"});
}

TEST(HttpReward, ASampleThatTheServerRefuses) {
  const HttpServer server([](const std::string& request) {
    const Json asked = Json::parse(HttpServer::body(request));
    for (const Json& completion : asked["completions"]) {
      if (completion == "x") return HttpServer::reply("too odd", "422 Unprocessable Entity");
    }
    return HttpServer::reply(Json(std::vector<int>(asked["completions"].size(), 4)).dump());
  });
  const Scores scores = open_http_reward(server.url("/score"), {})->score(request_of(3));
  EXPECT_EQ(scores.values[0] + scores.values[2], 8);
  ASSERT_EQ(scores.failures.size(), 1U);
  EXPECT_EQ(scores.failures[0].sample, 1);
  expect_says(scores.failures[0].what, {"HttpStatus: 422", "too odd"});
}

TEST(HttpReward, AnswersThatAreNone) {
  expect_says(fault_of_reply(HttpServer::reply("<html>hello")), {"{\"rewards\": [...]}", "<html>hello"});
  expect_says(fault_of_reply(HttpServer::reply(R"({"scores": [1, 2]})")), {"{\"scores\": [1, 2]}"});
  expect_says(fault_of_reply(HttpServer::reply("")), {"an empty answer"});
  expect_says(fault_of_reply(HttpServer::reply(std::string(100000, '['))), {"[[[["});
  expect_says(fault_of_reply(HttpServer::reply("[1, 2, 3]")), {"a list of 2 scores", "score returned 3"});
}

TEST(HttpReward, AServerThatHangs) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  const HttpServer server([&](const std::string&) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
    return std::string();
  });
  const Scores scores = open_http_reward(server.url("/score"), with_timeout(0.5))->score(request_of(2));
  ASSERT_EQ(scores.failures.size(), 2U);
  expect_says(scores.failures[0].what, {"no answer within 0.25 s"});
  const std::lock_guard lock(mutex);
  done = true;
  changed.notify_all();
}

}  // namespace
}  // namespace hone::rewards
