// The work of a run that its ranks share: micro-batches and passes of optimizer steps, batches of evaluations. Every rank gets
// what all of them found, so that losses, metrics and gradients are those of one process that did all the work.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/mapped_files.h"
#include "parallel/ranks.h"
#include "parallel/tree_sum.h"
#include "train/facts/facts_bytes.h"

namespace hone::train {

using Costs = std::vector<std::int64_t>;  // of each item, in tokens: ranks get nearly equal sums

// Collectives within the ranks' shares of work: ranks whose share is done take part in those of the others.
class InnerCollectives {
 public:
  virtual ~InnerCollectives() = default;
  virtual void accompany() = 0;  // returns when every rank is here
};

class SharedWork {
 public:
  // Makes the work of one process, which adds gradients in order of item.
  SharedWork();
  // `gradient`: the buffer that passes add to, where the ranks' sum is wanted: in fixed bins and by a tree (parallel/tree_sum.h),
  // so that the bits are those of any number of ranks. `inner`, where it is not null, adds up the gradients of ranks
  // (train/loop/shards.h); with an undefined gradient also those of passes. `ranks` must outlive it.
  SharedWork(parallel::Ranks& ranks, at::Tensor gradient, parallel::BinSums::Order order,
             InnerCollectives* inner = nullptr);

  parallel::Ranks& ranks() const { return *ranks_; }

  // compute(i) for this rank's items; the facts of all items, in order of item, on every rank. An error of compute ends the
  // collective on every rank: the rank's own there, a RankFault on the others. compute makes no collective but the inner ones.
  template <typename Facts, typename Compute>
  std::vector<Facts> each(const Costs& costs, const Compute& compute, std::string_view what) {
    return run<Facts>(costs, compute, what, /*adds=*/false);
  }
  // The same where compute adds to the gradient buffer, which then holds the sum over all items. Once a step.
  template <typename Facts, typename Compute>
  std::vector<Facts> add_gradients(const Costs& costs, const Compute& compute) {
    return run<Facts>(costs, compute, "gradients", /*adds=*/true);
  }

 private:
  using ComputeBytes = std::function<std::string(std::size_t)>;

  // In order of item, by this process alone.
  bool is_alone(bool adds) const { return !ranks_->several() && !(adds && sums_); }
  std::vector<std::string> run_shared(const Costs& costs, const ComputeBytes& compute, std::string_view what,
                                      bool adds);

  template <typename Facts, typename Compute>
  std::vector<Facts> run(const Costs& costs, const Compute& compute, std::string_view what, bool adds) {
    std::vector<Facts> out;
    out.reserve(costs.size());
    if (is_alone(adds)) {
      for (std::size_t i = 0; i < costs.size(); ++i) out.push_back(compute(i));
      base::require_readable();
      return out;
    }
    const ComputeBytes as_bytes = [&compute](std::size_t i) {
      std::string bytes = write_facts<Facts>(compute(i));
      base::require_readable();  // before the others add what was computed of it
      return bytes;
    };
    for (const std::string& bytes : run_shared(costs, as_bytes, what, adds))
      out.push_back(read_facts<Facts>(bytes));
    return out;
  }

  parallel::OneRank alone_;
  parallel::Ranks* ranks_ = &alone_;
  std::optional<parallel::BinSums> sums_;
  InnerCollectives* inner_ = nullptr;
};

}  // namespace hone::train
