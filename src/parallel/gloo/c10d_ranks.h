// Ranks over the network: torch's Gloo for messages, torch's TCPStore to find each other and for last words. The .cpp is
// the only file that knows c10d.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "parallel/place.h"
#include "parallel/ranks.h"

namespace hone::parallel {

struct RankOptions {
  // How long a collective waits for the others, and the longest that work between two collectives may take on one rank
  // more than on another.
  std::chrono::milliseconds timeout{1'800'000};
  // How long the ranks may start apart: for finding each other.
  std::chrono::milliseconds start_timeout{300'000};
  // How long a rank that has seen a fault waits for the last words of the others.
  std::chrono::milliseconds grace{3'000};
  // A rank that waits for others, in a collective or for them to start, says so every `wait_told`; empty: it
  // says nothing.
  std::chrono::milliseconds wait_told{30'000};
  std::function<void(const std::string&)> on_wait = {};
  // How long rank 0, where it keeps the store, stays after a fault until the others have read it.
  std::chrono::milliseconds linger{30'000};
};

// Finds the other ranks and connects to each. OneRank when place.size is 1. UserError when MASTER_PORT is in use,
// MASTER_ADDR cannot be resolved or reached, or two processes have one rank (two jobs on one store); RankFault (kSilent)
// names the ranks that have not come within start_timeout.
std::unique_ptr<Ranks> open_ranks(const RankPlace& place, const RankOptions& options);

// A store for ranks that others start: `hone launch`. It lives as long as the object, in a thread of its own.
class HostedStore {
 public:
  // port 0: a free one. UserError when the port is in use.
  explicit HostedStore(int port);
  ~HostedStore();
  HostedStore(const HostedStore&) = delete;
  HostedStore& operator=(const HostedStore&) = delete;
  int port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::parallel
