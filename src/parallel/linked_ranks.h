// Ranks over a Link and a Board. Every collective begins with a header from each rank to each: the collective, its number,
// step and size, and small values. So ranks in different collectives find out at once, every rank knows who has not come, and
// `agree` is one message. What follows goes directly from rank to rank.
//
// Sums: rank r adds up part r of the tensor, in order of rank by the tree (tree_add), and sends it to the others. For W
// ranks a rank sends (W-1)/W of the tensor twice, as recursive halving and doubling would; a round takes at most
// kRoundElements, which bounds the memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/fault_table.h"
#include "parallel/last_words.h"
#include "parallel/link.h"
#include "parallel/ranks.h"
#include "parallel/wait_teller.h"

namespace hone::parallel {

struct LinkedOptions {
  std::chrono::milliseconds timeout{1'800'000};
  std::chrono::milliseconds grace{3'000};    // for the last words of others, after a fault
  std::chrono::milliseconds linger{30'000};  // how long the rank that keeps the board stays for the others
  bool keeps_board = false;
  // A rank that waits in a collective says so every `wait_told`, in a thread of its own; without `on_wait` it
  // says nothing.
  std::chrono::milliseconds wait_told{30'000};
  std::function<void(const std::string&)> on_wait = {};
  int local_rank = 0, local_size = 1;
  std::shared_ptr<void> kept;  // lives as long as the ranks: the server of the board
};

class LinkedRanks final : public Ranks {
 public:
  enum class Kind : std::uint32_t {
    kSum,
    kSumPart,
    kGatherParts,
    kGather,
    kBroadcast,
    kBroadcastTensor,
    kAgree,
    kBarrier
  };
  struct Header;
  // hosts: of every rank, in order. The rank is words' rank.
  LinkedRanks(int rank, std::vector<std::string> hosts, std::unique_ptr<Link> link,
              std::unique_ptr<LastWords> words, const LinkedOptions& options);
  ~LinkedRanks() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hosts_.size()); }
  int local_rank() const override { return options_.local_rank; }
  int local_size() const override { return options_.local_size; }
  const std::vector<std::string>& hosts() const override { return hosts_; }
  void set_timeout(std::chrono::milliseconds timeout) override { options_.timeout = timeout; }
  void at_step(std::int64_t step) override { step_ = step; }
  void sum(const at::Tensor& values, std::string_view what) override;
  void sum_part(const at::Tensor& values, std::string_view what) override;
  void gather_parts(const at::Tensor& values, std::string_view what) override;
  std::vector<std::string> gather(std::string_view bytes, std::string_view what) override;
  std::string broadcast(std::string_view bytes, std::string_view what) override;
  void broadcast(const at::Tensor& values, std::string_view what) override;
  Agreed agree(std::span<const std::int64_t> values, std::string_view what) override;
  void barrier(std::string_view what) override;
  void last_words(std::string_view error) noexcept override;
  void finish() override;

 private:
  // Begins a collective: every rank's header, in order of rank. `inlined`: bytes that travel in the header.
  std::vector<Header> begin(Kind kind, std::string_view what, std::uint64_t bytes,
                            std::string_view inlined = {});
  void end();
  void exchange(const std::vector<Message>& messages);
  [[noreturn]] void fault(std::vector<LinkFailure> failures);
  void read_last_words(SeenFault& seen);
  [[noreturn]] void diverged(const std::vector<Header>& all);

  template <typename T>
  void sum_own_part(const at::Tensor& values);
  void send_parts(std::byte* bytes, std::int64_t count, std::int64_t element);
  void scatter_parts(std::byte* bytes, std::int64_t count, std::int64_t element);
  void leave(bool after_fault);
  void tell_wait(const WaitTeller::Wait& wait);

  int rank_;
  std::vector<std::string> hosts_;
  LinkedOptions options_;  // before the words, which need what it keeps
  std::unique_ptr<Link> link_;
  std::unique_ptr<LastWords> words_;
  std::int64_t step_ = 0, number_ = 0;
  std::string what_;
  bool ended_ = false;   // finished, or failed: no more collectives
  bool waited_ = false;  // has told the board that it is done
  std::vector<std::byte> scratch_;
  WaitTeller waiting_;  // last: its thread uses the others
};

}  // namespace hone::parallel
