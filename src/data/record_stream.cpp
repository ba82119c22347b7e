#include "data/record_stream.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace hone::data {

std::int64_t RecordStream::hold(std::int64_t from, std::int64_t to) {
  base::require(from >= 0 && from <= to, "data::RecordStream::hold", "rows in order");
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
    std::optional<RecordBlock> block = next_();
    ended_ = !block;
    if (!block || block->rows.empty()) continue;
    blocks_.push_back({.block = std::move(*block), .first = end_});
    end_ = blocks_.back().end();
    while (blocks_.size() > kBefore && blocks_[kBefore - 1].end() <= from) blocks_.pop_front();
  }
  return std::min(to, end_);
}

const RecordStream::Held& RecordStream::held(std::int64_t row) const {
  const auto found =
      std::find_if(blocks_.begin(), blocks_.end(), [row](const Held& each) { return row < each.end(); });
  base::require(found != blocks_.end() && row >= found->first, "data::RecordStream", "a row that is held");
  return *found;
}

Batch RecordStream::batch(const std::vector<std::int64_t>& which) const {
  Batch out;
  for (const std::int64_t row : which) {
    const Held& at = held(row);
    append_row(at.block.records, at.block.rows, row - at.first, out);
  }
  return out;
}

std::vector<RecordView> RecordStream::members(std::int64_t row) const {
  const Held& at = held(row);
  std::vector<RecordView> out;
  for (const std::uint32_t member : at.block.rows.members(static_cast<std::size_t>(row - at.first)))
    out.push_back(at.block.records[member]);
  return out;
}

}  // namespace hone::data
