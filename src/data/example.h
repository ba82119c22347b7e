// The structs that other rooms use: one tokenized row, and one packed batch.
#pragma once

#include <cstdint>
#include <vector>

namespace hone::data {

constexpr std::int64_t kIgnore = -100;  // a label that is not scored (torch's ignore_index)

// One row after tokenization and truncation, or a fragment of it.
struct Example {
  // Line of the data file, from 0, and kFragment for each fragment of it before this one: the key of its
  // randomness, so that two fragments of a row have different dropout.
  std::int64_t row = 0;
  std::vector<std::int32_t> ids;         // [T]
  std::vector<std::uint8_t> supervised;  // [T] 1 where the token is a target
  // [T] what is to be predicted at each target, where the rows have labels that differ from their tokens;
  // empty: the ids
  std::vector<std::int32_t> labels = {};
};

constexpr std::int64_t kFragment = std::int64_t{1} << 32;  // more than a file has rows
constexpr std::int64_t kMaxFragments = 1 << 16;  // base::Stream takes 48 bits; later ones repeat keys

// The line of the data file that an Example::row or Segment::row came from.
constexpr std::int64_t file_row(std::int64_t row) {
  return row % kFragment;
}

constexpr std::int64_t kNoPrefix = -1;

// One example's place in a batch.
struct Segment {
  std::int64_t begin = 0;  // first token in the batch's arrays
  std::int64_t end = 0;    // one past the last
  std::int64_t row = 0;    // Example::row
  // An earlier segment of the batch to which this one's tokens also attend (a prompt that several completions
  // share; its own prefix is kNoPrefix). Positions continue after it.
  std::int64_t prefix = kNoPrefix;
};

// Concatenated examples without padding; attention stays inside a segment and its prefix. A label at t is the
// target *at* t (not shifted): the model's output at t-1 is scored against it. The first token of a segment
// is never a target.
struct Batch {
  std::vector<std::int64_t> ids;        // [T]
  std::vector<std::int64_t> positions;  // [T], 0 at each segment's first token, or its prefix's length
  std::vector<std::int64_t> labels;     // [T], kIgnore where not scored
  std::vector<Segment> segments;
};

}  // namespace hone::data
