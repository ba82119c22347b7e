// When a function that fails ends a run: judged over generation batches, through the queue of a run.
#include "rewards/failure_tracker.h"

#include <functional>

#include "rewards/pattern/native_rewards.h"
#include "rewards/python_helpers.h"
#include "rewards/reward_queue.h"

namespace hone::rewards {
namespace broken_batches_test {

using Rewards = std::vector<std::unique_ptr<Reward>>;

// One generation batch of `prompts` requests of `n` samples; requests are numbered in "answer".
std::vector<std::vector<Scores>> batch(RewardQueue& queue, std::size_t prompts, std::size_t n = 2) {
  for (std::size_t i = 0; i < prompts; ++i) {
    Request request = request_of(n, static_cast<std::int64_t>(i * n));
    for (auto& value : request.columns["answer"]) value = i;
    queue.submit(std::move(request));
  }
  return queue.collect();
}

Rewards one(std::unique_ptr<Reward> reward) {
  Rewards out;
  out.push_back(std::move(reward));
  return out;
}

// Fails on all samples of a request for which `fails` says so.
Rewards failing(std::function<bool(const Request&)> fails) {
  return one(make_reward("mine", [fails](const Request& request) {
    Scores out;
    const bool bad = fails(request);
    out.values.assign(request.size(), bad ? kNone : 1);
    for (std::size_t i = 0; bad && i < request.size(); ++i) {
      out.failures.push_back({request.first_sample + static_cast<std::int64_t>(i), "an odd row"});
    }
    out.broken = all_failed("reward mine", out, request.size());
    return out;
  }));
}

bool row(const Request& request, int number) {
  return request.columns.at("answer").at(0) == number;
}

// "fails on everything" was judged per group: this ended the run.
TEST(FailureTracker, OneBadRowOfTwelveCostsItsCompletions) {
  const PythonFile file("def score(completions, answer, **_):\n    return [1 / (a - 3) for a in answer]\n");
  const Rewards rewards = one(file.open("score"));
  RewardQueue queue(rewards);
  for (int i = 0; i < 4; ++i) {
    const auto scores = batch(queue, 12);
    ASSERT_EQ(scores.size(), 12U);
    EXPECT_EQ(scores[3][0].failures.size(), 2U);
    EXPECT_EQ(scores[4][0].values, (std::vector<double>{1, 1}));
  }
}

TEST(FailureTracker, ABadRowThatIsABatchOfItsOwn) {
  const Rewards rewards = failing([calls = 0](const Request&) mutable { return calls++ == 0; });
  RewardQueue queue(rewards);
  for (int i = 0; i < 5; ++i) EXPECT_NO_THROW(batch(queue, 1));
}

TEST(FailureTracker, AFunctionThatNeverScoresEndsTheFirstBatch) {
  const PythonFile file("def score(completions, **_):\n    return [len(c) for c in complitions]\n");
  const Rewards rewards = one(file.open("score"));
  RewardQueue queue(rewards);
  expect_says(message_of([&] { batch(queue, 4); }),
              {"reward.py:score", "NameError", "complitions", "4 requests, 1 generation batch", "Traceback"});
}

TEST(FailureTracker, SmallBatchesTakeThree) {
  const Rewards rewards = failing([](const Request&) { return true; });
  RewardQueue queue(rewards);
  batch(queue, 1);
  batch(queue, 1);
  expect_says(message_of([&] { batch(queue, 1); }), {"an odd row", "3 requests, 3 generation batches"});
}

TEST(FailureTracker, AFunctionThatStopsScoringEndsTheThirdBatch) {
  bool down = false;
  const Rewards rewards = failing([&](const Request& request) { return down || row(request, 0); });
  RewardQueue queue(rewards);
  batch(queue, 6);
  down = true;
  batch(queue, 6);
  batch(queue, 6);
  down = false;
  batch(queue, 6);  // two are forgiven
  down = true;
  batch(queue, 6);
  batch(queue, 6);
  expect_says(message_of([&] { batch(queue, 6); }), {"18 requests, 3 generation batches"});
}

// A UserError that a function throws ends the run only where it has never scored.
TEST(FailureTracker, ErrorsOfAFunctionThatHasScored) {
  const auto throwing = [](int from) {
    return one(make_reward("mine", [from, calls = 0](const Request& request) mutable {
      if (calls++ >= from) throw UserError({.where = "reward mine", .found = "a row without text"});
      return Scores{.values = std::vector<double>(request.size(), 1)};
    }));
  };
  const Rewards late = throwing(1);
  RewardQueue queue(late);
  batch(queue, 1);
  const auto scores = batch(queue, 1);
  EXPECT_EQ(scores[0][0].failures.size(), 2U);
  EXPECT_EQ(scores[0][0].failures[0].what, "a row without text");
  const Rewards never = throwing(0);
  RewardQueue other(never);
  expect_says(message_of([&] { batch(other, 1); }), {"a row without text"});
}

TEST(FailureTracker, NoMoreScoresEndsTheRunAtOnce) {
  const Rewards rewards = one(make_reward("mine", [calls = 0](const Request& request) mutable {
    if (calls++ > 0) throw RewardUnavailable({.where = "reward mine", .found = "down"});
    return Scores{.values = std::vector<double>(request.size(), 1)};
  }));
  RewardQueue queue(rewards);
  batch(queue, 1);
  expect_says(message_of([&] { batch(queue, 2); }), {"down"});
}

}  // namespace broken_batches_test
}  // namespace hone::rewards
