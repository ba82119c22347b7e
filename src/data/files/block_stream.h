// Blocks of rows that are made as they are needed: TRL's IterableDataset (dataset_streaming). A pass goes over
// the data set from its first row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"

namespace hone::data {

// `Block`: rows of a pass, those after the last block's, size() of them.
template <typename Block>
class BlockStream {
 public:
  using NextBlock = std::function<std::optional<Block>()>;  // nullopt: there were all
  // begin() begins a pass: what it returns gives its blocks, which may be empty.
  explicit BlockStream(std::function<NextBlock()> begin) : begin_(std::move(begin)) {}

  // Reads on to row `to` and returns it, or the number of rows of the pass where there are fewer. Rows from
  // `from` on can be asked for afterwards; earlier ones may be gone. A `from` before those that are held
  // begins another pass. UserError: what begin() and its blocks throw.
  std::int64_t hold(std::int64_t from, std::int64_t to) {
    base::require(from >= 0 && from <= to, "data::BlockStream::hold", "rows in order");
    const std::int64_t first = blocks_.empty() ? end_ : blocks_.front().first;
    if (next_ == nullptr || from < first) {
      next_ = begin_();
      blocks_.clear();
      end_ = 0;
      ended_ = false;
    }
    // One block before `from` stays: what looks at the data before a step may go back to it.
    constexpr std::size_t kBefore = 2;
    while (end_ < to && !ended_) {
      std::optional<Block> block = next_();
      ended_ = !block;
      if (!block || block->size() == 0) continue;
      blocks_.push_back({.block = std::move(*block), .first = end_});
      end_ = blocks_.back().end();
      while (blocks_.size() > kBefore && blocks_[kBefore - 1].end() <= from) blocks_.pop_front();
    }
    return std::min(to, end_);
  }

  // The first block that is held: after hold(0, 1) that with the first row. Null: none.
  const Block* first_block() const { return blocks_.empty() ? nullptr : &blocks_.front().block; }

  struct Place {
    const Block& block;
    std::int64_t index;  // of the row in the block
  };
  // This finds a row that is held. The result is valid until the next hold().
  Place place(std::int64_t row) const {
    const auto found =
        std::find_if(blocks_.begin(), blocks_.end(), [row](const Held& each) { return row < each.end(); });
    base::require(found != blocks_.end() && row >= found->first, "data::BlockStream", "a row that is held");
    return {.block = found->block, .index = row - found->first};
  }

 private:
  struct Held {
    Block block;
    std::int64_t first = 0;  // row of the pass
    std::int64_t end() const { return first + static_cast<std::int64_t>(block.size()); }
  };

  std::function<NextBlock()> begin_;
  NextBlock next_;  // null: no pass was begun
  std::deque<Held> blocks_;
  std::int64_t end_ = 0;  // rows that were read
  bool ended_ = false;
};

}  // namespace hone::data
