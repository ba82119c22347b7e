// Functions that do what they should, in real Python processes: what they are given and what comes back.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "rewards/python_helpers.h"

namespace hone::rewards {
namespace python_reward_test {

TEST(PythonReward, GivesWhatTrlGives) {
  const PythonFile file(R"(
def check(prompts, completions, completion_ids, answer, trainer_state, log_extra, log_metric):
    assert prompts == ["prompt 0", "prompt 1", "prompt 2"], prompts
    assert completions == ["", "x", "xx"], completions
    assert completion_ids == [[0, 7], [1, 7], [2, 7]], completion_ids
    assert answer == [0, 10, 20], answer
    assert trainer_state.global_step == 12 and trainer_state.log_history == [{"loss": 1.5}]
    log_extra("first", [p[0] for p in prompts])
    for i in range(3):
        log_extra("one by one", [i])
    log_metric("mean length", 1)
    log_metric("mean length", 2.5)
    log_metric("nan", float("nan"))
    return [len(c) for c in completions]
)");
  Request request = request_of(3);
  request.trainer_state = {{"global_step", 12}, {"log_history", {{{"loss", 1.5}}}}};
  const std::unique_ptr<Reward> reward = file.open("check");
  EXPECT_EQ(reward->name(), "check");
  EXPECT_EQ(reward->parallel_calls(), 1);
  const Scores scores = reward->score(request);
  EXPECT_EQ(scores.values, (std::vector<double>{0, 1, 2}));
  EXPECT_TRUE(scores.failures.empty());
  EXPECT_TRUE(scores.notes.empty());
  EXPECT_GT(scores.seconds, 0);
  ASSERT_EQ(scores.extra.size(), 2U);
  EXPECT_EQ(scores.extra[0].first, "first");
  EXPECT_EQ(scores.extra[0].second, (std::vector<Json>{"p", "p", "p"}));
  EXPECT_EQ(scores.extra[1].second, (std::vector<Json>{0, 1, 2}));
  ASSERT_EQ(scores.metrics.size(), 3U);
  EXPECT_EQ(scores.metrics[1], (std::pair<std::string, double>{"mean length", 2.5}));
  EXPECT_TRUE(std::isnan(scores.metrics[2].second));
  EXPECT_TRUE(reward->score(request_of(0)).values.empty());
}

TEST(PythonReward, KeepsWhatAFunctionPrints) {
  const PythonFile file(R"(
import os, sys
def loud(prompts, completions, **kwargs):
    print("seen", len(completions))
    print("to stderr", file=sys.stderr)
    os.system("echo of a child")
    return [1.0] * len(completions)
def picky(prompts, completions, **kwargs):
    print("called with", completions)
    if len(completions) > 1:
        raise ValueError("one by one, please")
    return [2.0]
def dies(prompts, completions, **kwargs):
    print("last words", flush=True)
    os._exit(3)
def quiet(prompts, completions, **kwargs):
    return [0.0] * len(completions)
)");
  const Scores loud = file.score("loud", request_of(3, 8));
  ASSERT_EQ(loud.printed.size(), 1U);
  EXPECT_EQ(loud.printed[0].first, 8);
  EXPECT_EQ(loud.printed[0].count, 3);
  for (const char* line : {"seen 3\n", "to stderr\n", "of a child\n"}) {
    EXPECT_NE(loud.printed[0].text.find(line), std::string::npos) << loud.printed[0].text;
  }
  EXPECT_TRUE(file.score("quiet", request_of(2)).printed.empty());
  const Scores picky = file.score("picky", request_of(2));
  ASSERT_EQ(picky.printed.size(), 3U);
  EXPECT_EQ(picky.printed[2].first, 1);
  EXPECT_EQ(picky.printed[2].count, 1);
  EXPECT_EQ(picky.printed[2].text, "called with ['x']\n");
  const Scores died = file.score("dies", request_of(1));
  ASSERT_FALSE(died.printed.empty());
  EXPECT_NE(died.printed[0].text.find("last words"), std::string::npos);
}

TEST(PythonReward, RestartsWithoutWhatCallsHaveLeft) {
  const PythonFile file(R"(
calls = 0
def check(completions, **kwargs):
    global calls
    calls += 1
    return [float(calls)] * len(completions)
)");
  const std::unique_ptr<Reward> reward = file.open("check");
  EXPECT_EQ(reward->score(request_of(1)).values, std::vector<double>{1});
  EXPECT_EQ(reward->score(request_of(1)).values, std::vector<double>{2});
  reward->reset();
  EXPECT_EQ(reward->score(request_of(1)).values, std::vector<double>{1});
}

TEST(PythonReward, ConversationsArriveAsMessages) {
  const PythonFile file(R"(
def check(prompts, completions, **kwargs):
    return [float(p[0]["role"] == "user" and c[0]["content"] == "é 你") for p, c in zip(prompts, completions)]
)");
  Request request = request_of(1);
  request.prompts[0] = Json::array({{{"role", "user"}, {"content", "hello"}}});
  request.completions[0] = Json::array({{{"role", "assistant"}, {"content", "é 你"}}});
  EXPECT_EQ(file.score("check", request).values, std::vector<double>{1});
}

TEST(PythonReward, EveryKindOfNumberCounts) {
  const PythonFile file(R"(
class Scalar:  # as numpy's and torch's
    def __float__(self): return 0.25
class Whole:
    def __index__(self): return 4
def kinds(completions, **kwargs):
    return iter([True, 2, None, Scalar(), Whole(), 0.5])
def bad(completions, **kwargs):
    return (float("nan"), float("inf"), -float("inf"), "1.0", [1], 10**400)
)");
  const Scores good = file.score("kinds", request_of(6));
  EXPECT_TRUE(is_none(good.values[2]));
  EXPECT_TRUE(good.failures.empty());
  EXPECT_EQ(good.values[0] + good.values[1] + good.values[3] + good.values[4] + good.values[5],
            1 + 2 + 0.25 + 4 + 0.5);

  const Scores bad = file.score("bad", request_of(6, 100));
  ASSERT_EQ(bad.failures.size(), 6U);
  const std::vector<std::string> whats{"NaN",
                                       "infinity",
                                       "-infinity",
                                       "not a number: '1.0'",
                                       "not a number: [1]",
                                       "not a number: OverflowError"};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_TRUE(is_none(bad.values[i]));
    EXPECT_EQ(bad.failures[i].sample, static_cast<std::int64_t>(100 + i));
    EXPECT_EQ(bad.failures[i].what.substr(0, whats[i].size()), whats[i]);
  }
}

TEST(PythonReward, AsynchronousAndCallableForms) {
  const PythonFile file(R"(
import asyncio, functools
loops = set()
async def awaited(completions, **kwargs):
    async def one(c):
        await asyncio.sleep(0.01)
        return len(c)
    loops.add(id(asyncio.get_running_loop()))  # clients stay bound to one loop
    return [x + 100 * len(loops) for x in await asyncio.gather(*map(one, completions))]
class Judge:
    def __call__(self, completions, **kwargs): return [1] * len(completions)
class AsyncJudge:
    async def __call__(self, completions, **kwargs): return [2] * len(completions)
judge, async_judge = Judge(), AsyncJudge()
def scaled(scale, completions, **kwargs): return [scale * len(c) for c in completions]
tripled = functools.partial(scaled, 3)
def late(completions, **kwargs):
    return AsyncJudge()(completions)
)");
  const std::vector<std::string> names{"awaited", "judge", "async_judge", "tripled", "late"};
  std::vector<std::string> words;
  for (const std::string& name : names) words.push_back(file.word(name));
  const auto rewards = open_python_rewards(words, {});
  EXPECT_EQ(rewards[0]->score(request_of(3)).values, (std::vector<double>{100, 101, 102}));
  EXPECT_EQ(rewards[0]->score(request_of(3)).values, (std::vector<double>{100, 101, 102}));
  EXPECT_EQ(rewards[1]->score(request_of(2)).values, (std::vector<double>{1, 1}));
  EXPECT_EQ(rewards[2]->score(request_of(2)).values, (std::vector<double>{2, 2}));
  EXPECT_EQ(rewards[3]->score(request_of(3)).values, (std::vector<double>{0, 3, 6}));
  EXPECT_EQ(rewards[4]->score(request_of(1)).values, std::vector<double>{2});
  EXPECT_EQ(rewards[1]->name(), "Judge");
  EXPECT_EQ(rewards[3]->name(), "scaled");
}

// math_verify, for one, limits its own time with an alarm, which Python takes in the main thread only.
TEST(PythonReward, AlarmsWork) {
  const PythonFile file(R"(
import signal, time
def ring(*_): raise TimeoutError()
def score(completions, **kwargs):
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try: time.sleep(1000)
    except TimeoutError: return [1] * len(completions)
)");
  EXPECT_EQ(file.score("score", request_of(2)).values, (std::vector<double>{1, 1}));
}

TEST(PythonReward, ImportPathsAndNeighbors) {
  const base::TempFolder folder;
  std::filesystem::create_directories(folder / "my_pack/inner");
  base::put(folder / "my_pack/__init__.py", "");
  base::put(folder / "my_pack/inner/__init__.py", "");
  base::put(folder / "my_pack/inner/scores.py",
            "def one(completions, **kwargs): return [1] * len(completions)\n");
  base::put(folder / "helper.py", "VALUE = 5\n");
  // "json.py" must not take the place of Python's json, and its folder is on sys.path.
  std::filesystem::create_directories(folder / "other");
  base::put(folder / "other/neighbour.py", "VALUE = 7\n");
  base::put(folder / "other/json-scores.py",
            "import json, neighbour\n"
            "def seven(completions, **kwargs): return json.loads('[' + ','.join([str(neighbour.VALUE)] * "
            "len(completions)) + ']')\n");
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const auto rewards = open_python_rewards({"my_pack.inner.scores.one", "other/json-scores.py:seven"}, {});
  const std::string missing = message_of([] { open_python_rewards({"my_pack.outer.one"}, {}); });
  const std::string nothing = message_of([] { open_python_rewards({"my_pack.inner.scores.two"}, {}); });
  std::filesystem::current_path(here);
  EXPECT_EQ(rewards[0]->score(request_of(2)).values, (std::vector<double>{1, 1}));
  EXPECT_EQ(rewards[1]->score(request_of(2)).values, (std::vector<double>{7, 7}));
  expect_says(missing,
              {"my_pack.outer.one", "a module my_pack.outer", "ModuleNotFoundError", "working folder"});
  expect_says(nothing, {"a function two in my_pack.inner.scores", "it has one"});
}

TEST(PythonReward, NeededColumns) {
  const PythonFile file(R"(
def wants(prompts, completions, answer, *, level, style="short", **kwargs): return [0.0] * len(prompts)
def nothing(completions, **kwargs): return [0.0] * len(completions)
)");
  EXPECT_EQ(python_required_columns(file.word("wants"), {}), (std::vector<std::string>{"answer", "level"}));
  EXPECT_TRUE(python_required_columns(file.word("nothing"), {}).empty());
  expect_says(file.fault("wants"), {"a column 'level', which wants wants", "'answer'"});
}

TEST(PythonReward, PrintsStayAwayFromTheProtocolAndStdinIsEmpty) {
  const PythonFile file(R"(
import os, subprocess, sys
print("at import " * 100)
def chatty(completions, **kwargs):
    print("x" * 300000)
    sys.stderr.write("\ud800 not text\n")
    os.write(1, b"\xff\x00 raw")
    subprocess.run(["echo", "from a child"])
    return [len(sys.stdin.read()) for _ in completions]
)");
  EXPECT_EQ(file.score("chatty", request_of(3)).values, (std::vector<double>{0, 0, 0}));
}

TEST(PythonReward, WorkersHaveNoneOfOurDescriptors) {
  const int extra = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as others open files
  const int high = ::fcntl(extra, F_DUPFD, 200);
  const PythonFile file(R"(
import os
def count(completions, **kwargs):
    return [len([d for d in os.listdir("/proc/self/fd") if int(d) > 3 and os.path.exists("/proc/self/fd/" + d)
                 and "socket" not in os.readlink("/proc/self/fd/" + d) and "null" in os.readlink("/proc/self/fd/" + d)])]
)");
  EXPECT_EQ(file.score("count", request_of(1)).values, std::vector<double>{0});
  ::close(high);
  ::close(extra);
}

TEST(PythonReward, BigMessagesDoNotDeadlock) {
  const PythonFile file(R"(
def long(completions, log_extra, **kwargs):
    print("y" * 5_000_000)
    log_extra("copy", completions)
    return [len(c) for c in completions]
def too_long(completions, log_extra, **kwargs):
    log_extra("copy", ["z" * 70_000_000] * len(completions))
    return [0] * len(completions)
)");
  Request request = request_of(4);
  for (Json& completion : request.completions) completion = std::string(5'000'000, 'c');
  const Scores scores = file.score("long", request);
  EXPECT_EQ(scores.values, std::vector<double>(4, 5e6));
  EXPECT_EQ(scores.extra[0].second[3], request.completions[3]);
  expect_says(file.fault("too_long", 1), {"an answer of at most 64 MB", "log_extra"});
}

TEST(PythonReward, InvalidTextIsReplaced) {
  const PythonFile file(R"(
def texts(completions, log_extra, log_metric, **kwargs):
    log_extra("odd", ["\ud83d alone", {"k": [float("nan"), 2**80, (1, object)]}])
    log_metric("\udcff", 1)
    return [len(c) for c in completions]
)");
  Request request = request_of(2);
  request.completions[0] = "a\xFF\xFE z";
  request.completions[1] = std::string("a\0b", 3);
  const Scores scores = file.score("texts", request);
  EXPECT_EQ(scores.values, (std::vector<double>{5, 3}));
  EXPECT_EQ(scores.extra[0].second[0], "? alone");
  EXPECT_EQ(scores.extra[0].second[1]["k"][0], nullptr);
  EXPECT_EQ(scores.extra[0].second[1]["k"][1], "1208925819614629174706176");
}

TEST(PythonReward, SeveralThreadsTakeSeveralWorkers) {
  const PythonFile file(R"(
import os, time
def pid(completions, **kwargs):
    time.sleep(0.2)
    return [os.getpid()] * len(completions)
)",
                        with_timeout(30, 3));
  const std::unique_ptr<Reward> reward = file.open("pid");
  EXPECT_EQ(reward->parallel_calls(), 3);
  std::vector<double> pids(6);
  std::vector<std::thread> threads;
  for (double& pid : pids) {
    threads.emplace_back([&] { pid = reward->score(request_of(2)).values[1]; });
  }
  for (std::thread& thread : threads) thread.join();
  std::sort(pids.begin(), pids.end());
  EXPECT_EQ(std::unique(pids.begin(), pids.end()) - pids.begin(), 3);
}

}  // namespace python_reward_test
}  // namespace hone::rewards
