// How packed_attention_backward goes through its segments. Internal to it.
//
// A run is a stretch of queries that are treated together: a segment without a prefix, or neighbouring
// segments with the same one. A family is what shares sums of dk and dv: a segment without a prefix and the
// runs that see it.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention.h"

namespace hone::ops {

struct Run {
  std::size_t first = 0, last = 0;   // segments, one past the last
  std::int64_t begin = 0, end = 0;   // tokens
  std::int64_t prefix = kNoSegment;  // segment
};

struct Family {
  std::vector<Run> runs;  // the first is the segment without a prefix
};

// In the order of the segments without a prefix. InternalError unless the segments lie in order without gap
// or overlap from 0 to `tokens`, and a prefix comes before what it is for and has none itself.
std::vector<Family> families_of(const std::vector<AttentionSegment>& segments, std::int64_t tokens,
                                const char* where);

// Queries [begin, end) and keys of one segment that they see: the first `keys` of them, of which query t sees
// all, or if it is the segment's own, those up to itself.
struct Span {
  std::size_t segment = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t keys = 0;
  bool own = false;
};

// What queries [begin, end) of a run see: its prefix, then each segment's own keys.
std::vector<Span> spans_of(const std::vector<AttentionSegment>& segments, const Run& run, std::int64_t begin,
                           std::int64_t end);

}  // namespace hone::ops
