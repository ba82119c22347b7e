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

bool DatumRoom::take(std::size_t bytes) {
  std::size_t used = used_;
  do {
    if (bytes > most_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return true;
}

void DatumBins::add(const Datum& datum, const LossSpec& spec, std::int64_t ordinal) {
  const std::size_t bytes = bytes_of(datum);
  if (!room_->take(bytes)) {
    std::size_t own = 0;
    for (const Kept& one : kept_) own += bytes_of(one.datum);
    throw base::UserError(
        {.where = "forward_backward",
         .expected = "at most " + std::to_string(room_->most()) + " bytes of datums that wait for optim_step",
         .found = std::to_string(bytes) + " more, beside " + std::to_string(own) + " of this model and " +
                  std::to_string(room_->used() - own) + " of others",
         .cause = "with gradient_sums bins the server keeps a step's datums until optim_step",
         .fix =
             "call optim_step earlier, wait for that of the other models, or start the server without this option"});
  }
  kept_.push_back({datum, spec, ordinal});
}

void DatumBins::truncate(std::size_t size) {
  while (kept_.size() > size) {
    room_->give_back(bytes_of(kept_.back().datum));
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
  truncate(0);
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
    try {
      compute(one.datum, one.spec);
    } catch (const base::UserError& error) {
      base::ErrorText text = error.text();
      text.where = "datum " + std::to_string(one.ordinal) + " of the step, " + text.where;
      throw base::UserError(text);
    }
    if (adding.next < adding.order.size()) return true;
    parallel::OneRank alone;
    adding.sums.finish(alone, "gradients");
  } catch (...) {
    adding_.reset();
    throw;
  }
  clear();
  return false;
}

}  // namespace hone::serve
