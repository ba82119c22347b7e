// Tools that hang, die, leave, print, start processes or return too much: each costs what it was doing, and is named.
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/stopwatch.h"
#include "rewards/python_processes.h"
#include "tools/pool_helpers.h"

namespace hone::tools {
namespace tool_faults_test {

using rewards::comes_true;
using rewards::number_in;
using rewards::runs;

constexpr const char* kFaulty = R"PY(
import asyncio, os, signal, subprocess, sys, time

def fine(x: int) -> str:
    """Fine.

    Args:
        x: a number
    """
    return f"fine {x} {sys.stdin.read()!r}"

def hang(folder: str):
    """Hangs, and so does what it has started, in a session of its own.

    Args:
        folder: for the number of that process
    """
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with open(os.path.join(folder, "pid"), "w") as file: file.write(str(child.pid))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True: time.sleep(1)

def die(how: str):
    """Ends its process.

    Args:
        how: in which way
    """
    print("last words", flush=True)
    if how == "segv": os.kill(os.getpid(), signal.SIGSEGV)
    if how == "exit": os._exit(3)
    if how == "leave": sys.exit(4)
    if how == "interrupt": raise KeyboardInterrupt
    if how == "close": os.closerange(3, 4096)
    if how == "garble":
        for fd in range(3, 64):
            try: os.write(fd, b"\xff\xff\xff\x7f" * 10)
            except OSError: pass
    if how == "forge":
        import json, socket, struct
        data = json.dumps({"id": [1], "text": 5, "failed": "no", "reward": 1e308 * 10, "seconds": {}, "note": 0, "printed": 0}).encode()
        for fd in range(3, 64):
            try: os.write(fd, struct.pack("<I", len(data)) + data)
            except OSError: pass
    if how == "fork" and os.fork() == 0: return "a copy"
    return "after " + how

def gigabyte():
    """A lot of text."""
    return "x" * (1 << 30)

def prints(megabytes: int):
    """Prints.

    Args:
        megabytes: so many
    """
    for _ in range(megabytes): print("y" * (1 << 20))
    time.sleep(1)
    return "printed"

def bomb():
    """Starts processes that start processes."""
    subprocess.run([sys.executable, "-c", "import os\nfor _ in range(400):\n  if os.fork() == 0:\n    import time; time.sleep(100)\nos.wait()"])

async def amend(seconds: float, block: bool) -> str:
    """Waits, or blocks its loop.

    Args:
        seconds: how long
        block: whether others can go on
    """
    if block: time.sleep(seconds)
    await asyncio.sleep(seconds)
    return f"amended {seconds}"

async def aleave() -> str:
    """Leaves."""
    sys.exit(1)

def end_host():
    """Ends the process above all forks."""
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(100)

class Env:
    def reset(self, slow=0, **row):
        time.sleep(slow)
        self.count = 0
    def step(self, how: str) -> str:
        """Steps.

        Args:
            how: in which way
        """
        self.count += 1
        if how == "hang": time.sleep(1000)
        if how == "die": os._exit(9)
        return f"step {self.count}"
    def get_reward(self): return float("inf") if self.count > 2 else self.count
)PY";

class ToolFaults : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    file = std::make_unique<ToolsFile>(kFaulty);
    pool = open(60);
    hasty = open(0.8);
  }
  static std::unique_ptr<ToolPool> open(double timeout) {
    PoolOptions options = file->options("fine,hang,die,gigabyte,prints,bomb,amend,aleave", "Env", timeout);
    options.workers = 2;
    return std::make_unique<ToolPool>(options);
  }
  static void TearDownTestSuite() {
    pool.reset();
    hasty.reset();
    file.reset();
  }
  static void expect_fine(const std::unique_ptr<ToolPool>& of) {
    EXPECT_EQ(called(*of, "fine", {{"x", 1}}).text, "fine 1 ''");
  }
  static inline std::unique_ptr<ToolsFile> file;
  static inline std::unique_ptr<ToolPool> pool, hasty;
};

TEST_F(ToolFaults, AToolThatHangsIsEndedWithWhatItHasStarted) {
  const std::uint64_t late = hasty->call("", 0, "hang", {{"folder", file->folder().string()}});
  const std::uint64_t fine = hasty->call("", 0, "fine", {{"x", 7}});
  std::map<std::uint64_t, Done> all = all_of(*hasty);
  EXPECT_EQ(all[fine].text, "fine 7 ''");
  EXPECT_EQ(all[late].text, "{'error': 'timeout after 0.8 s'}");
  EXPECT_TRUE(all[late].failed);
  EXPECT_GE(all[late].seconds, 0.7);
  expect_says(all[late].note, {"hang did not end within 0.8 s (tools.py:21 in hang)"});
  const int started = number_in(file->folder() / "pid");
  EXPECT_GT(started, 0);
  EXPECT_TRUE(comes_true([&] { return !runs(started); }));
  expect_fine(hasty);
}

TEST_F(ToolFaults, AToolThatDiesIsNamed) {
  const auto died = [&](const std::string& how) { return called(*pool, "die", {{"how", how}}); };
  const Done segv = died("segv");
  EXPECT_EQ(segv.text, "{'error': 'the tool was killed by SIGSEGV'}");
  expect_says(segv.note, {"die was killed by SIGSEGV"});
  EXPECT_TRUE(segv.failed);
  const Done exit = died("exit");
  EXPECT_EQ(exit.text, "{'error': 'the tool ended its process with status 3'}");
  expect_says(exit.note, {"status 3 (it printed: last words)"});
  expect_says(exit.printed, {"last words"});
  EXPECT_EQ(died("leave").text, "{'error': 'SystemExit: 4'}");
  EXPECT_EQ(died("interrupt").text, "{'error': 'KeyboardInterrupt'}");
  EXPECT_EQ(called(*pool, "aleave", Json::object()).text, "{'error': 'SystemExit: 1'}");
  expect_says(died("close").text, {"{'error': 'the tool"});
  expect_says(died("garble").text, {"{'error': 'the tool broke the connection of its process'}"});
  expect_says(died("forge").text, {"{'error': 'the tool broke the connection of its process'}"});
  EXPECT_EQ(died("fork").text, "after fork");
  EXPECT_EQ(died("not").text, "after not");
  expect_fine(pool);
}

TEST_F(ToolFaults, AGigabyteIsCutWhereItIsMade) {
  const Done done = called(*pool, "gigabyte", Json::object());
  EXPECT_FALSE(done.failed) << done.text;
  EXPECT_LT(done.text.size(), (std::size_t{1} << 20) + 100);
  expect_says(done.text, {"x\n... 1072693248 characters left out ...\nx"});
  expect_fine(pool);
}

TEST_F(ToolFaults, PrintsAreCaughtAndLimited) {
  const Done some = called(*pool, "prints", {{"megabytes", 2}});
  EXPECT_EQ(some.text, "printed");
  EXPECT_EQ(some.printed.size(), std::size_t{1} << 16);
  const Done many = called(*pool, "prints", {{"megabytes", 100}});
  EXPECT_EQ(many.text, "{'error': 'the tool printed too much'}");
  expect_says(many.note, {"prints printed more than 64 MB"});
  expect_fine(pool);
}

TEST_F(ToolFaults, AForkBombIsEnded) {
  const base::Clock::time_point begun = base::Clock::now();
  const Done done = called(*pool, "bomb", Json::object());
  EXPECT_EQ(done.text, "{'error': 'the tool started too many processes'}");
  expect_says(done.note, {"bomb had ", "processes, of at most 256"});
  EXPECT_LT(base::seconds_since(begun), 10);
  expect_fine(pool);
}

TEST_F(ToolFaults, OfSeveralAsyncCallsTheOneThatBlocksIsEnded) {
  const std::uint64_t late = hasty->call("", 0, "amend", {{"seconds", 100}, {"block", false}});
  const std::uint64_t fine = hasty->call("", 0, "amend", {{"seconds", 0.2}, {"block", false}});
  std::map<std::uint64_t, Done> all = all_of(*hasty);
  EXPECT_EQ(all[late].text, "{'error': 'timeout after 0.8 s'}");
  EXPECT_EQ(all[fine].text, "amended 0.2");
  // Blocked, the loop is ended, and what was not at fault is called again.
  std::vector<std::uint64_t> tickets;
  tickets.push_back(hasty->call("", 0, "amend", {{"seconds", 0.5}, {"block", false}}));
  tickets.push_back(hasty->call("", 0, "amend", {{"seconds", 100}, {"block", true}}));
  tickets.push_back(hasty->call("", 0, "amend", {{"seconds", 0.1}, {"block", false}}));
  all = all_of(*hasty);
  EXPECT_EQ(all[tickets[0]].text, "amended 0.5");
  EXPECT_EQ(all[tickets[1]].text, "{'error': 'timeout after 0.8 s'}");
  EXPECT_EQ(all[tickets[2]].text, "amended 0.1");
  expect_fine(hasty);
}

TEST_F(ToolFaults, AnEnvironmentThatIsEndedIsLostUntilItsNextReset) {
  for (const std::string how : {"hang", "die"}) {
    std::vector<std::uint64_t> other;
    for (const std::int64_t i : {1, 2}) one(*hasty, hasty->reset("", i, Json::object(), 0));
    const std::uint64_t first = hasty->call("", 1, "step", {{"how", "fine"}});
    const std::uint64_t lost = hasty->call("", 1, "step", {{"how", how}});
    const std::uint64_t after = hasty->call("", 1, "step", {{"how", "fine"}});
    const std::uint64_t reward = hasty->reward("", 1);
    const std::uint64_t neighbor = hasty->call("", 2, "step", {{"how", "fine"}});
    std::map<std::uint64_t, Done> all = all_of(*hasty);
    EXPECT_EQ(all[first].text, "step 1");
    EXPECT_TRUE(all[lost].failed && all[after].failed && all[reward].failed);
    EXPECT_TRUE(std::isnan(all[reward].reward));
    const std::string why = how == "hang" ? "did not end within 0.8 s" : "ended its process with status 9";
    expect_says(all[after].text, {"{'error': 'the environment was lost: step " + why});
    expect_says(all[after].note, {"environment 1: step found it lost: step " + why});
    EXPECT_EQ(all[neighbor].text, "step 1");
    EXPECT_FALSE(one(*hasty, hasty->reset("", 1, Json::object(), 0)).failed);
    EXPECT_EQ(one(*hasty, hasty->call("", 1, "step", {{"how", "fine"}})).text, "step 1");
    EXPECT_EQ(one(*hasty, hasty->reward("", 1)).reward, 1);
  }
}

TEST_F(ToolFaults, ResetsAndRewardsHaveTheirLimits) {
  const Done slow = one(*hasty, hasty->reset("", 3, {{"slow", 100}}, 0));
  EXPECT_TRUE(slow.failed);
  expect_says(slow.note, {"environment 3: reset did not end within 0.8 s (tools.py:", "in reset)"});
  one(*hasty, hasty->reset("", 3, Json::object(), 0));
  for (int i = 0; i < 3; ++i) hasty->call("", 3, "step", {{"how", "fine"}});
  const Done infinite = one(*hasty, hasty->reward("", 3));
  EXPECT_TRUE(infinite.failed);
  EXPECT_TRUE(std::isnan(infinite.reward));
  expect_says(infinite.note, {"get_reward raised ValueError: get_reward returned inf"});
}

// The process above all forks: nothing is left of it, and it is started again.
TEST_F(ToolFaults, TheHostIsStartedAgain) {
  for (const std::int64_t i : {0, 1, 4}) one(*pool, pool->reset("", i, Json::object(), 0));
  const std::uint64_t ticket = pool->call("", 4, "step", {{"how", "hang"}});
  pool->wait(false);
  for (const rewards::ProcessFacts& child : rewards::our_children()) ::kill(child.pid, SIGKILL);
  const Done lost = one(*pool, ticket);
  EXPECT_TRUE(lost.failed);
  expect_says(lost.note,
              {"the process that forks the tools was killed by SIGKILL", "all environments are lost"});
  for (const std::int64_t i : {0, 1, 4}) {
    const Done after = one(*pool, pool->call("", i, "step", {{"how", "fine"}}));
    EXPECT_TRUE(after.failed) << i;
    expect_says(after.note, {"environment " + std::to_string(i), "had to be started again"});
    EXPECT_FALSE(one(*pool, pool->reset("", i, Json::object(), 0)).failed);
    EXPECT_EQ(one(*pool, pool->call("", i, "step", {{"how", "fine"}})).text, "step 1");
  }
  expect_fine(pool);
}

// Answers between its ends do not make it go on for ever.
TEST(ToolFaultsEnd, AHostThatEndsAgainAndAgainEndsTheRun) {
  const ToolsFile file(kFaulty);
  ToolPool pool(file.options("fine,end_host"));
  int ended = 0;
  const std::string told = message_of([&] {
    for (; ended < 40; ++ended) {
      EXPECT_TRUE(called(pool, "end_host", Json::object()).failed);
      EXPECT_FALSE(called(pool, "fine", {{"x", ended}}).failed);
    }
  });
  EXPECT_EQ(ended, 10);
  expect_says(told, {"was killed by SIGKILL", "11 times in this run"});
}

// The tool that comes with hone makes a folder, and is ended before it can remove it.
TEST(ToolFaultsEnd, TheFolderOfCodeThatWasEndedIsRemoved) {
  const base::TempFolder folder;
  ::setenv("TMPDIR", folder.path().c_str(), 1);
  {
    // A busy machine may need more than a second to start the interpreter of the second call.
    ToolPool pool({.timeout = 5, .tools = {"hone.tools.python"}});
    expect_says(called(pool, "python", {{"code", "import time\nopen('x', 'w')\ntime.sleep(100)"}}).text,
                {"timeout"});
    EXPECT_EQ(called(pool, "python", {{"code", "1 + 1"}}).text, "2\n");
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
  ::unsetenv("TMPDIR");
}

TEST(ToolFaultsEnd, NothingIsLeft) {
  const ToolsFile file(kFaulty);
  {
    ToolPool pool(file.options("hang", "", 60));
    pool.call("", 0, "hang", {{"folder", file.folder().string()}});
    EXPECT_TRUE(comes_true([&] {
      pool.wait(false);
      return number_in(file.folder() / "pid") > 0;
    }));
  }
  const int started = number_in(file.folder() / "pid");
  EXPECT_TRUE(comes_true([&] { return !runs(started); }));
}

}  // namespace tool_faults_test
}  // namespace hone::tools
