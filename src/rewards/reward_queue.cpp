#include "rewards/reward_queue.h"

#include <algorithm>
#include <utility>

#include "base/process/stop_request.h"

namespace hone::rewards {

RewardQueue::RewardQueue(const std::vector<std::unique_ptr<Reward>>& rewards)
    : rewards_(rewards), busy_(rewards.size()), broken_(rewards.size()) {
  int threads = 1;
  for (const auto& reward : rewards) threads = std::max(threads, reward->parallel_calls());
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

RewardQueue::~RewardQueue() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    waiting_.clear();
    if (running_ > 0) give_up();
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool RewardQueue::calls(std::size_t function, Callees callees) const {
  return callees == Callees::kAll || rewards_[function]->takes_batch() == (callees == Callees::kOfBatches);
}

bool RewardQueue::has(Callees callees) const {
  for (std::size_t k = 0; k < rewards_.size(); ++k) {
    if (calls(k, callees)) return true;
  }
  return false;
}

void RewardQueue::submit(Request request, Callees callees) {
  {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    requests_.push_back(std::move(request));
    scores_.emplace_back(rewards_.size());
    for (std::size_t k = 0; k < rewards_.size(); ++k) {
      if (calls(k, callees)) waiting_.push_back({requests_.size() - 1, k});
    }
  }
  wake_.notify_all();
}

std::vector<std::vector<Scores>> RewardQueue::collect() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return running_ == 0 && waiting_.empty(); });
  requests_.clear();
  const std::exception_ptr error = std::exchange(error_, nullptr);
  std::vector<std::vector<Scores>> out = std::exchange(scores_, {});
  lock.unlock();
  base::cut_if_overdue();  // what a call that was cut short said is no error of the reward
  if (error) std::rethrow_exception(error);
  broken_.end_batch();
  return out;
}

void RewardQueue::give_up() {
  for (const auto& reward : rewards_) reward->give_up();
}

// Under the lock.
void RewardQueue::take(const Call& call, Scores scores, const std::exception_ptr& error) {
  const auto end = [&] {
    if (!error_) error_ = error;
    waiting_.clear();  // the run ends: nothing more is worth its cost
    give_up();
  };
  if (error) {
    try {
      std::rethrow_exception(error);
    } catch (const RewardUnavailable&) {
      return end();
    } catch (const base::UserError& wrong) {
      if (!broken_.has_scored(call.function)) return end();
      const Request& request = requests_[call.request];
      scores.values.assign(request.size(), kNone);
      for (std::size_t i = 0; i < request.size(); ++i) {
        scores.failures.push_back({request.first_sample + static_cast<std::int64_t>(i), wrong.text().found});
      }
      scores.broken = wrong.text();
    } catch (...) {
      return end();
    }
  }
  broken_.saw(call.function, scores);
  scores_[call.request][call.function] = std::move(scores);
}

void RewardQueue::work() {
  std::unique_lock lock(mutex_);
  // The first call whose function has a caller to spare.
  const auto next = [&] {
    return std::find_if(waiting_.begin(), waiting_.end(), [&](const Call& call) {
      return busy_[call.function] < std::max(1, rewards_[call.function]->parallel_calls());
    });
  };
  for (;;) {
    wake_.wait(lock, [&] { return closing_ || next() != waiting_.end(); });
    if (closing_) return;
    const auto found = next();
    const Call call = *found;
    waiting_.erase(found);
    ++running_;
    ++busy_[call.function];
    const Request& request = requests_[call.request];
    lock.unlock();
    Scores scores;
    std::exception_ptr error;
    try {
      scores = rewards_[call.function]->score(request);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --running_;
    --busy_[call.function];
    take(call, std::move(scores), error);
    wake_.notify_all();
    if (running_ == 0 && waiting_.empty()) done_.notify_all();
  }
}

}  // namespace hone::rewards
