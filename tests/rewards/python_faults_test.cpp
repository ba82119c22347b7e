// Functions that raise, hang, die, answer nonsense or cannot be loaded, in real Python processes.
#include <sys/wait.h>

#include <csignal>
#include <thread>

#include "rewards/python_helpers.h"
#include "rewards/python_processes.h"

namespace hone::rewards {
namespace python_faults_test {

void expect_failure(const Scores& scores, std::size_t at, std::int64_t sample,
                    std::initializer_list<std::string_view> says) {
  ASSERT_LT(at, scores.failures.size());
  EXPECT_EQ(scores.failures[at].sample, sample);
  expect_says(scores.failures[at].what, says);
}

// ---- raises

TEST(PythonFaults, TheSampleThatRaisesIsNamed) {
  const PythonFile file(R"(
import json
def helper(text):
    if text == "xx": raise ValueError("two\nlines of " + text)
    return len(text)
def score(completions, log_extra, log_metric, **kwargs):
    values = [helper(c) for c in completions]
    log_extra("twice", [2 * v for v in values])
    log_metric("length", sum(values) / len(values))
    return values
def library(completions, **kwargs):
    return [json.loads(c or "1") for c in completions]
)");
  const Scores scores = file.score("score", request_of(4, 20));
  EXPECT_EQ(scores.values[0] + scores.values[1] + scores.values[3], 4);
  EXPECT_TRUE(is_none(scores.values[2]));
  ASSERT_EQ(scores.failures.size(), 1U);
  expect_failure(scores, 0, 22, {"ValueError: two lines of xx (reward.py:4 in helper)"});
  ASSERT_EQ(scores.notes.size(), 1U);
  expect_says(scores.notes[0], {"ValueError", "called one by one"});
  EXPECT_EQ(scores.extra[0].second, (std::vector<Json>{0, 2, nullptr, 6}));
  ASSERT_EQ(scores.metrics.size(), 1U);
  EXPECT_DOUBLE_EQ(scores.metrics[0].second, 4.0 / 3);

  // The user's own line, not the library's.
  const Scores deep = file.score("library", request_of(3));
  expect_failure(deep, 0, 1, {"JSONDecodeError", "(reward.py:12 in "});
}

TEST(PythonFaults, EverySampleRaises) {
  const PythonFile file(R"(
def score(completions, answer, **kwargs):
    return [c + a for c, a in zip(completions, answer)]
)");
  Request request = request_of(3, 40);
  request.prompts[0] = "é" + std::string(400, 'p');
  expect_says(message_of([&] { throw_broken(file.score("score", request)); }),
              {"reward.py:score", "TypeError", "(reward.py:3 in", "in all of 3 samples",
               "sample 40: prompt \"é", "ppp...", "completion \"\"", "Traceback", "return [c + a for c, a"});
  expect_says(file.fault("score", 1), {"TypeError", "sample 0", "completion \"\""});
}

TEST(PythonFaults, SystemExitAndOddExceptions) {
  const PythonFile file(R"(
import sys
class Odd(BaseException):
    def __str__(self): raise RuntimeError("no text")
def leave(completions, **kwargs): sys.exit(3)
def odd(completions, **kwargs): raise Odd()
def deep(completions, **kwargs): return deep(completions, **kwargs)
async def awaits(completions, **kwargs): raise KeyError("async")
def lazy(completions, **kwargs): return (1 / 0 for c in completions)
)");
  expect_says(file.fault("leave"), {"SystemExit: 3 (reward.py:5 in leave)"});
  expect_says(file.fault("odd"), {"Odd (reward.py:6 in odd)"});
  expect_says(file.fault("deep"), {"RecursionError", "reward.py:7 in deep"});
  expect_says(file.fault("awaits"), {"KeyError: 'async' (reward.py:8 in awaits)"});
  expect_says(file.fault("lazy"), {"ZeroDivisionError: division by zero (reward.py:9 in <genexpr>)"});
}

// ---- answers nonsense

TEST(PythonFaults, WrongCountsAndTypes) {
  const PythonFile file(R"(
def one(completions, **kwargs): return [1.0]
def many(completions, **kwargs): return [1.0] * 5
def none(completions, **kwargs): pass
def number(completions, **kwargs): return 1.0
def mapping(completions, **kwargs): return {c: 1 for c in completions}
def extra(completions, log_extra, **kwargs):
    log_extra("lengths", [1])
    return [1] * len(completions)
def text(completions, log_extra, **kwargs):
    log_extra("lengths", "abc")
    return [1] * len(completions)
def metric(completions, log_metric, **kwargs):
    log_metric("m", "high")
    return [1] * len(completions)
)");
  expect_says(file.fault("one"), {"reward.py:one", "a list of 3 scores", "one returned 1"});
  expect_says(file.fault("many"), {"a list of 3 scores", "many returned 5"});
  expect_says(file.fault("none"), {"none returned None", "a `return` is missing"});
  expect_says(file.fault("number"), {"number returned a float"});
  expect_says(file.fault("mapping"), {"mapping returned a dict"});
  expect_says(file.fault("extra"), {"log_extra('lengths', ...) wants 3 values", "1 values"});
  expect_says(file.fault("text"), {"wants a list", "reward.py:11 in text"});
  expect_says(file.fault("metric"), {"could not convert string to float", "reward.py:14 in metric"});
}

TEST(PythonFaults, AHostileWorkerIsReplaced) {
  const PythonFile file(R"(
import os
def huge(completions, **kwargs):
    os.write(3, b"\xff\xff\xff\x7f" + b"a" * 1000)  # a frame of 2 GB
    return [1] * len(completions)
def garbled(completions, **kwargs):
    if len(completions) > 1: os.write(3, b"\x02\x00\x00\x00{]")
    return [1] * len(completions)
)");
  const Scores huge = file.score("huge", request_of(1));
  expect_failure(huge, 0, 0, {"sent a broken message", "a frame of 2147483647 bytes"});
  const Scores garbled = file.score("garbled", request_of(2));
  EXPECT_EQ(garbled.values, (std::vector<double>{1, 1}));
  EXPECT_EQ(garbled.notes.size(), 2U);
}

// ---- hangs

TEST(PythonFaults, TheSampleThatHangsIsNamed) {
  const PythonFile file(R"(
import subprocess, time
def score(completions, **kwargs):
    if "xx" in completions:
        subprocess.run(["sleep", "1000"])
    return [len(c) for c in completions]
)",
                        with_timeout(3));
  const std::unique_ptr<Reward> reward = file.open("score");
  const Scores scores = reward->score(request_of(4, 8));
  EXPECT_EQ(scores.values[0] + scores.values[1] + scores.values[3], 4);
  ASSERT_EQ(scores.failures.size(), 1U);
  expect_failure(scores, 0, 10, {"no answer within 1.5 s (reward.py:5 in score)"});
  ASSERT_FALSE(scores.notes.empty());
  expect_says(scores.notes[0], {"no answer within 3 s (reward.py:5 in score)", "called one by one"});
  EXPECT_EQ(reward->score(request_of(2)).values, (std::vector<double>{0, 1}));
}

TEST(PythonFaults, HangingForAllEndsAndIsToldAndItsChildrenEnd) {
  const PythonFile file(R"(
import asyncio, os, subprocess
async def score(completions, **kwargs):
    child = subprocess.Popen(["sleep", "1000"])
    with open(os.path.dirname(__file__) + "/child", "w") as f: f.write(str(child.pid))
    await asyncio.sleep(1000)
)",
                        with_timeout(1));
  const std::unique_ptr<Reward> reward = file.open("score");
  const Scores scores = reward->score(request_of(20));
  ASSERT_EQ(scores.failures.size(), 20U);
  for (const double value : scores.values) EXPECT_TRUE(is_none(value));
  expect_says(scores.failures[0].what, {"no answer within 0.5 s"});
  expect_says(scores.failures[19].what,
              {"not called one by one: the time-out of 1 s is used up", "no answer within 1 s"});
  EXPECT_LT(scores.seconds, 30);
  const int child = number_in(file.folder() / "child");
  ASSERT_GT(child, 0);
  EXPECT_TRUE(comes_true([&] { return !runs(child); }));
}

TEST(PythonFaults, WhatAWorkerHasStartedDiesWithIt) {
  const PythonFile file(R"(
import os, subprocess, time
def score(completions, **kwargs):
    own = subprocess.Popen(["sleep", "1000"], start_new_session=True)  # not in our process group
    with open(os.path.dirname(__file__) + "/child", "w") as f: f.write(str(own.pid))
    time.sleep(1000)
)",
                        with_timeout(0.4));
  const std::unique_ptr<Reward> reward = file.open("score");
  EXPECT_TRUE(reward->score(request_of(1)).broken);
  const int child = number_in(file.folder() / "child");
  ASSERT_GT(child, 0);
  EXPECT_TRUE(comes_true([&] { return !runs(child); }));
}

// ---- dies

TEST(PythonFaults, AWorkerKilledByChanceIsReplaced) {
  const PythonFile file(R"(
import os, signal
def score(completions, **kwargs):
    mark = os.path.dirname(__file__) + "/once"
    if not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return [len(c) for c in completions]
)");
  const std::unique_ptr<Reward> reward = file.open("score");
  const Scores scores = reward->score(request_of(3));
  EXPECT_EQ(scores.values, (std::vector<double>{0, 1, 2}));
  EXPECT_TRUE(scores.failures.empty());
  ASSERT_EQ(scores.notes.size(), 1U);
  expect_says(scores.notes[0], {"the worker was killed by SIGKILL", "repeated"});
}

TEST(PythonFaults, TheSampleThatKillsTheWorkerIsNamed) {
  const PythonFile file(R"(
import ctypes, os, sys
def crash(completions, **kwargs):
    if "x" in completions: ctypes.string_at(0)
    return [len(c) for c in completions]
def leave(completions, **kwargs):
    if "x" in completions:
        print("leaving now")
        sys.stdout.flush()
        os._exit(7)
    return [len(c) for c in completions]
)");
  const Scores crash = file.score("crash", request_of(3));
  EXPECT_EQ(crash.values[2], 2);
  ASSERT_EQ(crash.failures.size(), 1U);
  expect_failure(crash, 0, 1, {"the worker was killed by SIGSEGV (reward.py:4 in crash)"});
  const Scores leave = file.score("leave", request_of(3, 5));
  expect_failure(leave, 0, 6, {"the worker ended with status 7", "its last output: leaving now"});
  file.close();
  EXPECT_TRUE(our_children().empty()) << "workers or zombies are left";
}

TEST(PythonFaults, DyingForAllEndsAndIsTold) {
  const PythonFile file("import os\ndef score(completions, **kwargs): os.abort()\n");
  const Scores scores = file.score("score", request_of(12));
  ASSERT_EQ(scores.failures.size(), 12U);
  expect_says(scores.failures[0].what, {"killed by SIGABRT (reward.py:2 in score)"});
  expect_says(scores.failures[11].what, {"not tried: 8 workers have ended"});
}

TEST(PythonFaults, AWorkerThatDiedBetweenCallsIsReplaced) {
  const PythonFile file("import os\ndef pid(completions, **kwargs): return [os.getpid()]\n");
  const std::unique_ptr<Reward> reward = file.open("pid");
  const int pid = static_cast<int>(reward->score(request_of(1)).values[0]);
  ::kill(pid, SIGTERM);
  EXPECT_TRUE(comes_true([&] { return !runs(pid); }));
  const Scores scores = reward->score(request_of(1));
  EXPECT_NE(scores.values[0], pid);
  ASSERT_EQ(scores.notes.size(), 1U);
  expect_says(scores.notes[0], {"SIGTERM"});
}

TEST(PythonFaults, OrphansEnd) {
  const PythonFile file(R"(
import os
def score(completions, **kwargs):
    with open(os.path.dirname(__file__) + "/worker", "w") as f: f.write(str(os.getpid()))
    while True: pass
)");
  const pid_t run = ::fork();
  if (run == 0) {
    try {
      file.score("score", request_of(1));
    } catch (...) {
    }
    ::_exit(0);
  }
  ASSERT_GT(run, 0);
  ASSERT_TRUE(comes_true([&] { return number_in(file.folder() / "worker") > 0; }));
  const int worker = number_in(file.folder() / "worker");
  EXPECT_TRUE(runs(worker));
  ::kill(run, SIGKILL);
  int status = 0;
  ::waitpid(run, &status, 0);
  EXPECT_TRUE(comes_true([&] { return !runs(worker); }));
}

// kill -9 of hone while its workers are idle: what their functions have started ends too, daemons included.
TEST(PythonFaults, GrandchildrenOfAKilledRunEnd) {
  const PythonFile file(R"(
import os, subprocess
folder = os.path.dirname(__file__)
def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(folder + "/daemon", "w") as f: f.write(str(os.getpid()))
            os.execvp("sleep", ["sleep", "1000"])
        os._exit(0)
def score(completions, **kwargs):
    daemon()
    for name, alone in (("child", False), ("session", True)):
        child = subprocess.Popen(["sleep", "1000"], start_new_session=alone)
        with open(folder + "/" + name, "w") as f: f.write(str(child.pid))
    while not os.path.exists(folder + "/daemon"): pass
    with open(folder + "/worker", "w") as f: f.write(str(os.getpid()))
    return [1] * len(completions)
)");
  const pid_t run = ::fork();
  if (run == 0) {
    try {
      const std::unique_ptr<Reward> reward = file.open("score");
      reward->score(request_of(1));
      ::pause();
    } catch (...) {
    }
    ::_exit(0);
  }
  ASSERT_GT(run, 0);
  ASSERT_TRUE(comes_true([&] { return number_in(file.folder() / "worker") > 0; }));
  ::kill(run, SIGKILL);
  int status = 0;
  ::waitpid(run, &status, 0);
  for (const char* const name : {"worker", "child", "session", "daemon"}) {
    const int pid = number_in(file.folder() / name);
    EXPECT_GT(pid, 0) << name;
    EXPECT_TRUE(comes_true([&] { return !runs(pid); }, 5)) << name;
  }
}

TEST(PythonFaults, WorkersEndInPeace) {
  const PythonFile file(R"(
import atexit, os
atexit.register(lambda: open(os.path.dirname(__file__) + "/clean", "w").close())
def score(completions, **kwargs): return [1] * len(completions)
)");
  file.score("score", request_of(1));
  file.close();
  EXPECT_TRUE(std::filesystem::exists(file.folder() / "clean"));
  EXPECT_TRUE(our_children().empty());
}

// ---- cannot start

TEST(PythonFaults, NoInterpreter) {
  PythonFile file("def score(completions, **kwargs): return [1] * len(completions)\n");
  file.options().python = "python3-of-nobody";
  expect_says(file.refusal("score"), {"'python3-of-nobody'", "No such file", "--python"});
  file.options().python = (file.folder() / "reward.py").string();
  expect_says(file.refusal("score"), {"Permission denied"});
  file.options().python = "true";
  expect_says(file.refusal("score"), {"a Python interpreter (3.8 or later)", "true ended with status 0"});
  file.options().python = "cat";
  expect_says(file.refusal("score"), {"cat ended with status 1", "It printed:", "cat:"});
}

TEST(PythonFaults, NoFileOrFunction) {
  const PythonFile file(R"(
import os
RATE = 3
class Judge: pass
def score_length(completions, **kwargs): return [1] * len(completions)
def score_format(completions, **kwargs): return [1] * len(completions)
def _hidden(): pass
)");
  expect_says(file.refusal("score_lenght"),
              {"a function score_lenght in reward.py", "it has score_length, score_format",
               "did you mean score_length"});
  expect_says(file.refusal("RATE"), {"a int"});
  expect_says(file.refusal("Judge"), {"a class", "an instance"});
  const auto refusal = [](const std::string& word) {
    return message_of([&] { open_python_rewards({word}, {}); });
  };
  expect_says(refusal((file.folder() / "rewards.py:score").string()),
              {"no such file", "rewards.py", "Did you mean 'reward.py'?"});
  expect_says(refusal("/no/such/folder/r.py:score"), {"no such file"});
  expect_says(refusal(file.folder().string() + ":score"), {"something else of this name"});
  expect_says(refusal(file.path()), {"no function", "path/to/file.py:function"});
  expect_says(refusal(file.path() + ":"), {"no function"});
  expect_says(refusal("score"), {"no module and function"});
}

// A file of the user's that has the name of a module of the standard library.
TEST(PythonFaults, NamesOfTheStandardLibrary) {
  const std::filesystem::path before = std::filesystem::current_path();
  const PythonFile file(R"(
import helper_of_mine
async def score(completions, **kwargs): return [helper_of_mine.ONE] * len(completions)
)");
  base::put(file.folder() / "helper_of_mine.py", "ONE = 1\n");
  for (const char* const name :
       {"queue", "json", "struct", "types", "threading", "traceback", "ctypes", "select", "resource",
        "asyncio", "difflib", "socket", "http", "signal", "inspect"}) {
    base::put(file.folder() / (std::string(name) + ".py"), "raise RuntimeError('not the library')\n");
  }
  std::filesystem::current_path(file.folder());
  const auto reward = open_python_rewards({"reward.py:score"}, {});
  EXPECT_EQ(reward.front()->score(request_of(2)).values, (std::vector<double>{1, 1}));
  expect_says(file.refusal("scor"), {"did you mean score"});
  const auto two = open_python_rewards({"reward.py:score", "http://127.0.0.1:1/score"}, {});
  EXPECT_EQ(two.size(), 2U);
  std::filesystem::current_path(before);
}

TEST(PythonFaults, AFileIsImportedOnceAWorker) {
  const PythonFile file(R"(
import os
with open(os.path.dirname(os.path.realpath(__file__)) + "/imports", "a") as f: f.write("x")
def one(completions, answer, **kwargs): return [1] * len(completions)
def two(completions, **kwargs): return [2] * len(completions)
)");
  base::put(file.folder() / "other.py",
            "import reward\ndef three(completions, **kwargs): return [3] * len(completions)\n");
  std::filesystem::create_symlink("reward.py", file.folder() / "link.py");
  const std::vector<std::string> words = {(file.folder() / "other.py").string() + ":three", file.word("one"),
                                          file.word("two"), (file.folder() / "link.py").string() + ":two"};
  const auto rewards = open_rewards(words, {});
  for (std::size_t i = 0; i < words.size(); ++i) {
    EXPECT_EQ(required_columns(words[i], *rewards[i]).size(), i == 1 ? 1U : 0U);
    rewards[i]->score(request_of(1));
  }
  EXPECT_EQ(base::read_text(file.folder() / "imports"), "x");
}

TEST(PythonFaults, ImportsThatFail) {
  const auto refusal = [](std::string_view text) { return PythonFile(text).refusal("score"); };
  expect_says(refusal("x = 1\nimport no_such_package\n"),
              {"reward.py imports without an error", "Traceback", "reward.py\", line 2",
               "No module named 'no_such_package'", "Python is /"});
  const std::string syntax = refusal("def score(:\n    pass\n");
  expect_says(syntax, {"line 1", "SyntaxError: invalid syntax"});
  EXPECT_EQ(syntax.find("importlib"), std::string::npos) << syntax;
  expect_says(refusal("import sys\nsys.exit('not today')\n"), {"SystemExit: not today"});
  expect_says(refusal("import os\nprint('bye')\nimport sys; sys.stdout.flush(); os._exit(4)\n"),
              {"ended with status 4", "It printed:\nbye"});
}

TEST(PythonFaults, ParametersThatTrlCouldNotPass) {
  const auto refusal = [](std::string_view text) { return PythonFile(text).refusal("score"); };
  expect_says(refusal("def score(prompts, completions): pass\n"),
              {"score does not take completion_ids, trainer_state, log_extra, log_metric", "**kwargs"});
  expect_says(refusal("def score(completions, /, **kwargs): pass\n"), {"completions by position only"});
  expect_says(refusal("def score(completion, **kwargs): pass\n"),
              {"score wants 'completion'", "'completions'"});
  const PythonFile all(
      "def score(prompts, completions, completion_ids, trainer_state, log_extra, log_metric): return [1] * "
      "3\n");
  expect_says(all.fault("score"), {"score does not take answer", "**kwargs is missing"});
  Request request = request_of(3);
  request.columns["prompts"] = Json::array({1, 2, 3});
  expect_says(message_of([&] { all.score("score", request); }), {"'prompts'", "rename them in the data"});
}

}  // namespace python_faults_test
}  // namespace hone::rewards
