// The structs that other rooms use: one tokenized row, and one packed batch.
#pragma once

#include <cstdint>
#include <vector>

namespace hone::data {

constexpr std::int64_t kIgnore = -100;  // a label that is not scored (torch's ignore_index)

// One row after tokenization and truncation.
struct Example {
  std::int64_t row = 0;                  // line of the data file, from 0; the key of its randomness
  std::vector<std::int32_t> ids;         // [T]
  std::vector<std::uint8_t> supervised;  // [T] 1 where the token is a target
};

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
