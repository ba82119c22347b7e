#include "train/batches/run_data.h"

#include "base/error.h"

namespace hone::train {

data::Batch RecordData::batch(const std::vector<std::int64_t>& which) const {
  return stream != nullptr ? stream->batch(which) : data::make_batch(records, rows, which);
}

std::vector<data::RecordView> RecordData::members(std::int64_t row) const {
  if (stream != nullptr) return stream->members(row);
  std::vector<data::RecordView> out;
  for (const std::uint32_t member : rows.members(static_cast<std::size_t>(row)))
    out.push_back(records[member]);
  return out;
}

std::vector<data::RecordView> RecordData::one_of_each(const std::vector<std::int64_t>& which) const {
  std::vector<data::RecordView> out;
  for (const std::int64_t row : which) {
    const std::vector<data::RecordView> all = members(row);
    base::require(all.size() == 1, "train::RecordData::one_of_each", "rows that are not packed");
    out.push_back(all.front());
  }
  return out;
}

std::int64_t RecordData::tokens(const std::vector<std::int64_t>& which) const {
  std::int64_t out = 0;
  for (const std::int64_t row : which) {
    if (stream == nullptr) out += data::row_tokens(records, rows, static_cast<std::size_t>(row));
    if (stream == nullptr) continue;
    for (const data::RecordView& member : stream->members(row)) out += std::ssize(member.ids);
  }
  return out;
}

void RecordData::release(const std::vector<std::int64_t>& which) const {
  if (stream != nullptr) return;  // a block's pages go with it
  for (const std::int64_t row : which) {
    for (const std::uint32_t member : rows.members(static_cast<std::size_t>(row))) records.release(member);
  }
}

bool RunData::has_pairs() const {
  const auto* const given = std::get_if<RecordData>(this);
  return given != nullptr && !given->records.empty() && given->records.sequences(0) > 1;
}

}  // namespace hone::train
