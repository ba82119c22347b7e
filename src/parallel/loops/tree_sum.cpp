#include "parallel/tree_sum.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/error.h"
#include "parallel/bins.h"

namespace hone::parallel {

namespace {

constexpr std::int64_t kBlock = 4096;  // elements whose tree is done while they are in a core's cache

// The level of the smallest subtree that holds both bins.
int common_level(int a, int b) {
  return std::bit_width(static_cast<unsigned>(a ^ b));
}

template <typename T>
void add_block(T* __restrict into, const T* __restrict from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) into[i] += from[i];
}

template <typename T>
void tree_add_block(std::span<T* const> parts, T* out, std::int64_t begin, std::int64_t count) {
  std::array<std::pair<std::size_t, std::size_t>, 40> stack;  // (part, parts below it)
  std::size_t depth = 0;
  const auto merge = [&] {
    --depth;
    add_block(parts[stack[depth - 1].first] + begin, parts[stack[depth].first] + begin, count);
    stack[depth - 1].second += stack[depth].second;
  };
  for (std::size_t part = 0; part < parts.size(); ++part) {
    stack[depth++] = {part, 1};
    while (depth > 1 && stack[depth - 2].second == stack[depth - 1].second) merge();
  }
  while (depth > 1) merge();
  const T* const total = parts[0] + begin;
  for (std::int64_t i = 0; i < count; ++i) out[begin + i] = total[i] + T(0);
}

}  // namespace

template <typename T>
void tree_add(std::span<T* const> parts, T* out, std::int64_t count) {
  base::require(!parts.empty(), "parallel::tree_add", "a part at least");
  at::parallel_for(0, (count + kBlock - 1) / kBlock, 8, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      tree_add_block(parts, out, block * kBlock, std::min(kBlock, count - block * kBlock));
    }
  });
}

template void tree_add(std::span<float* const>, float*, std::int64_t);
template void tree_add(std::span<double* const>, double*, std::int64_t);

int tree_buffers(int ranks) {
  return std::bit_width(static_cast<unsigned>(bins_for(ranks) / ranks)) - 1;
}

BinSums::BinSums(at::Tensor buffer, Order order) : buffer_(std::move(buffer)), order_(order) {
  base::require(buffer_.is_contiguous() &&
                    (buffer_.scalar_type() == at::kFloat || buffer_.scalar_type() == at::kDouble),
                "parallel::BinSums", "a contiguous buffer of float32 or float64");
}

// Adds complete subtrees to the left into the buffer, as far as they and the buffer are one subtree below `level`.
void BinSums::merge_below(int level) {
  while (!nodes_.empty() && common_level(nodes_.back().bin, bin_) < level) {
    buffer_ += copies_[nodes_.back().copy];
    nodes_.pop_back();
  }
}

void BinSums::begin_bin(int bin) {
  base::require(bin > bin_, "parallel::BinSums::begin_bin", "ascending bins");
  const bool first = bin_ < 0;
  if (!first && order_ == Order::kTree) {
    merge_below(common_level(bin_, bin));
    const std::size_t copy = nodes_.size();
    if (copy == copies_.size()) copies_.push_back(at::empty_like(buffer_));
    copies_[copy].copy_(buffer_);
    nodes_.push_back({bin_, copy});
  }
  if (first || order_ == Order::kTree) buffer_.zero_();
  bin_ = bin;
}

void BinSums::finish_local() {
  if (bin_ < 0) {
    buffer_.zero_();
    return;
  }
  merge_below(64);
  bin_ = -1;
}

void BinSums::finish(Ranks& ranks, std::string_view what) {
  finish_local();
  if (ranks.several()) {
    ranks.sum(buffer_, what);
  } else {
    buffer_.add_(0.0);  // no negative zeros, as tree_add has none
  }
}

}  // namespace hone::parallel
