// Hostile inputs in child processes: a signal, an endless loop or gigabytes are then a failure with a name,
// and what a stopped rendering keeps goes with its process.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "fuzz/mutate.h"

namespace hone::text {

// Holds what a child tells its parent.
struct Reported {
  std::uint64_t round = 0;
  char text[2000] = {};  // an error's message, or why the child failed
};

class SharedTold {
 public:
  SharedTold()
      : reported_(new(mmap(nullptr, sizeof(Reported), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                           0)) Reported) {}
  SharedTold(const SharedTold&) = delete;
  SharedTold& operator=(const SharedTold&) = delete;
  ~SharedTold() { munmap(reported_, sizeof(Reported)); }
  Reported* operator->() const { return reported_; }
  void say(std::string_view text) const {
    const std::size_t size = std::min(text.size(), sizeof reported_->text - 1);
    std::memcpy(reported_->text, text.data(), size);
    reported_->text[size] = '\0';
  }

 private:
  Reported* reported_;
};

inline constexpr int kWentOn = 0, kRefused = 2, kFailed = 3;

// Ends as 0 when `body` returns, 2 with the message when it throws UserError, 3 for everything else, or by a
// signal.
inline int in_child(const SharedTold& told, const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    int code = kFailed;
    try {
      body();
      code = kWentOn;
    } catch (const base::UserError& error) {
      told.say(error.what());
      code = kRefused;
    } catch (const std::exception& error) {
      told.say(error.what());
    }
    _exit(code);
  }
  int status = 0;
  rusage used{};
  wait4(child, &status, 0, &used);
  EXPECT_LT(std::int64_t{used.ru_maxrss} * 1024, fuzz::kMaxBytes) << "round " << told->round;
  return status;
}

// Returns what became of one input: the UserError's message, or "" when there was none. Anything else fails
// the test.
inline std::string outcome_in_child(const std::function<void()>& body) {
  const SharedTold told;
  const int status = in_child(told, body);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kFailed) ADD_FAILURE() << told->text;
  return told->text;
}

// take(make(round)) for rounds 0, 1, ... until the time is over, a hundred of them in a child.
// HONE_FUZZ_ROUND=n runs that one here and prints its input.
inline void fuzz_in_children(double most_seconds, const std::function<std::string(std::uint64_t)>& make,
                             const std::function<void(const std::string&)>& take) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  if (const char* only = std::getenv("HONE_FUZZ_ROUND")) {
    const std::string input = make(std::strtoull(only, nullptr, 10));
    std::fprintf(stderr, "%s\n", input.substr(0, 8000).c_str());
    return take(input);
  }
  constexpr std::uint64_t kBatch = 100;
  const SharedTold told;
  const auto begin = Clock::now();
  std::uint64_t round = 0;
  for (; since(begin) < most_seconds && !testing::Test::HasFailure(); round += kBatch) {
    const int status = in_child(told, [&] {
      for (std::uint64_t i = round; i < round + kBatch && since(begin) < most_seconds; ++i) {
        told->round = i;
        const auto started = Clock::now();
        try {
          take(make(i));
        } catch (const base::UserError& error) {
          base::require(std::string_view(error.what()).size() < 10'000, "fuzz", "a message of some lines");
        }
        base::require(since(started) < fuzz::kMaxSeconds, "fuzz", "an end within 20 s");
      }
    });
    EXPECT_TRUE(WIFEXITED(status)) << "round " << told->round << ": signal " << WTERMSIG(status);
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : 0, kWentOn)
        << "round " << told->round << ": " << told->text;
  }
  testing::Test::RecordProperty("rounds", std::to_string(told->round));
}

}  // namespace hone::text
