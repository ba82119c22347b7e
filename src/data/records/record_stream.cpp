#include "data/records/record_stream.h"

namespace hone::data {

Batch RecordStream::batch(const std::vector<std::int64_t>& which) const {
  Batch out;
  for (const std::int64_t row : which) {
    const Place at = place(row);
    append_row(at.block.records, at.block.rows, at.index, out);
  }
  return out;
}

std::vector<RecordView> RecordStream::members(std::int64_t row) const {
  const Place at = place(row);
  std::vector<RecordView> out;
  for (const std::uint32_t member : at.block.rows.members(static_cast<std::size_t>(at.index)))
    out.push_back(at.block.records[member]);
  return out;
}

}  // namespace hone::data
