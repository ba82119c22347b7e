// Ranks that are threads of the test: LinkedRanks over queues in memory.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/linked_ranks.h"

namespace hone::parallel::thread_ranks {

// Holds what all ranks of one test share.
struct Network {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, int>, std::deque<std::string>> queues;  // from, to
  std::vector<bool> closed;
  std::vector<std::int64_t> sent;  // bytes of each rank
  std::map<std::string, std::string> board;
};

class ThreadLink final : public Link {
 public:
  ThreadLink(std::shared_ptr<Network> network, int rank) : network_(std::move(network)), rank_(rank) {}

  std::vector<LinkFailure> exchange(std::span<const Message> messages,
                                    std::chrono::milliseconds timeout) override {
    std::unique_lock lock(network_->mutex);
    for (const Message& one : messages) {
      const auto* const bytes = reinterpret_cast<const char*>(one.out.data());
      if (one.out.empty()) continue;
      network_->queues[{rank_, one.peer}].emplace_back(bytes, one.out.size());
      network_->sent[static_cast<std::size_t>(rank_)] += static_cast<std::int64_t>(one.out.size());
    }
    network_->changed.notify_all();
    std::vector<LinkFailure> failures;
    const auto end = SteadyClock::now() + timeout;
    for (const Message& one : messages) {
      if (one.in.empty()) continue;
      auto& queue = network_->queues[{one.peer, rank_}];
      const auto gone = [&] { return network_->closed[static_cast<std::size_t>(one.peer)]; };
      const bool came =
          network_->changed.wait_until(lock, end, [&] { return !queue.empty() || gone(); }) && !queue.empty();
      if (!came) {
        failures.push_back({one.peer, !gone(), gone() ? "closed" : "late"});
        continue;
      }
      if (queue.front().size() != one.in.size()) throw std::logic_error("a message of another size");
      std::memcpy(one.in.data(), queue.front().data(), one.in.size());
      queue.pop_front();
    }
    return failures;
  }

  void close() override {
    const std::lock_guard lock(network_->mutex);
    network_->closed[static_cast<std::size_t>(rank_)] = true;
    network_->changed.notify_all();
  }

 private:
  std::shared_ptr<Network> network_;
  int rank_;
};

class MemoryBoard final : public Board {
 public:
  explicit MemoryBoard(std::shared_ptr<Network> network) : network_(std::move(network)) {}
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(network_->mutex);
    network_->board[key] = value;
  }
  std::vector<std::string> get(const std::vector<std::string>& keys) override {
    const std::lock_guard lock(network_->mutex);
    std::vector<std::string> out;
    for (const std::string& key : keys) out.push_back(network_->board.at(key));
    return out;
  }

 private:
  std::shared_ptr<Network> network_;
};

// body(ranks) in `size` threads, on hosts h0, h1, ...; what each threw, in order of rank ("" for nothing). `sent`, where it
// is not null, becomes the bytes that each rank sent.
inline std::vector<std::string> run(int size, const std::function<void(Ranks&)>& body,
                                    std::chrono::milliseconds timeout = std::chrono::seconds(20),
                                    std::vector<std::int64_t>* sent = nullptr) {
  const auto network = std::make_shared<Network>();
  network->closed.resize(static_cast<std::size_t>(size));
  network->sent.resize(static_cast<std::size_t>(size));
  std::vector<std::string> hosts;
  for (int r = 0; r < size; ++r) hosts.push_back("h" + std::to_string(r));
  std::vector<std::unique_ptr<Ranks>> all;
  for (int r = 0; r < size; ++r) {
    const LinkedOptions options{.timeout = timeout,
                                .grace = std::chrono::milliseconds(200),
                                .linger = std::chrono::milliseconds(200)};
    all.push_back(
        std::make_unique<LinkedRanks>(r, hosts, std::make_unique<ThreadLink>(network, r),
                                      std::make_unique<LastWords>(std::make_shared<MemoryBoard>(network), r,
                                                                  size, hosts[static_cast<std::size_t>(r)]),
                                      options));
  }
  std::vector<std::string> thrown(hosts.size());
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      const auto at = static_cast<std::size_t>(r);
      try {
        body(*all[at]);
      } catch (const std::exception& error) {
        thrown[at] = error.what();
      }
      all[at].reset();
    });
  }
  for (std::thread& one : threads) one.join();
  if (sent != nullptr) *sent = network->sent;
  return thrown;
}

}  // namespace hone::parallel::thread_ranks
