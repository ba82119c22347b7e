#include "ops/machine/team.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace hone::ops {
namespace team_test {

TEST(Team, DoesEachUnitOnce) {
  for (const std::int64_t units : {0, 1, 2, 3, 7, 64, 1000}) {
    for (const std::int64_t threads : {1, 2, 3, 50}) {
      std::vector<std::atomic<int>> done(static_cast<std::size_t>(units));
      std::atomic<bool> in_range = true;
      in_team(units, threads, [&](std::int64_t unit, std::int64_t thread) {
        ++done[static_cast<std::size_t>(unit)];
        if (thread < 0 || thread >= std::min<std::int64_t>(threads, at::get_num_threads())) in_range = false;
      });
      for (const auto& times : done) EXPECT_EQ(times, 1);
      EXPECT_TRUE(in_range);
    }
  }
}

TEST(Team, WhatWasDoneIsSeenAfterwards) {
  std::vector<int> numbers(64);  // plain memory: the end of a call orders it
  for (int call = 1; call <= 3000; ++call) {
    in_team(64, 4, [&](std::int64_t unit, std::int64_t) { ++numbers[static_cast<std::size_t>(unit)]; });
    for (const int number : numbers) ASSERT_EQ(number, call);
  }
}

TEST(Team, WakesThoseThatSleep) {
  for (int call = 0; call < 3; ++call) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> done = 0;
    in_team(40, 2, [&](std::int64_t, std::int64_t) { ++done; });
    EXPECT_EQ(done, 40);
  }
}

TEST(Team, PassesAnExceptionOnAndLivesOn) {
  std::atomic<int> done = 0;
  const auto work = [&](std::int64_t unit, std::int64_t) {
    if (unit == 3) throw std::runtime_error("unit 3");
    ++done;
  };
  EXPECT_THROW(in_team(20, 2, work), std::runtime_error);
  done = 0;
  in_team(20, 2, [&](std::int64_t, std::int64_t) { ++done; });
  EXPECT_EQ(done, 20);
}

TEST(Team, ServesOneCallerAtATimeAndOthersRunWithoutIt) {
  std::atomic<int> done = 0;
  const auto call = [&] {
    for (int i = 0; i < 200; ++i) {
      in_team(8, 2, [&](std::int64_t, std::int64_t) {
        in_team(3, 2, [&](std::int64_t, std::int64_t thread) { done += thread == 0 ? 1 : 1000; });
      });
    }
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(done, 2 * 200 * 8 * 3);
}

}  // namespace team_test
}  // namespace hone::ops
