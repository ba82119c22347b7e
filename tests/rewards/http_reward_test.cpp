// Endpoints as rewards, against a server of our own.
#include "rewards/http/http_reward.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/process/stop_request.h"

#include "rewards/http_server.h"
#include "rewards/python_helpers.h"

namespace hone::rewards {
namespace http_reward_test {

std::string fault(const std::string& url, std::size_t n = 2) {
  return message_of([&] { throw_broken(open_http_reward(url, impatient())->score(request_of(n))); });
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

// ---- asked again

TEST(HttpReward, ConnectionErrorsAreTriedAgain) {
  std::atomic<int> drops = 2;
  const HttpServer server([&](const std::string&) { return drops-- > 0 ? "" : HttpServer::reply("[1, 1]"); });
  OpenOptions options = impatient();
  options.retry.brief = 5;
  const std::unique_ptr<Reward> reward = open_http_reward(server.url("/score"), options);
  const Scores scores = reward->score(request_of(2));
  EXPECT_EQ(scores.values, (std::vector<double>{1, 1}));
  EXPECT_TRUE(scores.failures.empty());
  EXPECT_EQ(server.calls(), 3);
  ASSERT_EQ(scores.notes.size(), 1U);
  expect_says(scores.notes[0], {"RemoteDisconnected", "asked 2 times", "and then answered"});
}

// One such answer ended the run.
TEST(HttpReward, OneBusyAnswerCostsNothing) {
  for (const char* const status :
       {"429 Too Many Requests", "503 Service Unavailable", "500 Oops", "408 Late"}) {
    std::atomic<int> busy = 1;
    const HttpServer server([&](const std::string&) {
      return busy-- > 0 ? HttpServer::reply("<html>wait", status) : HttpServer::reply("[1, 1]");
    });
    OpenOptions options = impatient();
    options.retry.outage = 5;
    const Scores scores = open_http_reward(server.url("/score"), options)->score(request_of(2));
    EXPECT_EQ(scores.values, (std::vector<double>{1, 1})) << status;
    EXPECT_TRUE(scores.failures.empty()) << status;
    EXPECT_EQ(server.calls(), 2) << status;
  }
}

TEST(HttpReward, RetryAfterIsHonored) {
  std::atomic<int> busy = 1;
  const std::string later =
      "HTTP/1.1 429 Slow down\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
  const HttpServer server(
      [&](const std::string&) { return busy-- > 0 ? later : HttpServer::reply("[1, 1]"); });
  OpenOptions options = impatient();
  options.retry.outage = 5;
  const std::unique_ptr<Reward> reward = open_http_reward(server.url("/score"), options);
  const Scores scores = reward->score(request_of(2));
  EXPECT_EQ(scores.values, (std::vector<double>{1, 1}));
  EXPECT_GE(scores.seconds, 1);
  busy = 1;
  const std::unique_ptr<Reward> short_of_time = open_http_reward(server.url("/score"), impatient());
  EXPECT_THROW(short_of_time->score(request_of(2)), RewardUnavailable);
}

TEST(HttpReward, ASecondOfRefusedConnections) {
  std::unique_ptr<HttpServer> server =
      std::make_unique<HttpServer>([](const std::string&) { return HttpServer::reply("[1, 1]"); });
  const int port = server->port();
  OpenOptions options = impatient();
  options.retry.outage = 20;
  const std::unique_ptr<Reward> reward = open_http_reward(server->url("/score"), options);
  EXPECT_EQ(reward->score(request_of(2)).values.size(), 2U);
  server.reset();
  std::thread again([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    server =
        std::make_unique<HttpServer>([](const std::string&) { return HttpServer::reply("[2, 2]"); }, port);
  });
  const Scores scores = reward->score(request_of(2));
  again.join();
  EXPECT_EQ(scores.values, (std::vector<double>{2, 2}));
  ASSERT_EQ(scores.notes.size(), 1U);
  expect_says(scores.notes[0], {"ConnectionRefusedError"});
}

TEST(HttpReward, AnOutageEndsTheRun) {
  const HttpServer server(
      [](const std::string&) { return HttpServer::reply("", "503 Service Unavailable"); });
  const std::unique_ptr<Reward> reward = open_http_reward(server.url("/score"), impatient());
  try {
    reward->score(request_of(2));
    FAIL() << "scored";
  } catch (const RewardUnavailable& error) {
    expect_says(error.what(),
                {server.url("/score"), "503 Service Unavailable", "times in", "server that is down"});
  }
}

TEST(HttpReward, AStopDuringAPauseIsAnsweredAtOnce) {
  const HttpServer server([](const std::string&) {
    return "HTTP/1.1 503 Later\r\nConnection: close\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n";
  });
  const std::unique_ptr<Reward> reward = open_http_reward(server.url("/score"), {});
  for (const bool signal : {true, false}) {
    const auto start = std::chrono::steady_clock::now();
    std::thread stopper([&] {
      while (server.calls() == (signal ? 0 : 1)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (signal) {
        base::stop_request = true;
      } else {
        reward->give_up();
      }
    });
    EXPECT_THROW(reward->score(request_of(2)), RewardUnavailable);
    stopper.join();
    base::stop_request = false;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  }
}

// ---- wrong

TEST(HttpReward, NobodyListens) {
  std::string url;
  {
    const HttpServer server([](const std::string&) { return std::string(); });
    url = server.url("/score");
  }
  expect_says(fault(url), {url, "ConnectionRefusedError", "not running"});
  const auto refusal = [](const std::string& address) {
    return message_of([&] { open_http_reward(address, {}); });
  };
  expect_says(refusal("http:///score"), {"http://host:port/path", "no host"});
  expect_says(refusal("http://host:port/"), {"http://host:port/path"});
  expect_says(refusal("http://host/a b"), {"white space"});
}

TEST(HttpReward, EveryStatusIsNamed) {
  expect_says(fault_of_reply(HttpServer::reply("who?", "404 Not Found")),
              {"status 200", "404 Not Found, who?"});
  expect_says(fault_of_reply(HttpServer::reply("", "401 Unauthorized")), {"401 Unauthorized"});
  expect_says(fault_of_reply("HTTP/1.1 302 Found\r\nLocation: /else\r\nContent-Length: 0\r\n\r\n"),
              {"302 Found"});
  expect_says(fault_of_reply(HttpServer::reply("", "204 No Content")), {"204 No Content"});
  expect_says(fault_of_reply(HttpServer::reply("out of memory", "500 Oops")),
              {"500 Internal Server Error, out of memory", "none of 2 could be scored"});
}

// A key that is renewed, a proxy in between: an endpoint that has answered is asked again.
TEST(HttpReward, AWrongAddressAfterAnswersMayPass) {
  std::atomic<int> calls = 0;
  const HttpServer server([&](const std::string&) {
    return calls++ == 1 ? HttpServer::reply("", "403 Forbidden") : HttpServer::reply("[1, 1]");
  });
  OpenOptions options = impatient();
  options.retry.outage = 5;
  const std::unique_ptr<Reward> reward = open_http_reward(server.url("/score"), options);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(reward->score(request_of(2)).values, (std::vector<double>{1, 1}));
  EXPECT_EQ(server.calls(), 3);
}

TEST(HttpReward, ASampleThatTheServerRefuses) {
  for (const char* const status : {"422 Unprocessable Entity", "500 Internal Server Error"}) {
    const HttpServer server([&](const std::string& request) {
      const Json asked = Json::parse(HttpServer::body(request));
      for (const Json& completion : asked["completions"]) {
        if (completion == "x") return HttpServer::reply("too\x1b odd", status);
      }
      return HttpServer::reply(Json(std::vector<int>(asked["completions"].size(), 4)).dump());
    });
    const Scores scores = open_http_reward(server.url("/score"), impatient())->score(request_of(3));
    EXPECT_EQ(scores.values[0] + scores.values[2], 8) << status;
    ASSERT_EQ(scores.failures.size(), 1U) << status;
    EXPECT_EQ(scores.failures[0].sample, 1);
    expect_says(scores.failures[0].what, {std::string(status).substr(0, 3), "too? odd"});
    EXPECT_FALSE(scores.broken);
  }
}

// With status 200: they cost their completions, and end the run when nothing else ever comes.
TEST(HttpReward, AnswersThatAreNone) {
  expect_says(fault_of_reply(HttpServer::reply("<html>hello")), {"{\"rewards\": [...]}", "<html>hello"});
  expect_says(fault_of_reply(HttpServer::reply(R"({"scores": [1, 2]})")), {"{\"scores\": [1, 2]}"});
  expect_says(fault_of_reply(HttpServer::reply("")), {"an empty answer"});
  expect_says(fault_of_reply(HttpServer::reply(std::string(100000, '['))), {"[[[["});
  expect_says(fault_of_reply(HttpServer::reply("[1, 2, 3]")), {"a list of 2 scores", "score returned 3"});
  expect_says(fault_of_reply("<html>not HTTP at all"), {"BadStatusLine"});
  const HttpServer page([](const std::string&) { return HttpServer::reply("<html>"); });
  const Scores scores = open_http_reward(page.url("/score"), impatient())->score(request_of(3, 7));
  ASSERT_EQ(scores.failures.size(), 3U);
  EXPECT_EQ(scores.failures[2].sample, 9);
}

TEST(HttpReward, HostileAnswersAreBounded) {
  std::string nested = "[", wide = "{", digits = "[";
  for (int i = 0; i < 900; ++i) nested += "[";
  for (int i = 0; i < 900; ++i) nested += "]";
  for (int i = 0; i < 100000; ++i) wide += "\"k" + std::to_string(i) + "\": 1, ";
  digits += std::string(3000000, '9') + ", 1]";
  for (const std::string& body :
       {nested + ", 1]", wide + "\"rewards\": [1]}", digits, std::string("[1e999, -1e999]"),
        "[" + std::string(5000000, ' ') + "1, 1]", std::string("[\"\\ud800\", {}]")}) {
    const HttpServer server([&](const std::string&) { return HttpServer::reply(body); });
    const Scores scores = open_http_reward(server.url("/score"), impatient())->score(request_of(2));
    EXPECT_FALSE(scores.failures.empty()) << body.substr(0, 30);
  }
  const HttpServer headers(
      [](const std::string&) { return "HTTP/1.1 200 OK\r\n" + std::string(200000, 'a'); });
  EXPECT_EQ(open_http_reward(headers.url("/score"), impatient())->score(request_of(2)).failures.size(), 2U);
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
  const Scores scores = open_http_reward(server.url("/score"), impatient(0.3))->score(request_of(2));
  ASSERT_EQ(scores.failures.size(), 2U);
  expect_says(scores.failures[0].what, {"no answer within 0.15 s"});
  const std::lock_guard lock(mutex);
  done = true;
  changed.notify_all();
}

// ---- secrets

TEST(HttpReward, VariablesAndPasswordsInAddresses) {
  ::setenv("HONE_TEST_TOKEN", "s3cret-token", 1);
  std::string request;
  const HttpServer server([&](const std::string& text) {
    request = text;
    return HttpServer::reply("no: " + text, "422 Odd");  // tells what it was sent
  });
  std::string url = server.url("/score?token=${HONE_TEST_TOKEN}");
  url.insert(url.find("//") + 2, "me:p%40ss@");
  const std::unique_ptr<Reward> reward = open_http_reward(url, impatient());
  const Scores scores = reward->score(request_of(2));
  EXPECT_EQ(reward->name(), "score");
  expect_says(request, {"POST /score?token=s3cret-token HTTP/1.1", "Authorization: Basic bWU6cEBzcw=="});
  ASSERT_TRUE(scores.broken);
  const std::string told = UserError(*scores.broken).what() + scores.failures[0].what + scores.notes.at(0);
  expect_says(told, {"token=${HONE_TEST_TOKEN}", "me:***@127.0.0.1", "Basic ***"});
  for (const char* const secret : {"s3cret", "p@ss", "p%40ss", "bWU6"}) {
    EXPECT_EQ(told.find(secret), std::string::npos) << secret << " in " << told;
  }
  const auto refusal = [](const std::string& address) {
    return message_of([&] { open_http_reward(address, {}); });
  };
  expect_says(refusal("https://host/?key=${HONE_TEST_NOT_SET}"), {"HONE_TEST_NOT_SET", "not set", "export"});
  expect_says(refusal("http://host/?key=abc"), {"https", "http to host", "key=***"});
  expect_says(refusal("http://me:abc@host/"), {"https", "http to host", "me:***@"});
  expect_says(refusal("http://host.127.0.0.1.example.org/${HONE_TEST_TOKEN}"), {"https"});
  expect_says(refusal("https://host/?key=***"), {"the whole address", "${NAME}"});
}

}  // namespace http_reward_test
}  // namespace hone::rewards
