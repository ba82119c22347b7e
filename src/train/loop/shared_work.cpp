#include "train/loop/shared_work.h"

#include "parallel/bins.h"
#include "parallel/turns.h"

namespace hone::train {

SharedWork::SharedWork() = default;

SharedWork::SharedWork(parallel::Ranks& ranks, at::Tensor gradient, parallel::BinSums::Order order,
                       InnerCollectives* inner)
    : ranks_(&ranks), inner_(inner) {
  if (gradient.defined()) sums_.emplace(std::move(gradient), order);
}

std::vector<std::string> SharedWork::run_shared(const Costs& costs, const ComputeBytes& compute,
                                                std::string_view what, bool adds) {
  const parallel::BinnedWork work(costs, ranks_->size());
  base::require(!adds || sums_ || inner_ != nullptr || !ranks_->several(), "train::SharedWork",
                "a gradient that ranks can add up");
  int bin = -1;
  const auto in_bin = [&](std::int64_t item) {
    if (adds && sums_ && work.bin_of(item) != bin) {
      bin = work.bin_of(item);
      sums_->begin_bin(bin);
    }
    return compute(static_cast<std::size_t>(item));
  };
  try {
    std::function<void()> after;
    if (inner_ != nullptr) after = [this] { inner_->accompany(); };
    std::vector<std::string> facts = parallel::in_turns(*ranks_, work, in_bin, what, after);
    if (adds && sums_) inner_ == nullptr ? sums_->finish(*ranks_, what) : sums_->finish_local();
    return facts;
  } catch (...) {
    if (adds && sums_) sums_->finish_local();  // the next step begins with no bin
    throw;
  }
}

}  // namespace hone::train
