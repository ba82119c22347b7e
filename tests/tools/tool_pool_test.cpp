// Tools and environments in real Python processes: what they are given, what comes back, in which order.
#include <algorithm>
#include <chrono>
#include <set>

#include "base/files/file.h"
#include "base/stopwatch.h"
#include "tools/pool_helpers.h"

namespace hone::tools {
namespace tool_pool_test {

constexpr const char* kTools = R"(
import asyncio, time

def add(a: int, b: int) -> int:
    """Adds.

    Args:
        a: first
        b: second
    """
    return a + b

def nap(seconds: float) -> str:
    """Sleeps.

    Args:
        seconds: how long
    """
    print("sleeping")
    time.sleep(seconds)
    return f"slept {seconds}"

async def anap(seconds: float) -> str:
    """Sleeps beside others.

    Args:
        seconds: how long
    """
    await asyncio.sleep(seconds)
    return f"slept {seconds}"

def fails(kind: str):
    """Fails.

    Args:
        kind: how
    """
    raise {"key": KeyError, "value": ValueError}[kind]("it's \"bad\"")

def long(count: int):
    """A long text.

    Args:
        count: of characters
    """
    return "a" * count + "b" * count

def blocks(kind: str):
    """Blocks.

    Args:
        kind: of the second
    """
    return [{"type": "text", "text": "one "}, {"type": kind, "text": "two"}]

def nothing():
    """Nothing."""

class Counter:
    """Counts.

    The tools are its methods."""
    limit = 3

    def __init__(self):
        self.count, self.seen = 0, None

    @property
    def odd(self):
        raise RuntimeError("a property is no tool")

    def reset(self, start=0, **row):
        self.count, self.seen = start, sorted(row)
        return f"from {start}" if start >= 0 else None

    def increment(self, step: int = 1) -> int:
        """Counts up.

        Args:
            step: by how much
        """
        self.count += step
        return self.count

    async def slow(self) -> str:
        """Waits."""
        await asyncio.sleep(0.05)
        return f"at {self.count}"

    @staticmethod
    def fixed() -> str:
        """The same."""
        return "fixed"

    def _hidden(self):
        pass

    def get_reward(self):
        return self.count / 2 if self.count < 100 else None
)";

class ToolPoolTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    file = std::make_unique<ToolsFile>(kTools);
    PoolOptions options = file->options("add, nap,anap,fails,long,blocks,nothing", "Counter");
    options.workers = 2;
    options.most_characters = 1000;
    pool = std::make_unique<ToolPool>(options);
  }
  static void TearDownTestSuite() {
    pool.reset();
    file.reset();
  }
  static inline std::unique_ptr<ToolsFile> file;
  static inline std::unique_ptr<ToolPool> pool;
};

TEST_F(ToolPoolTest, WhatThereIs) {
  EXPECT_EQ(names_of(pool->tools("")),
            (std::vector<std::string>{"add", "nap", "anap", "fails", "long", "blocks", "nothing", "fixed",
                                      "increment", "slow"}));
  EXPECT_TRUE(pool->has_reward(""));
  EXPECT_EQ(pool->class_name(""), "Counter");
  const Tool& add = pool->tools("").front();
  EXPECT_FALSE(add.is_async);
  EXPECT_TRUE(pool->tools("")[2].is_async);
  EXPECT_EQ(
      base::dump_json(add.schema),
      R"({"type":"function","function":{"name":"add","description":"Adds.","parameters":{"type":"object",)"
      R"("properties":{"a":{"type":"integer","description":"first"},"b":{"type":"integer","description":)"
      R"("second"}},"required":["a","b"]},"return":{"type":"integer"}}})");
}

TEST_F(ToolPoolTest, ResultsAreText) {
  EXPECT_EQ(called(*pool, "add", {{"a", 2}, {"b", 3}}).text, "5");
  EXPECT_EQ(called(*pool, "nothing", Json::object()).text, "None");
  EXPECT_EQ(called(*pool, "blocks", {{"kind", "text"}}).text, "one two");
  const Done image = called(*pool, "blocks", {{"kind", "image"}});
  EXPECT_TRUE(image.failed);
  expect_says(image.text, {"{'error':", "image", "text only"});
  const Done nap = called(*pool, "nap", {{"seconds", 0.01}});
  EXPECT_EQ(nap.text, "slept 0.01");
  EXPECT_EQ(nap.printed, "sleeping\n");
  EXPECT_GE(nap.seconds, 0.01);
  EXPECT_FALSE(nap.failed);
  EXPECT_EQ(nap.note, "");
  const std::string cut = called(*pool, "long", {{"count", 2000}}).text;
  EXPECT_EQ(cut, std::string(500, 'a') + "\n... 3000 characters left out ...\n" + std::string(500, 'b'));
}

TEST_F(ToolPoolTest, ErrorsAreAsTrlRendersThem) {
  const Done value = called(*pool, "fails", {{"kind", "value"}});
  EXPECT_EQ(value.text, R"({'error': 'it\'s "bad"'})");
  EXPECT_TRUE(value.failed);
  expect_says(value.note, {"fails raised ValueError: it's", "(tools.py:38 in fails)"});
  EXPECT_EQ(called(*pool, "fails", {{"kind", "key"}}).text, R"({'error': '\'it\\\'s "bad"\''})");
  EXPECT_EQ(called(*pool, "search", Json::object()).text, "{'error': 'Tool search not found.'}");
  expect_says(called(*pool, "add", {{"a", 2}, {"c", 3}}).text,
              {"{'error': \"add() got an unexpected keyword argument 'c'\"}"});
  for (const Json& odd : {Json("text"), Json(Json::array({1, 2})), Json(nullptr), Json(7)}) {
    const Done done = called(*pool, "add", odd);
    EXPECT_TRUE(done.failed);
    expect_says(done.text, {"argument after ** must be a mapping"});
  }
}

TEST_F(ToolPoolTest, AnswersComeInAnyOrderAndCallsRunAtOnce) {
  const base::Clock::time_point begun = base::Clock::now();
  std::vector<std::uint64_t> tickets;
  for (int i = 0; i < 8; ++i) tickets.push_back(pool->call("", 0, "anap", {{"seconds", 0.3}}));
  tickets.push_back(pool->call("", 0, "nap", {{"seconds", 0.3}}));
  tickets.push_back(pool->call("", 0, "nap", {{"seconds", 0.2}}));
  EXPECT_EQ(pool->under_way(), 10U);
  const std::map<std::uint64_t, Done> all = all_of(*pool);
  EXPECT_EQ(all.size(), 10U);
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(all.at(tickets[i]).text, "slept 0.3");
  EXPECT_EQ(all.at(tickets[9]).text, "slept 0.2");
  EXPECT_LT(base::seconds_since(begun), 2.0);
  EXPECT_TRUE(pool->wait(true).empty());
  EXPECT_TRUE(pool->wait(false).empty());
}

TEST_F(ToolPoolTest, EnvironmentsKeepTheirStateApart) {
  std::vector<std::uint64_t> tickets;
  for (std::int64_t i = 0; i < 3; ++i) {
    tickets.push_back(pool->reset("", i, {{"start", 10 * i}, {"prompt", "p"}}, 0));
    tickets.push_back(pool->call("", i, "increment", Json::object()));
    tickets.push_back(pool->call("", i, "slow", Json::object()));
    tickets.push_back(pool->call("", i, "increment", {{"step", 5}}));
    tickets.push_back(pool->reward("", i));
  }
  const std::map<std::uint64_t, Done> all = all_of(*pool);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t at = 5 * i;
    EXPECT_EQ(all.at(tickets[at]).text, "from " + std::to_string(10 * i));
    EXPECT_EQ(all.at(tickets[at + 1]).text, std::to_string(10 * i + 1));
    EXPECT_EQ(all.at(tickets[at + 3]).text, std::to_string(10 * i + 6));
    EXPECT_EQ(all.at(tickets[at + 4]).reward, (10.0 * static_cast<double>(i) + 6) / 2);
  }
  EXPECT_EQ(one(*pool, pool->reset("", 1, {{"start", -1}}, 0)).text, "");
  EXPECT_EQ(called(*pool, "increment", Json::object(), 1).text, "0");
  one(*pool, pool->reset("", 1, {{"start", 200}}, 0));
  const Done none = one(*pool, pool->reward("", 1));
  EXPECT_TRUE(std::isnan(none.reward));
  EXPECT_FALSE(none.failed);
  EXPECT_EQ(called(*pool, "fixed", Json::object(), 2).text, "fixed");
  EXPECT_EQ(called(*pool, "add", {{"a", 1}, {"b", 1}}, 2).text, "2");
  EXPECT_EQ(called(*pool, "_hidden", Json::object(), 2).text, "{'error': 'Tool _hidden not found.'}");
  EXPECT_EQ(called(*pool, "reset", Json::object(), 2).text, "{'error': 'Tool reset not found.'}");
}

TEST_F(ToolPoolTest, WhatWasNeverResetIsNamed) {
  const Done done = called(*pool, "increment", Json::object(), 77);
  EXPECT_TRUE(done.failed);
  expect_says(done.note, {"environment 77", "never reset"});
  const Done reset = one(*pool, pool->reset("", 5, {{"start", "text"}}, 0));
  EXPECT_TRUE(reset.failed);
  expect_says(reset.note, {"environment 5: reset raised TypeError", "tools.py:"});
}

TEST(ToolPoolMap, EachEnvironmentHasItsTools) {
  const ToolsFile file(R"(
class A:
    def reset(self, **row): return str(sorted(row))
    def go(self) -> str:
        """Goes."""
        return "a"
class B(A):
    def stay(self) -> str:
        """Stays."""
        return "b"
    async def get_reward(self): return 0.5
def make():
    b = B()
    b.made = True
    return b
)");
  PoolOptions options;
  options.environments = {{"a", file.word("A")}, {"b", file.word("make")}};
  ToolPool pool(options);
  EXPECT_EQ(names_of(pool.tools("a")), (std::vector<std::string>{"go"}));
  EXPECT_EQ(names_of(pool.tools("b")), (std::vector<std::string>{"go", "stay"}));
  EXPECT_TRUE(pool.tools("").empty());
  EXPECT_FALSE(pool.has_reward("a"));
  EXPECT_FALSE(pool.takes_seed("a"));
  EXPECT_EQ(pool.class_name("b"), "B");
  EXPECT_EQ(one(pool, pool.reset("b", 0, {{"x", 1}, {"prompt", Json::array()}}, 0)).text, "['prompt', 'x']");
  EXPECT_EQ(one(pool, pool.call("b", 0, "stay", Json::object())).text, "b");
  EXPECT_EQ(one(pool, pool.call("a", 0, "stay", Json::object())).text, "{'error': 'Tool stay not found.'}");
  EXPECT_EQ(one(pool, pool.reward("b", 0)).reward, 0.5);
}

// What an instance draws follows from the seed of its last reset: not from its number, nor from what it has drawn before.
TEST(ToolPoolSeeds, AResetSeedsTheGenerators) {
  const ToolsFile file(R"(
import random, sys, types
numbers = []
sys.modules["numpy"] = types.SimpleNamespace(random=types.SimpleNamespace(seed=numbers.append))
class Dice:
    def reset(self, seed, **row): return f"{type(seed).__name__} {seed} {random.random()} {numbers[-1]}"
    def roll(self) -> str:
        """Rolls the dice."""
        return str(random.random())
)");
  ToolPool pool(file.options("", "Dice"));
  EXPECT_TRUE(pool.takes_seed(""));
  const auto drawn = [&](std::int64_t instance, std::uint64_t seed, const Json& row) {
    const std::string first = one(pool, pool.reset("", instance, row, seed)).text;
    return first + " " + called(pool, "roll", Json::object(), instance).text;
  };
  const std::string seven = drawn(0, 7, Json::object());
  EXPECT_TRUE(seven.starts_with("int 7 0.")) << seven;
  EXPECT_EQ(drawn(0, 7, Json::object()), seven);
  EXPECT_EQ(drawn(3, 7, Json::object()), seven);
  EXPECT_NE(drawn(0, 8, Json::object()).substr(6), seven.substr(6));
  EXPECT_TRUE(drawn(0, (std::uint64_t{5} << 60U) + 3, Json::object()).starts_with("int 3 0."));
  EXPECT_TRUE(drawn(0, 7, {{"seed", "own"}}).starts_with("str own 0."));
}

// A module that starts a thread when it is imported: its lock would be held for ever in a fork.
TEST(ToolPoolThreads, ModulesWithThreadsAreImportedByEachFork) {
  const ToolsFile file(R"(
import os, queue, threading
jobs, answers = queue.Queue(), queue.Queue()
def work():
    while True: answers.put(jobs.get() * 2)
threading.Thread(target=work, daemon=True).start()
def double(x: int) -> int:
    """Doubles, in a thread.

    Args:
        x: the number
    """
    jobs.put(x)
    return answers.get(timeout=10)
class Env:
    def reset(self, **row): return str(double(4))
)");
  ToolPool pool(file.options("double", "Env"));
  EXPECT_EQ(called(pool, "double", {{"x", 21}}).text, "42");
  EXPECT_EQ(one(pool, pool.reset("", 0, Json::object(), 0)).text, "8");
  EXPECT_EQ(one(pool, pool.reset("", 1, Json::object(), 0)).text, "8");
}

// Each of those imports for itself: they start one after the other, as many at once as there are workers.
TEST(ToolPoolThreads, InstancesThatImportAreNotStartedAllAtOnce) {
  const base::TempFolder folder;
  const std::string log = folder / "log";
  const ToolsFile file(R"PY(
import os, threading, time
def mark(sign):
    with open(")PY" + log +
                       R"PY(", "a") as log: log.write(sign)
mark("(")
threading.Thread(target=lambda: time.sleep(100), daemon=True).start()
time.sleep(0.1)
mark(")")
class Env:
    def reset(self, **row): return str(os.getpid())
)PY");
  PoolOptions options = file.options("", "Env");
  options.workers = 2;
  ToolPool pool(options);
  for (const std::int64_t i : {0, 1, 2, 3, 4, 5, 6}) pool.reset("", i, Json::object(), 0);
  std::set<std::string> processes;
  for (const auto& [ticket, done] : all_of(pool)) {
    EXPECT_FALSE(done.failed) << done.note;
    processes.insert(done.text);
  }
  EXPECT_EQ(processes.size(), 7U);
  int now = 0, most = 0;
  for (const char sign : base::read_text(log)) most = std::max(most, now += sign == '(' ? 1 : -1);
  EXPECT_EQ(now, 0);
  EXPECT_LE(most, 2);
}

}  // namespace tool_pool_test
}  // namespace hone::tools
