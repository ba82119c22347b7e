// What ranks over any network are made of: messages between two of them, and a board that all can write on. c10d_ranks
// has them over Gloo and TCPStore; tests have them between threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace hone::parallel {

using SteadyClock = std::chrono::steady_clock;

// To and from one other rank. Both sides know both sizes.
struct Message {
  int peer = 0;
  std::span<const std::byte> out;  // empty: nothing is sent
  std::span<std::byte> in;         // empty: nothing is received
};

struct LinkFailure {
  int peer = 0;
  bool timed_out = false;  // false: the connection broke
  std::string why;         // the network library's words
};

class Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;
  // Posts all messages at once and returns when each is sent and received, or has failed: the failures, in order of peer.
  // Never throws for the network, never waits longer than `timeout`. After a failure the link is of no use.
  virtual std::vector<LinkFailure> exchange(std::span<const Message> messages,
                                            std::chrono::milliseconds timeout) = 0;
  // Peers see a broken connection.
  virtual void close() = 0;
};

// Keys and values. Calls may block as long as the host of the board does not answer, and may throw.
class Board {
 public:
  Board() = default;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  virtual ~Board() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  virtual std::vector<std::string> get(const std::vector<std::string>& keys) = 0;  // keys that have been set
};

}  // namespace hone::parallel
