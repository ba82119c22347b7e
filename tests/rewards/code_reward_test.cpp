// open-r1's rewards of code: shares of passed cases, and programs that mean harm.
#include "rewards/code/code_reward.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/helpers.h"
#include "base/stopwatch.h"
#include "rewards/python_processes.h"

namespace hone::rewards {
namespace code_reward_test {

using base::Json;

std::string block(const std::string& code) {
  return "Some words.\n```python\n" + code + "\n```\nMore words.";
}

Json info(const std::vector<std::pair<std::string, std::string>>& cases) {
  Json tests = Json::array();
  for (const auto& [input, output] : cases)
    tests.push_back({{"input", input}, {"output", output}, {"type", "stdin_stdout"}});
  return {{"language", "python"}, {"test_cases", tests}};
}

const Json kSums = info({{"1 2\n", "3\n"}, {"4 5\n", "9"}, {"6 7\n", "13"}, {"x\n", "none"}});

Request request_of(const std::vector<std::string>& completions, const std::vector<Json>& rows) {
  Request out;
  for (const std::string& text : completions) {
    out.prompts.emplace_back("Add them.");
    out.completions.push_back(Json::array({{{"role", "assistant"}, {"content", text}}}));
    out.completion_ids.push_back({1});
  }
  out.columns["verification_info"] = rows;
  return out;
}

std::unique_ptr<Reward> open_one(const std::string& word) {
  return std::move(open_rewards({word}, {}).front());
}

// One reward for all tests that take its defaults, because it starts Python. It ends with them: other tests look for processes.
std::unique_ptr<Reward>& shared() {
  static std::unique_ptr<Reward> reward;
  return reward;
}

Reward& code() {
  if (shared() == nullptr) shared() = open_one("code(exec_timeout=2)");
  return *shared();
}

class CodeReward : public ::testing::Test {
 protected:
  static void TearDownTestSuite() { shared().reset(); }
};

Scores score(Reward& reward, const std::string& program, const Json& row = kSums) {
  return reward.score(request_of({block(program)}, {row}));
}

double share(const std::string& program, const Json& row = kSums) {
  return score(code(), program, row).values.at(0);
}

TEST_F(CodeReward, GivesTheShareOfPassedCases) {
  const Scores scores = code().score(
      request_of({block("print(sum(map(int, input().split())))"), block("print(3)"), "no code",
                  block("print(9)") + block("a, b = map(int, open(0).read().split())\nprint(a + b)"),
                  "```python\nnever closed"},
                 {kSums, kSums, kSums, kSums.dump(), kSums}));
  EXPECT_EQ(scores.values, (std::vector<double>{0.75, 0.25, 0, 0.75, 0}));
  EXPECT_TRUE(scores.failures.empty());
  ASSERT_EQ(scores.extra.size(), 1U);
  EXPECT_EQ(scores.extra[0].first, "code_reward cases");
  EXPECT_EQ(scores.extra[0].second[0], "3 of 4; case 4 ended with status 1");
  EXPECT_EQ(scores.extra[0].second[1], "1 of 4; case 2 printed something else");
  EXPECT_EQ(scores.metrics,
            (std::vector<std::pair<std::string, double>>{
                {"code_reward/late", 0}, {"code_reward/failed", 0.4}, {"code_reward/no_code", 0.4}}));
  EXPECT_EQ(code().name(), "code_reward");
}

TEST_F(CodeReward, ComparesAsOpenR1Does) {
  // Lines as far as both have them, blanks at their ends aside.
  EXPECT_EQ(share("print(' 1 ')\nprint('2')", info({{"", "1\n2\n"}})), 1);
  EXPECT_EQ(share("print('1')", info({{"", "1\n2\n"}})), 1);
  EXPECT_EQ(share("print('1\\n2\\n3')", info({{"", "1\n2"}})), 1);
  EXPECT_EQ(share("print('1\\r\\n2')", info({{"", "1\n2"}})), 1);
  EXPECT_EQ(share("print('1 2')", info({{"", "1  2"}})), 0);
  EXPECT_EQ(share("print('ä😀')", info({{"", "ä😀"}})), 1);
  EXPECT_EQ(share("print(1)\nraise SystemExit(1)", info({{"", "1"}})), 0);
  EXPECT_EQ(share("import sys\nprint(sys.argv, __name__)", info({{"", "['-c'] __main__"}})), 1);
  // No program prints nothing.
  EXPECT_EQ(code().score(request_of({""}, {info({{"", ""}, {"", "1"}})})).values, std::vector<double>{0.5});
  // One that does not end in time, or prints no UTF-8, has no share of what it has passed before.
  const Json cases = info({{"a", "a"}, {"b", "b"}, {"c", "c"}});
  const Scores late = score(code(), "s = input()\nwhile s == 'b': pass\nprint(s)", cases);
  EXPECT_EQ(late.values, std::vector<double>{0});
  EXPECT_EQ(late.extra[0].second[0], "0 of 3; case 2 did not end in time");
  EXPECT_EQ(late.metrics[0].second, 1);
  EXPECT_EQ(share("import os\ns = input()\nos.write(1, s.encode() if s != 'c' else b'\\xff')", cases), 0);
}

TEST_F(CodeReward, BinaryWantsAllCases) {
  const std::unique_ptr<Reward> reward = open_one("binary_code(num_parallel=1, column=tests)");
  EXPECT_EQ(reward->name(), "binary_code_reward");
  Request request = request_of({block("print(input())"), block("print(1)")}, {});
  request.columns["tests"] = {info({{"1", "1"}, {"2", "2"}}), info({{"1", "1"}, {"2", "2"}})};
  EXPECT_EQ(reward->score(request).values, (std::vector<double>{1, 0}));
}

TEST_F(CodeReward, RowsThatCannotBeScoredAreFailures) {
  const Json other = {{"language", "javascript"}, {"test_cases", kSums["test_cases"]}};
  const Scores scores =
      code().score(request_of(std::vector<std::string>(5, block("print(3)")),
                              {other, nullptr, info({}), Json::parse(R"({"test_cases": [3]})"), kSums}));
  EXPECT_TRUE(std::isnan(scores.values[0]));
  EXPECT_EQ(scores.values[4], 0.25);
  ASSERT_EQ(scores.failures.size(), 4U);
  EXPECT_NE(scores.failures[0].what.find("javascript"), std::string::npos);
  EXPECT_FALSE(scores.broken);
  EXPECT_TRUE(code().score(request_of({block("print(3)")}, {other})).broken);
  Request without = request_of({"x"}, {kSums});
  without.columns = Json::object();
  EXPECT_THROW(code().score(without), base::UserError);
  EXPECT_EQ(required_columns("code", OpenOptions{}), std::vector<std::string>{"verification_info"});
  for (const char* const word : {"code(timeout=0)", "code(num_parallel=0)", "code(language=python)"})
    EXPECT_THROW(open_one(word), base::UserError) << word;
}

TEST_F(CodeReward, ATableOfTheOutputsPasses) {
  const Json row = info({{"1\n2\"'\\ ä😀", "x\ny"}, {"", "z"}});
  const auto answer = answer_by_table(row);
  ASSERT_TRUE(answer);
  EXPECT_EQ(code().score(request_of({*answer}, {row})).values, std::vector<double>{1});
  EXPECT_FALSE(answer_by_table("42"));
}

// Whether programs are in namespaces here: others could end this test with all that runs beside it.
bool are_shut_in() {
  return share("import os\nprint(os.getpid() < 9)", info({{"", "True"}})) == 1;
}

TEST_F(CodeReward, HostileProgramsEarnNothingAndHurtNothing) {
  if (!are_shut_in()) GTEST_SKIP() << "this system gives no namespace of processes";
  const base::TempFolder folder;
  const std::string kept = folder / "kept";
  std::ofstream(kept) << "kept";
  ::chmod(folder.path().c_str(), 0777);
  ::chmod(kept.c_str(), 0666);
  const std::vector<std::string> programs = {
      "while True: pass",
      "import time\ntime.sleep(1000)",
      "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
      "import sys\nwhile True: sys.stdout.write('x' * (1 << 20))",
      "import os\nos._exit(0)",
      "import os\nos.kill(-1, 9)\nos.kill(os.getppid(), 9)\nos.killpg(0, 9)",
      "import sys\nwhile True: sys.stdin.read()",
      "a = bytearray(8 << 30)",
      "a = []\nwhile True: a.append(bytes(1 << 20))",
      "import ctypes\nctypes.string_at(0)",
      "import os\nos.closerange(0, 1000)",
      "import signal\nfor n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n  except Exception: pass\nwhile True: pass",
      "import os\nfor n in range(1000):\n  with open(f'f{n}', 'wb') as f: f.write(bytes(15 << 20))",
      "import socket\nsocket.create_connection(('192.0.2.1', 80), 1)",
      "import threading\nwhile True: threading.Thread(target=threading.Event().wait).start()",
      "def f(): f()\nf()",
      "import os\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    while True: pass\nos._exit(3)",
      "import os\nos.execv('/bin/sh', ['sh', '-c', 'rm -rf " + kept + "; echo > " + kept + "; sleep 100'])",
      "import gc, sys\nf = sys._getframe()\nwhile f.f_back: f = f.f_back\nprint(f.f_globals, gc.get_objects())",
      "open('/proc/sys/kernel/hostname', 'w').write('x')",
      "import sys\nsys.stdout.buffer.write(b'\\xff' * 100)",
      "(",
  };
  const base::Clock::time_point begun = base::Clock::now();
  std::vector<std::string> texts;
  for (const std::string& program : programs) texts.push_back(block(program));
  texts.push_back(block("print(sum(map(int, input().split())))"));  // beside them a good one keeps its score
  const Scores scores = code().score(request_of(texts, std::vector<Json>(texts.size(), kSums)));
  for (std::size_t i = 0; i < programs.size(); ++i) EXPECT_EQ(scores.values[i], 0) << programs[i];
  EXPECT_EQ(scores.values.back(), 0.75);
  EXPECT_TRUE(scores.failures.empty());
  EXPECT_LT(base::seconds_since(begun), 90);
  std::ifstream file(kept);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "kept");
  EXPECT_EQ(share("import os\nprint(len(os.listdir('.')), len(os.environ) < 12)", info({{"", "0 True"}})), 1);
}

bool is_below_us(int pid) {
  while (pid > 1 && pid != ::getpid()) pid = process_facts(std::to_string(pid)).parent;
  return pid == ::getpid();
}

// Processes below this one whose command line has `text`.
std::vector<int> ours_with(const std::string& text) {
  std::vector<int> out;
  for (const auto& place : std::filesystem::directory_iterator("/proc")) {
    const std::string name = place.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const ProcessFacts facts = process_facts(name);
    std::ifstream file(place.path() / "cmdline");
    const std::string line(std::istreambuf_iterator<char>(file), {});
    if (facts.pid != 0 && facts.state != 'Z' && line.find(text) != std::string::npos &&
        is_below_us(facts.pid))
      out.push_back(facts.pid);
  }
  return out;
}

TEST_F(CodeReward, AProcessThatWasEndedIsStartedAgain) {
  const std::unique_ptr<Reward> reward = open_one("code(name=restarted)");
  EXPECT_EQ(score(*reward, "print(3)").values, std::vector<double>{0.25});
  for (const int pid : ours_with("HONE_RUNS_PROGRAMS")) EXPECT_EQ(::kill(pid, SIGKILL), 0);
  const Scores again = reward->score(request_of({block("print(3)"), block("print(9)")}, {kSums, kSums}));
  EXPECT_EQ(again.values, (std::vector<double>{0.25, 0.25}));
  ASSERT_EQ(again.notes.size(), 1U);
  EXPECT_NE(again.notes[0].find("one by one"), std::string::npos);
}

}  // namespace code_reward_test
}  // namespace hone::rewards
