// Sums whose bits do not depend on the number of ranks: in order within a bin, by a binary tree across bins
// (parallel/bins.h).
//
// With 8 bins:  ((b0 + b1) + (b2 + b3)) + ((b4 + b5) + (b6 + b7))
// A rank adds up its own bins, which are a subtree, and Ranks::sum adds the subtrees. A bin without work is left out:
// b0 + nothing = b0. The total has no negative zeros (+0 is added once), so a left-out bin is a bin of zeros.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "parallel/ranks.h"

namespace hone::parallel {

// Adds up one buffer over bins while a step goes on: passes of a bin add to the buffer, in order of item.
//
//   BinSums sums(gradient);
//   for (int bin : own bins with work) { sums.begin_bin(bin); for (item) backward adds to gradient; }
//   sums.finish(ranks, "gradients");   // gradient holds the total of all ranks
//
// One bin with work needs no copy. The buffer is zeroed by begin_bin and never moved.
class BinSums {
 public:
  enum class Order {
    kTree,   // equal bits for 1, 2, 4 and 8 ranks; tree_buffers() copies of the buffer at most
    kPlain,  // bins of a rank are added in order, without copies: bits are equal only for equally many ranks
  };
  // buffer: fp32 or fp64, contiguous. Memory of copies is kept for the next step by whoever keeps the BinSums.
  explicit BinSums(at::Tensor buffer, Order order = Order::kTree);

  // Bins ascend within a step. The first one zeroes the buffer, as do the others after their predecessor was put away.
  void begin_bin(int bin);
  // The buffer holds this rank's total: zeros when no bin had work. Then a new step may begin.
  void finish_local();
  // finish_local, then the sum over ranks: one collective.
  void finish(Ranks& ranks, std::string_view what);
  const at::Tensor& buffer() const { return buffer_; }

 private:
  struct Node {
    int bin;  // any bin of the subtree that `sum` is the total of
    std::size_t copy;
  };
  void merge_below(int level);

  at::Tensor buffer_;
  Order order_;
  int bin_ = -1;                    // whose sum the buffer holds; -1: none yet
  std::vector<Node> nodes_;         // complete subtrees to the left, in order
  std::vector<at::Tensor> copies_;  // memory for nodes_
};

// The most copies of the buffer that a rank needs for kTree: log2 of the bins of a rank.
int tree_buffers(int ranks);

// out[i] = the sum of parts[0][i], parts[1][i], ... by the tree, plus +0; for at least one part. The tree of a number
// that is no power of two: complete subtrees from the left, added from the right: ((p0 + p1) + (p2 + p3)) + p4.
// Parts are overwritten; `out` may be one of them. T: float or double.
template <typename T>
void tree_add(std::span<T* const> parts, T* out, std::int64_t count);

}  // namespace hone::parallel
