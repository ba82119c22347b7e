// The processes of a run. W ranks compute what one process with W times the accumulation computes; this is what they
// tell each other.
//
// A collective is a call that every rank makes, in the same order, with the same `what` and sizes. No collective inside
// uneven work (a loop that is longer on one rank, a branch that one rank takes): the others would wait. Each is checked:
// ranks that are in different collectives get a RankFault at once.
//
// `what` names the collective in faults: "gradients", "stop and finite". With the step of at_step it says where a rank was.
// Every collective may throw a RankFault; after one the Ranks is of no use but for last_words. None waits longer than the
// time-out it was opened with, or set_timeout's. Not thread-safe: one thread makes the collectives.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace hone::parallel {

// Another rank is the cause, or ranks differ. what() holds a table of all ranks: host, step, collective, state, last error.
class RankFault : public base::UserError {
 public:
  enum class Kind {
    kLost,      // a rank was killed or crashed, or the connection to it broke
    kSilent,    // a rank did not come within the time-out: it is stopped, hangs, or its host is cut off
    kDiverged,  // ranks are in different collectives
    kDiffers,   // ranks have different values where all must have the same
    kError,     // a rank ended with an error of its own
    kTwice,     // two processes are the same rank: two jobs on one store
  };
  RankFault(Kind kind, std::vector<int> ranks, base::ErrorText text)
      : UserError(std::move(text)), kind_(kind), ranks_(std::move(ranks)) {}
  Kind kind() const { return kind_; }
  const std::vector<int>& ranks() const { return ranks_; }  // the culprits, ascending
  // Returns whether the same run, started once more, may succeed: exit code 75
  // (commands/ranks/launch_ranks.h) instead of that of a mistake.
  bool restart_may_help() const { return kind_ == Kind::kLost || kind_ == Kind::kSilent; }

 private:
  Kind kind_;
  std::vector<int> ranks_;
};

// Holds what all ranks said, element by element.
struct Agreed {
  std::vector<std::int64_t> min, max;
  std::vector<std::int64_t> any;  // bitwise or
  bool same(std::size_t i) const { return min.at(i) == max.at(i); }
};

// One contiguous part of a tensor's elements: [begin, end).
struct Part {
  std::int64_t begin = 0, end = 0;
};

// Returns what rank `rank` of `ranks` has of `count` elements: equal parts, in order of rank, the last ones
// shorter.
Part part_of(std::int64_t count, int rank, int ranks);

class Ranks {
 public:
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  virtual ~Ranks() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_rank() const = 0;  // among the ranks of this host
  virtual int local_size() const = 0;
  virtual const std::vector<std::string>& hosts() const = 0;  // of every rank, in order of rank
  bool leads() const { return rank() == 0; }                  // writes checkpoints, prints, logs
  bool several() const { return size() > 1; }

  // How long collectives wait from now on.
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;

  // Says which optimizer step the next collectives belong to, from 1; 0: before the first.
  virtual void at_step(std::int64_t step) = 0;

  // values = the sum of every rank's values, in order of rank by a binary tree; every rank gets the same bits. values:
  // fp32 or fp64, contiguous, CPU, of one size everywhere. For sums whose bits do not depend on the number of ranks
  // use BinSums (parallel/tree_sum.h), which calls this. Sends 2 (W-1)/W of the values.
  virtual void sum(const at::Tensor& values, std::string_view what) = 0;
  // The two halves of sum, for sharded optimizers. part_of: parallel::part_of() of as many ranks.
  // sum_part: this rank's part holds the sum, the rest of values is left as it was.
  // gather_parts: every rank gets the parts of all (any dtype).
  Part part_of(std::int64_t count, int rank) const { return parallel::part_of(count, rank, size()); }
  virtual void sum_part(const at::Tensor& values, std::string_view what) = 0;
  virtual void gather_parts(const at::Tensor& values, std::string_view what) = 0;

  // Every rank's bytes, in order of rank, on every rank. Sizes may differ.
  virtual std::vector<std::string> gather(std::string_view bytes, std::string_view what) = 0;
  // Rank 0's bytes; those of the others are not read.
  virtual std::string broadcast(std::string_view bytes, std::string_view what) = 0;
  // values = rank 0's. Contiguous, CPU, any dtype, of one size everywhere.
  virtual void broadcast(const at::Tensor& values, std::string_view what) = 0;
  // At most kAgreeValues values, equally many everywhere. One message to each rank: cheap enough for every step.
  virtual Agreed agree(std::span<const std::int64_t> values, std::string_view what) = 0;
  // Returns when every rank has come.
  virtual void barrier(std::string_view what) = 0;

  // Tells the others why this rank ends, before it ends by an error of its own: their RankFault then holds `error`.
  // Call it once, where an error leaves the run; without it the others say that the rank was lost.
  virtual void last_words(std::string_view error) noexcept = 0;
  // Waits for all ranks at the end of a run, then closes the connections. Call it where a run ends well (also by
  // an agreed stop), on every rank; collectives after it are errors. Without it the destructor closes at once.
  virtual void finish() = 0;
};

constexpr std::size_t kAgreeValues = 24;

// The only rank of a run: every call is a no-op that costs nothing.
class OneRank final : public Ranks {
 public:
  OneRank() = default;
  explicit OneRank(std::string host) : hosts_{std::move(host)} {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  const std::vector<std::string>& hosts() const override { return hosts_; }
  void set_timeout(std::chrono::milliseconds) override {}
  void at_step(std::int64_t) override {}
  void sum(const at::Tensor&, std::string_view) override {}
  void sum_part(const at::Tensor&, std::string_view) override {}
  void gather_parts(const at::Tensor&, std::string_view) override {}
  std::vector<std::string> gather(std::string_view bytes, std::string_view what) override;
  std::string broadcast(std::string_view bytes, std::string_view what) override;
  void broadcast(const at::Tensor&, std::string_view) override {}
  Agreed agree(std::span<const std::int64_t> values, std::string_view what) override;
  void barrier(std::string_view) override {}
  void last_words(std::string_view) noexcept override {}
  void finish() override {}

 private:
  std::vector<std::string> hosts_ = {"localhost"};
};

// Something that every rank must have the same of: {"max_length", "512"}, {"data of train.jsonl", "9f31..."}.
struct SameValue {
  std::string name, value;
};
// One gather. kDiffers where a value is not that of rank 0: names every value that differs, with the ranks that have it.
// `cause` and `fix` end the error. Ranks may also lack names that others have; that differs too.
void require_same(Ranks& ranks, const std::vector<SameValue>& values, std::string_view what,
                  std::string_view cause, std::string_view fix);

}  // namespace hone::parallel
