// A step's datums until optim_step: their gradients are added up in the bins and by the tree of a run
// (parallel/bins.h), so that a loop has the bits of `hone grpo`. Which bin a datum belongs to depends on the lengths of
// all datums of the step, so nothing is added before the last of them is known.
//
// A datum costs its tokens and the one that its last position predicts, as a sequence does in a run.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "parallel/bins.h"
#include "parallel/tree_sum.h"
#include "serve/training/losses.h"

namespace hone::serve {

class DatumBins {
 public:
  // Bytes of a step's datums that are kept at most.
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;

  // Keeps a copy. UserError beyond kMostBytes, or `most` where a test says less.
  void add(const Datum& datum, const LossSpec& spec, std::size_t most = kMostBytes);
  std::size_t size() const { return kept_.size(); }
  // Forgets all but the first `size`.
  void truncate(std::size_t size);

  // Has `compute` add the gradient of the next datum to `gradient`, whose contents of before are lost. False: the sum is
  // whole, and no datum is kept. After an exception nothing is kept, and the gradient is undefined.
  using Compute = std::function<void(const Datum&, const LossSpec&)>;
  bool add_next(const at::Tensor& gradient, const Compute& compute);

 private:
  struct Kept {
    Datum datum;
    LossSpec spec;
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

  std::vector<Kept> kept_;
  std::size_t bytes_ = 0;
  std::optional<Adding> adding_;
};

}  // namespace hone::serve
