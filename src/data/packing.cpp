// Best fit, decreasing: examples go longest first (ties in file order) into the fullest bin that still has
// room for them; among bins with the same room, the one that has had it longest. TRL finds that bin with a
// segment tree; an ordered map from room to a queue of bins gives the same answer.
#include "data/packing.h"

#include <algorithm>
#include <deque>
#include <map>

#include "base/error.h"

namespace hone::data {
namespace {

constexpr std::int64_t kChunk = 1000;  // datasets.map's default batch_size

std::int64_t length_of(const std::vector<Example>& examples, std::int64_t index) {
  return static_cast<std::int64_t>(examples[static_cast<std::size_t>(index)].ids.size());
}

// Packs examples [begin, end) and appends the bins to `rows`.
void pack_chunk(const std::vector<Example>& examples, std::int64_t begin, std::int64_t end,
                std::int64_t max_length, std::vector<PackedRow>& rows) {
  std::vector<std::int64_t> order;
  for (std::int64_t i = begin; i < end; ++i) {
    if (length_of(examples, i) > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return length_of(examples, a) > length_of(examples, b);
  });
  std::map<std::int64_t, std::deque<std::size_t>> bins_by_room;
  for (const std::int64_t index : order) {
    const std::int64_t length = length_of(examples, index);
    base::require(length <= max_length, "data::pack_bfd", "examples already cut to max_length");
    std::size_t bin = rows.size();
    std::int64_t room = max_length;
    if (const auto best = bins_by_room.lower_bound(length); best != bins_by_room.end()) {
      room = best->first;
      bin = best->second.front();
      best->second.pop_front();
      if (best->second.empty()) bins_by_room.erase(best);
    } else {
      rows.emplace_back();
    }
    rows[bin].members.push_back(index);
    rows[bin].tokens += length;
    if (room > length) bins_by_room[room - length].push_back(bin);
  }
}

void append(const Example& example, Batch& batch) {
  const auto begin = static_cast<std::int64_t>(batch.ids.size());
  const auto size = static_cast<std::int64_t>(example.ids.size());
  if (size == 0) return;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    batch.ids.push_back(example.ids[at]);
    batch.positions.push_back(i);
    batch.labels.push_back(i > 0 && example.supervised[at] != 0 ? example.ids[at] : kIgnore);
  }
  batch.segments.push_back({begin, begin + size, example.row});
}

}  // namespace

std::vector<PackedRow> no_packing(const std::vector<Example>& examples) {
  std::vector<PackedRow> rows;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(examples.size()); ++i) {
    rows.push_back({{i}, length_of(examples, i)});
  }
  return rows;
}

std::vector<PackedRow> pack_bfd(const std::vector<Example>& examples, std::int64_t max_length) {
  base::require(max_length > 0, "data::pack_bfd", "a max_length above 0");
  std::vector<PackedRow> rows;
  const auto count = static_cast<std::int64_t>(examples.size());
  for (std::int64_t begin = 0; begin < count; begin += kChunk) {
    pack_chunk(examples, begin, std::min(begin + kChunk, count), max_length, rows);
  }
  return rows;
}

Batch make_batch(const std::vector<Example>& examples, const std::vector<PackedRow>& rows,
                 const std::vector<std::int64_t>& which) {
  Batch batch;
  for (const std::int64_t row : which) {
    for (const std::int64_t member : rows.at(static_cast<std::size_t>(row)).members) {
      const Example& example = examples.at(static_cast<std::size_t>(member));
      base::require(example.ids.size() == example.supervised.size(), "data::make_batch", "one flag a token");
      append(example, batch);
    }
  }
  return batch;
}

}  // namespace hone::data
