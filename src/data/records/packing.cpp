// Best fit, decreasing: records go longest first (ties in file order) into the fullest bin that still has
// room for them; among bins with the same room, the one that has had it longest. TRL finds that bin with a
// segment tree; an ordered map from room to a queue of bins gives the same answer.
#include "data/records/packing.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/numeric.h"
#include "data/records/record_writer.h"

namespace hone::data {
namespace {

constexpr std::int64_t kChunk = 1000;  // datasets.map's default batch_size

std::int64_t length_of(const Records& records, std::int64_t index) {
  return records.tokens(static_cast<std::size_t>(index));
}

std::int64_t count_of(const Records& records) {
  return static_cast<std::int64_t>(records.size());
}

// Bins of records [begin, end).
std::vector<std::vector<std::int64_t>> pack_chunk(const std::vector<std::int64_t>& lengths,
                                                  std::int64_t begin, std::int64_t max_length) {
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] > 0) order.push_back(static_cast<std::int64_t>(i));
  }
  const auto length_at = [&](std::int64_t i) { return lengths[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return length_at(a) > length_at(b); });
  std::vector<std::vector<std::int64_t>> bins;
  std::map<std::int64_t, std::deque<std::size_t>> bins_by_room;
  for (const std::int64_t index : order) {
    const std::int64_t length = length_at(index);
    base::require(length <= max_length, "data::pack_bfd", "records already cut to max_length");
    std::size_t bin = bins.size();
    std::int64_t room = max_length;
    if (const auto best = bins_by_room.lower_bound(length); best != bins_by_room.end()) {
      room = best->first;
      bin = best->second.front();
      best->second.pop_front();
      if (best->second.empty()) bins_by_room.erase(best);
    } else {
      bins.emplace_back();
    }
    bins[bin].push_back(begin + index);
    if (room > length) bins_by_room[room - length].push_back(bin);
  }
  return bins;
}

void add_rows(const std::vector<std::vector<std::int64_t>>& bins, PackedRows& rows) {
  for (const auto& bin : bins) {
    for (const std::int64_t member : bin) rows.add_member(member);
    rows.end_row();
  }
}

std::int64_t fragment_row(std::int64_t row, std::int64_t fragment) {
  return row + fragment % kMaxFragments * kFragment;
}

// Tokens [begin, end) of a record; `row` is the fragment's.
RecordView part_of(const RecordView& record, std::int64_t begin, std::int64_t end, std::int64_t row) {
  const auto from = static_cast<std::size_t>(begin), size = static_cast<std::size_t>(end - begin);
  return {.row = row,
          .ids = record.ids.subspan(from, size),
          .supervised = record.supervised.subspan(from, size),
          .labels = record.labels.empty() ? record.labels : record.labels.subspan(from, size)};
}

// The lengths of the fragments, which go to `out`.
void split(const RecordView& record, std::int64_t max_length, RecordWriter& out,
           std::vector<std::int64_t>& lengths) {
  const auto length = static_cast<std::int64_t>(record.ids.size());
  std::int64_t begin = 0;
  do {
    const std::int64_t end = std::min(begin + max_length, length);
    out.add(part_of(record, begin, end, fragment_row(record.row, begin / max_length)));
    lengths.push_back(end - begin);
    begin = end;
  } while (begin < length);
}

// Fills rows one after another, each with the next max_length tokens.
class Wrapper {
 public:
  Wrapper(std::int64_t max_length, RecordWriter& out) : max_length_(max_length), out_(out) {}

  void add(const RecordView& record) {
    std::int64_t fragment = 0;  // rows that begin in this record
    const auto length = static_cast<std::int64_t>(record.ids.size());
    for (std::int64_t begin = 0; begin < length;) {
      if (row_.ids.empty()) row_.row = fragment_row(record.row, fragment++);
      const auto room = max_length_ - static_cast<std::int64_t>(row_.ids.size());
      const std::int64_t end = std::min(begin + room, length);
      const RecordView part = part_of(record, begin, end, row_.row);
      add_labels(part);
      row_.ids.insert(row_.ids.end(), part.ids.begin(), part.ids.end());
      row_.supervised.insert(row_.supervised.end(), part.supervised.begin(), part.supervised.end());
      if (end - begin == room) close();
      begin = end;
    }
  }

  // Ends the row that is open.
  void close() {
    if (row_.ids.empty()) return;
    out_.add(view(row_));
    row_ = {};
  }

 private:
  // Before the part's tokens: a row has labels of its own as soon as one of its parts has.
  void add_labels(const RecordView& part) {
    if (part.labels.empty() && row_.labels.empty()) return;
    if (row_.labels.empty()) row_.labels = row_.ids;
    const auto& labels = part.labels.empty() ? part.ids : part.labels;
    row_.labels.insert(row_.labels.end(), labels.begin(), labels.end());
  }

  std::int64_t max_length_;
  RecordWriter& out_;
  Record row_;
};

void append(const RecordView& record, Batch& batch) {
  const auto begin = static_cast<std::int64_t>(batch.ids.size());
  const auto size = static_cast<std::int64_t>(record.ids.size());
  if (size == 0) return;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    batch.ids.push_back(record.ids[at]);
    batch.positions.push_back(i);
    batch.labels.push_back(i > 0 && record.supervised[at] != 0 ? record.label(at) : kIgnore);
  }
  batch.segments.push_back({begin, begin + size, record.row});
}

}  // namespace

PackedRows::PackedRows(const std::vector<std::vector<std::int64_t>>& rows) {
  add_rows(rows, *this);
}

std::span<const std::uint32_t> PackedRows::members(std::size_t row) const {
  const std::size_t begin = row == 0 ? 0 : ends_.at(row - 1);
  return std::span(members_).subspan(begin, ends_.at(row) - begin);
}

void PackedRows::add_member(std::int64_t record) {
  members_.push_back(base::narrow<std::uint32_t>(record));
}

void PackedRows::end_row() {
  ends_.push_back(members_.size());
}

void PackedRows::reorder(const std::vector<std::int64_t>& order) {
  base::require(order.size() == size(), "data::PackedRows::reorder", "all rows");
  PackedRows out;
  out.members_.reserve(members_.size());
  out.ends_.reserve(ends_.size());
  for (const std::int64_t from : order) {
    const auto row = members(static_cast<std::size_t>(from));
    out.members_.insert(out.members_.end(), row.begin(), row.end());
    out.end_row();
  }
  *this = std::move(out);
}

void PackedRows::append(const PackedRows& more, std::int64_t records_before) {
  for (std::size_t row = 0; row < more.size(); ++row) {
    for (const std::uint32_t member : more.members(row)) add_member(records_before + member);
    end_row();
  }
}

std::int64_t row_tokens(const Records& records, const PackedRows& rows, std::size_t row) {
  std::int64_t out = 0;
  for (const std::uint32_t member : rows.members(row)) out += records.tokens(member);
  return out;
}

PackedRows no_packing(const Records& records) {
  PackedRows rows;
  for (std::int64_t i = 0; i < count_of(records); ++i) {
    rows.add_member(i);
    rows.end_row();
  }
  return rows;
}

PackedRows pack_bfd(const Records& records, std::int64_t max_length) {
  base::require(max_length > 0, "data::pack_bfd", "a max_length above 0");
  PackedRows rows;
  const std::int64_t count = count_of(records);
  for (std::int64_t begin = 0; begin < count; begin += kChunk) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = begin; i < std::min(begin + kChunk, count); ++i)
      lengths.push_back(length_of(records, i));
    add_rows(pack_chunk(lengths, begin, max_length), rows);
  }
  return rows;
}

PackedRecords pack_bfd_split(const Records& records, std::int64_t max_length, std::size_t most_memory) {
  base::require(max_length > 0, "data::pack_bfd_split", "a max_length above 0");
  PackedRecords out;
  RecordWriter writer({.most_memory = most_memory});
  std::vector<std::int64_t> lengths;  // of the chunk's fragments
  std::int64_t first = 0, seen = 0;
  const auto pack = [&] {
    add_rows(pack_chunk(lengths, first, max_length), out.rows);
    first += static_cast<std::int64_t>(lengths.size());
    lengths.clear();
  };
  records.for_each([&](const RecordView& record) {
    split(record, max_length, writer, lengths);
    if (++seen % kChunk == 0) pack();
  });
  pack();
  out.records = writer.finish();
  return out;
}

PackedRecords pack_wrapped(const Records& records, std::int64_t max_length, std::size_t most_memory) {
  base::require(max_length > 0, "data::pack_wrapped", "a max_length above 0");
  RecordWriter writer({.most_memory = most_memory});
  Wrapper wrapper(max_length, writer);
  std::int64_t seen = 0;
  records.for_each([&](const RecordView& record) {
    if (seen++ % kChunk == 0) wrapper.close();
    wrapper.add(record);
  });
  wrapper.close();
  PackedRecords out = {.records = writer.finish(), .rows = {}};
  out.rows = no_packing(out.records);
  return out;
}

void append_row(const Records& records, const PackedRows& rows, std::int64_t row, Batch& batch) {
  for (const std::uint32_t member : rows.members(static_cast<std::size_t>(row))) {
    append(records[member], batch);
    records.release(member);
  }
}

Batch make_batch(const Records& records, const PackedRows& rows, const std::vector<std::int64_t>& which) {
  Batch batch;
  for (const std::int64_t row : which) append_row(records, rows, row, batch);
  return batch;
}

}  // namespace hone::data
