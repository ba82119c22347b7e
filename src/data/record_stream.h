// Rows that are made as they are needed: TRL's IterableDataset (dataset_streaming). A pass goes over the data
// set from its first row.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "data/packing.h"
#include "data/records.h"

namespace hone::data {

// Rows of a pass, those after the last block's.
struct RecordBlock {
  Records records;
  PackedRows rows;
};

class RecordStream {
 public:
  using NextBlock = std::function<std::optional<RecordBlock>()>;  // nullopt: there were all
  // begin() begins a pass: what it returns gives its blocks, which may be empty.
  explicit RecordStream(std::function<NextBlock()> begin) : begin_(std::move(begin)) {}

  // Reads on to row `to` and returns it, or the number of rows of the pass where there are fewer. Rows from
  // `from` on can be asked for afterwards; earlier ones may be gone. A `from` before those that are held
  // begins another pass. UserError: what begin() and its blocks throw.
  std::int64_t hold(std::int64_t from, std::int64_t to);

  // The first block that is held: after hold(0, 1) that with the first row. Null: none.
  const RecordBlock* first_block() const { return blocks_.empty() ? nullptr : &blocks_.front().block; }
  // Of rows that are held. Views are valid until the next hold().
  Batch batch(const std::vector<std::int64_t>& which) const;
  std::vector<RecordView> members(std::int64_t row) const;

 private:
  struct Held {
    RecordBlock block;
    std::int64_t first = 0;  // row of the pass
    std::int64_t end() const { return first + static_cast<std::int64_t>(block.rows.size()); }
  };
  const Held& held(std::int64_t row) const;

  std::function<NextBlock()> begin_;
  NextBlock next_;  // null: no pass was begun
  std::deque<Held> blocks_;
  std::int64_t end_ = 0;  // rows that were read
  bool ended_ = false;
};

}  // namespace hone::data
