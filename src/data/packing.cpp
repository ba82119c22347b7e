// Best fit, decreasing: examples go longest first (ties in file order) into the fullest bin that still has
// room for them; among bins with the same room, the one that has had it longest. TRL finds that bin with a
// segment tree; an ordered map from room to a queue of bins gives the same answer.
#include "data/packing.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

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

// Tokens [begin, end) of an example; `row` is the fragment's.
Example part_of(const Example& example, std::int64_t begin, std::int64_t end, std::int64_t row) {
  return {.row = row,
          .ids = {example.ids.begin() + begin, example.ids.begin() + end},
          .supervised = {example.supervised.begin() + begin, example.supervised.begin() + end}};
}

std::int64_t fragment_row(std::int64_t row, std::int64_t fragment) {
  return row + fragment % kMaxFragments * kFragment;
}

void split(Example&& example, std::int64_t max_length, std::vector<Example>& fragments) {
  const auto length = static_cast<std::int64_t>(example.ids.size());
  if (length <= max_length) {
    fragments.push_back(std::move(example));
    return;
  }
  for (std::int64_t begin = 0; begin < length; begin += max_length) {
    fragments.push_back(part_of(example, begin, std::min(begin + max_length, length),
                                fragment_row(example.row, begin / max_length)));
  }
}

// Fills rows one after another, each with the next max_length tokens.
class Wrapper {
 public:
  Wrapper(std::int64_t max_length, PackedExamples& out) : max_length_(max_length), out_(out) {}

  void add(const Example& example) {
    std::int64_t fragment = 0;  // rows that begin in this example
    const auto length = static_cast<std::int64_t>(example.ids.size());
    for (std::int64_t begin = 0; begin < length;) {
      if (row_.ids.empty()) row_.row = fragment_row(example.row, fragment++);
      const auto room = max_length_ - static_cast<std::int64_t>(row_.ids.size());
      const std::int64_t end = std::min(begin + room, length);
      row_.ids.insert(row_.ids.end(), example.ids.begin() + begin, example.ids.begin() + end);
      row_.supervised.insert(row_.supervised.end(), example.supervised.begin() + begin,
                             example.supervised.begin() + end);
      if (end - begin == room) close();
      begin = end;
    }
  }

  // Ends the row that is open.
  void close() {
    if (row_.ids.empty()) return;
    const auto index = static_cast<std::int64_t>(out_.examples.size());
    out_.rows.push_back({{index}, static_cast<std::int64_t>(row_.ids.size())});
    out_.examples.push_back(std::exchange(row_, {}));
  }

 private:
  std::int64_t max_length_;
  PackedExamples& out_;
  Example row_;
};

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

PackedExamples pack_bfd_split(std::vector<Example> examples, std::int64_t max_length) {
  base::require(max_length > 0, "data::pack_bfd_split", "a max_length above 0");
  PackedExamples out;
  const auto count = static_cast<std::int64_t>(examples.size());
  for (std::int64_t begin = 0; begin < count; begin += kChunk) {
    const auto first = static_cast<std::int64_t>(out.examples.size());
    for (std::int64_t i = begin; i < std::min(begin + kChunk, count); ++i) {
      split(std::move(examples[static_cast<std::size_t>(i)]), max_length, out.examples);
    }
    pack_chunk(out.examples, first, static_cast<std::int64_t>(out.examples.size()), max_length, out.rows);
  }
  return out;
}

PackedExamples pack_wrapped(const std::vector<Example>& examples, std::int64_t max_length) {
  base::require(max_length > 0, "data::pack_wrapped", "a max_length above 0");
  PackedExamples out;
  Wrapper wrapper(max_length, out);
  for (std::size_t i = 0; i < examples.size(); ++i) {
    if (i % static_cast<std::size_t>(kChunk) == 0) wrapper.close();
    wrapper.add(examples[i]);
  }
  wrapper.close();
  return out;
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
