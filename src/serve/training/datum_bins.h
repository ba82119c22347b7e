// A step's datums until optim_step: their gradients are added up in the bins and by the tree of a run
// (parallel/bins.h), so that a loop has the bits of `hone grpo`. Which bin a datum belongs to depends on the lengths of
// all datums of the step, so nothing is added before the last of them is known.
//
// A datum costs its tokens and the one that its last position predicts, as a sequence does in a run.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/bins.h"
#include "parallel/tree_sum.h"
#include "serve/training/losses.h"

namespace hone::serve {

// Bytes of datums that all models of a server keep together. Models may end on any thread.
class DatumRoom {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;
  explicit DatumRoom(std::size_t most = kMostBytes) : most_(most) {}
  // False: there is not so much left.
  bool take(std::size_t bytes);
  void give_back(std::size_t bytes) { used_ -= bytes; }
  std::size_t used() const { return used_; }
  std::size_t most() const { return most_; }

 private:
  std::size_t most_;
  std::atomic<std::size_t> used_ = 0;
};

class DatumBins {
 public:
  explicit DatumBins(std::shared_ptr<DatumRoom> room = std::make_shared<DatumRoom>())
      : room_(std::move(room)) {}
  ~DatumBins() { clear(); }
  DatumBins(const DatumBins&) = delete;
  DatumBins& operator=(const DatumBins&) = delete;

  // Keeps a copy of the step's datum `ordinal`, counted from zero. UserError where the room has no place for it.
  void add(const Datum& datum, const LossSpec& spec, std::int64_t ordinal);
  std::size_t size() const { return kept_.size(); }
  // Forgets all but the first `size`.
  void truncate(std::size_t size);

  // Has `compute` add the gradient of the next datum to `gradient`, whose contents of before are lost. False: the sum is
  // whole, and no datum is kept. After an exception every datum is still kept, the gradient is undefined, and the next
  // call begins the sum again. A UserError of `compute` gets the datum's number.
  using Compute = std::function<void(const Datum&, const LossSpec&)>;
  bool add_next(const at::Tensor& gradient, const Compute& compute);

 private:
  struct Kept {
    Datum datum;
    LossSpec spec;
    std::int64_t ordinal = 0;
  };
  struct Adding {
    parallel::BinnedWork work;
    parallel::BinSums sums;
    std::vector<std::int64_t> order;  // of datums, bin by bin
    std::size_t next = 0;
    int bin = -1;
  };
  void begin(const at::Tensor& gradient);
  void clear();

  std::shared_ptr<DatumRoom> room_;
  std::vector<Kept> kept_;
  std::optional<Adding> adding_;
};

}  // namespace hone::serve
