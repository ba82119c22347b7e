// Where the system gives no descriptor or no process: the host goes on, and what could not be made says which limit it was.
#include "base/process/active_python.h"
#include "tools/pool_helpers.h"

namespace hone::tools {
namespace tool_limits_test {

constexpr std::string_view kTools = R"(
import os, resource
real, made = os.fork, []
def fork():
    if len(made) >= int(os.environ.get("HONE_TEST_FORKS", 1 << 20)):
        raise BlockingIOError(11, "Resource temporarily unavailable")
    made.append(1)
    return real()
os.fork = fork
def tool() -> str:
    """A tool."""
    return "done"
class Env:
    def reset(self): return str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    def step(self) -> str:
        """A step."""
        return "stepped"
)";

// The interpreter behind a line of shell.
PoolOptions behind(const ToolsFile& file, const std::string& line) {
  const std::filesystem::path script = file.folder() / "python";
  base::put(script.string(),
            "#!/bin/sh\n" + line + "\nexec \"" + base::active_python("").program + "\" \"$@\"\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  PoolOptions out = file.options("tool", "Env");
  out.python = script.string();
  return out;
}

std::vector<Done> resets(ToolPool& pool, std::int64_t count) {
  std::map<std::uint64_t, std::int64_t> asked;
  for (std::int64_t i = 0; i < count; ++i) asked[pool.reset("", i, Json::object(), 0)] = i;
  std::vector<Done> out(static_cast<std::size_t>(count));
  for (auto& [ticket, done] : all_of(pool)) out[static_cast<std::size_t>(asked.at(ticket))] = std::move(done);
  return out;
}

TEST(ToolLimits, MoreInstancesThanTheSoftLimitOfOpenFiles) {
  const ToolsFile file(kTools);
  ToolPool pool(behind(file, "ulimit -Sn 40"));
  for (const Done& done : resets(pool, 50)) {
    EXPECT_FALSE(done.failed) << done.note;
    EXPECT_EQ(done.text, "40");  // a tool has the limit that it would have without hone
  }
}

TEST(ToolLimits, TheHardLimitOfOpenFilesIsNamed) {
  const ToolsFile file(kTools);
  ToolPool pool(behind(file, "ulimit -n 60"));
  const std::vector<Done> done = resets(pool, 40);
  EXPECT_FALSE(done[0].failed || done[9].failed);
  EXPECT_TRUE(done[39].failed);
  expect_says(done[39].note,
              {"environment 39: reset failed", "Too many open files", "60 open files", "ulimit -Hn"});
  const Done tool = called(pool, "tool", Json::object());
  EXPECT_TRUE(tool.failed);
  expect_says(tool.note, {"tool: the system gives no process", "ulimit -Hn"});
  EXPECT_EQ(called(pool, "step", Json::object(), 9).text, "stepped");
  expect_says(called(pool, "step", Json::object(), 39).note, {"found it lost", "Too many open files"});
}

TEST(ToolLimits, AProcessThatIsNotGivenIsNamed) {
  const ToolsFile file(kTools);
  ToolPool pool(behind(file, "export HONE_TEST_FORKS=3"));
  const std::vector<Done> done = resets(pool, 4);
  EXPECT_FALSE(done[2].failed) << done[2].note;
  expect_says(done[3].note, {"environment 3: reset failed", "Resource temporarily unavailable", "pids.max"});
  expect_says(called(pool, "tool", Json::object()).note, {"tool: the system gives no process", "ulimit -u"});
  EXPECT_EQ(called(pool, "step", Json::object(), 2).text, "stepped");
  expect_says(message_of([&] { ToolPool none(behind(file, "export HONE_TEST_FORKS=0")); }),
              {"environment ", "a process that holds the environment", "Resource temporarily unavailable"});
}

// What tools start in the background is adopted by their process, which lives long: what ends does not stay in the table of processes.
TEST(ToolLimits, WhatToolsLeaveBehindIsTakenAway) {
  const ToolsFile file(R"PY(
import os, subprocess, sys
kept = []
def leave() -> str:
    """Leaves an orphan that ends at once, and tells how many ended ones there are."""
    subprocess.run([sys.executable, "-c", "import os\nif os.fork() == 0: os._exit(0)\nos._exit(0)"])
    count = 0
    for pid in open("/proc/self/task/%d/children" % os.getpid()).read().split():
        count += open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z"
    return str(count)
def start() -> str:
    """Starts a process that is waited for in another call."""
    kept.append(subprocess.Popen([sys.executable, "-c", "raise SystemExit(5)"]))
    return "started"
def waited() -> str:
    """Waits for it."""
    return str(kept.pop().wait())
)PY");
  ToolPool pool(file.options("leave,start,waited"));
  called(pool, "start", Json::object());
  std::string count;
  for (int i = 0; i < 6; ++i) count = called(pool, "leave", Json::object()).text;
  EXPECT_LE(std::stoi(count), 4);  // the newest two or so, and that of start(); without an end to it 7
  EXPECT_EQ(called(pool, "waited", Json::object()).text, "5");
}

}  // namespace tool_limits_test
}  // namespace hone::tools
