#include "rewards/reward_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace hone::rewards {
namespace reward_queue_test {

// Scores a request by its first_sample, and counts how many calls it has at once.
class Counting : public Reward {
 public:
  explicit Counting(int calls, std::int64_t fails_at = -1) : calls_(calls), fails_at_(fails_at) {}

  const std::string& name() const override { return name_; }
  int parallel_calls() const override { return calls_; }
  Scores score(const Request& request) override {
    const int now = ++at_once_;
    int most = most_;
    while (most < now && !most_.compare_exchange_weak(most, now)) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50 * (request.first_sample % 3)));
    --at_once_;
    if (request.first_sample == fails_at_) {
      throw RewardUnavailable({.where = "a reward", .expected = "a score", .found = "none"});
    }
    Scores out;
    out.values.assign(request.size(), static_cast<double>(request.first_sample));
    return out;
  }
  int most() const { return most_; }

 private:
  std::string name_ = "counting";
  int calls_;
  std::int64_t fails_at_;
  std::atomic<int> at_once_ = 0, most_ = 0;
};

Request request_of(std::int64_t first) {
  Request out;
  out.completions = {"one", "two"};
  out.first_sample = first;
  return out;
}

TEST(RewardQueue, GivesEachRequestItsScoresInOrder) {
  std::vector<std::unique_ptr<Reward>> rewards;
  rewards.push_back(std::make_unique<Counting>(4));
  rewards.push_back(std::make_unique<Counting>(1));
  RewardQueue queue(rewards);
  for (int batch = 0; batch < 20; ++batch) {
    for (int i = 0; i < 16; ++i) queue.submit(request_of(100 * batch + i));
    const auto scores = queue.collect();
    ASSERT_EQ(scores.size(), 16U);
    for (int i = 0; i < 16; ++i) {
      for (const Scores& of_function : scores[static_cast<std::size_t>(i)])
        EXPECT_EQ(of_function.values, std::vector<double>(2, 100 * batch + i));
    }
  }
  EXPECT_LE(dynamic_cast<const Counting&>(*rewards[0]).most(), 4);
  EXPECT_EQ(dynamic_cast<const Counting&>(*rewards[1]).most(), 1);
}

// A function of the user's is called once with all of a batch, others as soon as a group is there.
TEST(RewardQueue, AFunctionThatTakesTheBatchIsNotCalledByGroup) {
  class OfBatches final : public Counting {
   public:
    OfBatches() : Counting(1) {}
    bool takes_batch() const override { return true; }
  };
  std::vector<std::unique_ptr<Reward>> rewards;
  rewards.push_back(std::make_unique<Counting>(2));
  rewards.push_back(std::make_unique<OfBatches>());
  RewardQueue queue(rewards);
  EXPECT_TRUE(queue.has(Callees::kOfGroups) && queue.has(Callees::kOfBatches));
  queue.submit(request_of(1), Callees::kOfGroups);
  queue.submit(request_of(3), Callees::kOfGroups);
  queue.submit(request_of(7), Callees::kOfBatches);
  const auto scores = queue.collect();
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_EQ(scores[0][0].values, std::vector<double>(2, 1));
  EXPECT_TRUE(scores[0][1].values.empty());
  EXPECT_EQ(scores[1][0].values, std::vector<double>(2, 3));
  EXPECT_TRUE(scores[2][0].values.empty());
  EXPECT_EQ(scores[2][1].values, std::vector<double>(2, 7));
}

TEST(RewardQueue, AnErrorIsThrownOnceAndTheQueueGoesOn) {
  std::vector<std::unique_ptr<Reward>> rewards;
  rewards.push_back(std::make_unique<Counting>(3, /*fails_at=*/5));
  RewardQueue queue(rewards);
  const auto fill = [&](int first) {
    for (int i = 0; i < 12; ++i) queue.submit(request_of(first + i));
  };
  EXPECT_THROW(
      {
        fill(0);
        queue.collect();
      },
      base::UserError);
  // A submit that threw has left the error for collect(), which empties the queue.
  try {
    queue.collect();
  } catch (const base::UserError&) {
  }
  fill(100);
  EXPECT_EQ(queue.collect().size(), 12U);
}

TEST(RewardQueue, EndsWithCallsUnderWay) {
  for (int i = 0; i < 50; ++i) {
    std::vector<std::unique_ptr<Reward>> rewards;
    rewards.push_back(std::make_unique<Counting>(4));
    RewardQueue queue(rewards);
    for (int k = 0; k < 8; ++k) queue.submit(request_of(k));
  }
}

}  // namespace reward_queue_test
}  // namespace hone::rewards
