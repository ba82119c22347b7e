// A run in small: 500 calls from three threads, workers killed at random, one function that hangs now and
// then and one that raises. Every call ends, every value is right or told as a failure, and no process is
// left.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "base/rng.h"
#include "rewards/python_helpers.h"
#include "rewards/python_processes.h"

namespace hone::rewards {
namespace python_soak_test {

constexpr int kCalls = 500;
constexpr std::size_t kSamples = 4;

// A worker leaves its number in the folder "alive" once it works.
constexpr std::string_view kFunctions = R"(
import os, time
alive = os.path.dirname(__file__) + "/alive"
os.makedirs(alive, exist_ok=True)
def steady(completions, **kwargs):
    open(f"{alive}/{os.getpid()}", "w").close()
    return [len(c) for c in completions]
def hangs(completions, step, **kwargs):
    if step[0] % 60 == 13 and "xx" in completions: time.sleep(1000)
    return steady(completions)
async def raises(completions, step, **kwargs):
    if step[0] % 7 == 3 and "x" in completions: raise ValueError("not this one")
    return steady(completions)
)";

// Kills one of the workers that work, about three times a second.
class Killer {
 public:
  explicit Killer(std::filesystem::path folder) : folder_(std::move(folder)), thread_([this] { run(); }) {}
  Killer(const Killer&) = delete;
  Killer& operator=(const Killer&) = delete;
  ~Killer() {
    done_ = true;
    thread_.join();
  }

 private:
  void run() {
    const base::Stream random(7, base::Purpose::kDemoData, 0);
    for (std::uint64_t round = 0; !done_; ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200 + random.bits(2 * round) % 200));
      std::vector<ProcessFacts> workers;
      std::error_code gone;
      for (const auto& entry : std::filesystem::directory_iterator(folder_, gone)) {
        const ProcessFacts worker = process_facts(entry.path().filename().string());
        if (worker.pid != 0 && worker.state != 'Z') workers.push_back(worker);
      }
      if (!workers.empty()) ::kill(workers[random.bits(2 * round + 1) % workers.size()].pid, SIGKILL);
    }
  }

  std::filesystem::path folder_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

struct Reported {
  std::atomic<int> calls = 0;
  std::atomic<int> hung = 0;
  std::atomic<int> raised = 0;
  std::atomic<int> killed = 0;  // and fixed
};

bool has_failure(const Scores& scores, std::int64_t sample) {
  return std::any_of(scores.failures.begin(), scores.failures.end(),
                     [&](const Failure& f) { return f.sample == sample; });
}

void check(const Scores& scores, int call, std::int64_t first, Reported& told) {
  ASSERT_EQ(scores.values.size(), kSamples);
  for (std::size_t i = 0; i < kSamples; ++i) {
    const std::int64_t sample = first + static_cast<std::int64_t>(i);
    EXPECT_EQ(is_none(scores.values[i]), has_failure(scores, sample)) << "call " << call << " sample " << i;
    EXPECT_TRUE(is_none(scores.values[i]) || scores.values[i] == static_cast<double>(i)) << call;
  }
  if (call % 3 == 1 && call % 60 == 13) {
    EXPECT_TRUE(has_failure(scores, first + 2)) << call;
    ++told.hung;
  }
  if (call % 3 == 2 && call % 7 == 3) {
    EXPECT_TRUE(has_failure(scores, first + 1)) << call;
    ++told.raised;
  }
  for (const std::string& note : scores.notes)
    told.killed += note.find("SIGKILL") != std::string::npos ? 1 : 0;
  ++told.calls;
}

TEST(PythonSoak, FiveHundredCallsAndAKiller) {
  const PythonFile file(kFunctions, with_timeout(1, 3));
  Reported told;
  {
    const auto rewards = open_python_rewards({file.word("steady"), file.word("hangs"), file.word("raises")},
                                             with_timeout(1, 3));
    const Killer killer(file.folder() / "alive");
    std::atomic<int> next = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (int call = next++; call < kCalls; call = next++) {
          Request request = request_of(kSamples, call * 10);
          request.columns["step"] = Json::array({call, call, call, call});
          try {
            check(rewards[static_cast<std::size_t>(call % 3)]->score(request), call, call * 10, told);
          } catch (const std::exception& error) {
            ADD_FAILURE() << "call " << call << ": " << error.what();
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(told.calls, kCalls);
  EXPECT_EQ(told.hung, 9);
  EXPECT_EQ(told.raised, 23);
  EXPECT_GT(told.killed, 0);
  EXPECT_TRUE(our_children().empty());
}

}  // namespace python_soak_test
}  // namespace hone::rewards
