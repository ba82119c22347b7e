// Random scripts of resets, calls and rewards, some of which end their process: what each instance says depends on its own script only.
#include <csignal>
#include <random>

#include "rewards/python_processes.h"
#include "tools/pool_helpers.h"

namespace hone::tools {
namespace tool_scripts_test {

constexpr const char* kScripted = R"PY(
import asyncio, os, time

def echo(text: str, seconds: float) -> str:
    """Says it.

    Args:
        text: what
        seconds: when
    """
    time.sleep(seconds)
    return text

async def aecho(text: str, seconds: float) -> str:
    """Says it.

    Args:
        text: what
        seconds: when
    """
    await asyncio.sleep(seconds)
    return text

class Env:
    def reset(self, start):
        self.sum = start
        return str(start)
    def add(self, number: int, seconds: float) -> int:
        """Adds.

        Args:
            number: what
            seconds: when
        """
        time.sleep(seconds)
        self.sum += number
        return self.sum
    def leave(self) -> str:
        """Ends its process."""
        os._exit(1)
    def get_reward(self): return self.sum
)PY";

struct Expected {
  std::string text;
  bool failed = false;
  double reward = std::numeric_limits<double>::quiet_NaN();
};

class Script {
 public:
  Script(ToolPool& pool, std::uint32_t seed) : pool_(pool), random_(seed) {}

  // One more thing is asked for.
  void step() {
    const std::int64_t at = draw(4);
    Instance& one = instances_[at];
    const double seconds = draw(4) == 0 ? 0.01 * draw(3) : 0;
    switch (draw(one.lives ? 8 : 2)) {
      case 0: {
        const int start = draw(100);
        one = {true, start};
        expect(pool_.reset("", at, {{"start", start}}, 0), {std::to_string(start)});
        break;
      }
      case 1: {
        const std::string text = "t" + std::to_string(draw(1000));
        const std::string name = draw(2) == 0 ? "echo" : "aecho";
        expect(pool_.call("", at, name, {{"text", text}, {"seconds", seconds}}), {text});
        break;
      }
      case 2:
        expect(pool_.reward("", at), {"", false, static_cast<double>(one.sum)});
        break;
      case 3:
        if (draw(4) == 0) {
          one.lives = false;
          expect(pool_.call("", at, "leave", Json::object()),
                 {"{'error': 'the tool ended its process with status 1'}", true});
          expect(pool_.reward("", at),
                 {"{'error': 'the environment was lost: leave ended its process with status 1'}", true});
          break;
        }
        [[fallthrough]];
      default: {
        const int number = draw(10);
        one.sum += number;
        expect(pool_.call("", at, "add", {{"number", number}, {"seconds", seconds}}),
               {std::to_string(one.sum)});
      }
    }
  }
  void take(bool block) {
    for (const Done& done : pool_.wait(block)) {
      const auto found = expected_.find(done.ticket);
      ASSERT_NE(found, expected_.end());
      EXPECT_EQ(done.text, found->second.text);
      EXPECT_EQ(done.failed, found->second.failed) << done.note;
      if (!std::isnan(found->second.reward)) {
        EXPECT_EQ(done.reward, found->second.reward);
      }
      expected_.erase(found);
    }
  }
  int draw(int below) { return static_cast<int>(random_() % static_cast<std::uint32_t>(below)); }
  bool done() const { return expected_.empty(); }

 private:
  struct Instance {
    bool lives = false;
    int sum = 0;
  };
  void expect(std::uint64_t ticket, Expected what) { expected_.emplace(ticket, std::move(what)); }

  ToolPool& pool_;
  std::mt19937 random_;
  std::map<std::int64_t, Instance> instances_;
  std::map<std::uint64_t, Expected> expected_;
};

void run_scripts(std::uint32_t first, std::uint32_t count, int steps) {
  const ToolsFile file(kScripted);
  for (std::uint32_t seed = first; seed < first + count; ++seed) {
    PoolOptions options = file.options("echo,aecho", "Env");
    options.workers = 1 + static_cast<int>(seed % 3);
    ToolPool pool(options);
    Script script(pool, seed);
    for (int i = 0; i < steps; ++i) {
      script.step();
      if (script.draw(3) == 0) script.take(script.draw(4) == 0);
    }
    while (pool.under_way() > 0) script.take(true);
    EXPECT_TRUE(script.done()) << "seed " << seed;
  }
}

TEST(ToolScripts, OfEachInstanceAreItsOwn) {
  run_scripts(1, 3, 100);
}
TEST(ToolScripts, SlowOfEachInstanceAreItsOwn) {
  run_scripts(100, 200, 150);
}

// Whenever the process above the forks is killed, each ticket is answered once, and what is asked for after that works.
TEST(ToolScripts, SurviveKillsOfTheHost) {
  const ToolsFile file(kScripted);
  PoolOptions options = file.options("echo,aecho", "Env");
  options.workers = 2;
  ToolPool pool(options);
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same each time
  for (int kill = 0; kill < 5; ++kill) {
    std::vector<std::uint64_t> tickets;
    for (std::int64_t i = 0; i < 3; ++i) tickets.push_back(pool.reset("", i, {{"start", 1}}, 0));
    for (int i = 0; i < 12; ++i) {
      tickets.push_back(i % 2 == 0 ? pool.call("", i % 3, "add", {{"number", 1}, {"seconds", 0.005}})
                                   : pool.call("", 0, "aecho", {{"text", "x"}, {"seconds", 0.005}}));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    for (const rewards::ProcessFacts& child : rewards::our_children()) ::kill(child.pid, SIGKILL);
    const std::map<std::uint64_t, Done> all = all_of(pool);
    EXPECT_EQ(all.size(), tickets.size());
    // Where all had been answered by then, the kill is seen now.
    if (called(pool, "echo", {{"text", "y"}, {"seconds", 0}}).failed) {
      EXPECT_EQ(called(pool, "echo", {{"text", "y"}, {"seconds", 0}}).text, "y");
    }
  }
}

}  // namespace tool_scripts_test
}  // namespace hone::tools
