#include "serve/training/datum_bins.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "parallel/ranks.h"

namespace hone::serve {
namespace {

std::size_t bytes_of(const Datum& datum) {
  const std::size_t numbers = datum.tokens.size() + datum.targets.size() + datum.weights.size() +
                              datum.logprobs.size() + datum.advantages.size();
  return sizeof(Datum) + numbers * sizeof(float);
}

}  // namespace

void DatumBins::add(const Datum& datum, const LossSpec& spec, std::size_t most) {
  const std::size_t bytes = bytes_of(datum);
  if (bytes > most - bytes_) {
    throw base::UserError(
        {.where = "forward_backward",
         .expected = "at most " + std::to_string(most) + " bytes of datums in one step",
         .found = std::to_string(bytes_ + bytes),
         .cause = "with gradient_sums bins the server keeps a step's datums until optim_step",
         .fix = "call optim_step earlier, or start the server without this option"});
  }
  kept_.push_back({datum, spec});
  bytes_ += bytes;
}

void DatumBins::truncate(std::size_t size) {
  while (kept_.size() > size) {
    bytes_ -= bytes_of(kept_.back().datum);
    kept_.pop_back();
  }
}

void DatumBins::begin(const at::Tensor& gradient) {
  std::vector<std::int64_t> costs;
  for (const Kept& one : kept_) costs.push_back(std::ssize(one.datum.tokens) + 1);
  adding_.emplace(Adding{parallel::BinnedWork(costs, 1), parallel::BinSums(gradient), {}});
  adding_->order = adding_->work.items_of_rank(0);
}

void DatumBins::clear() {
  adding_.reset();
  kept_.clear();
  bytes_ = 0;
}

bool DatumBins::add_next(const at::Tensor& gradient, const Compute& compute) {
  if (kept_.empty()) return false;
  try {
    if (!adding_) begin(gradient);
    Adding& adding = *adding_;
    const std::int64_t item = adding.order[adding.next++];
    if (const int bin = adding.work.bin_of(item); bin != adding.bin) {
      adding.bin = bin;
      adding.sums.begin_bin(bin);
    }
    const Kept& one = kept_[static_cast<std::size_t>(item)];
    compute(one.datum, one.spec);
    if (adding.next < adding.order.size()) return true;
    parallel::OneRank alone;
    adding.sums.finish(alone, "gradients");
  } catch (...) {
    clear();
    throw;
  }
  clear();
  return false;
}

}  // namespace hone::serve
