// The order in which packed_attention_backward processes its segments. Internal to it.
//
// A run is a range of queries that are processed together: a segment without a prefix, or neighboring
// segments with the same prefix. A family shares sums of dk and dv: a segment without a prefix and the runs
// that attend to it.
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

// In the order of the segments without a prefix. InternalError unless the segments cover 0 to `tokens` in
// order without gap or overlap, and every prefix precedes its segments and has no prefix itself.
std::vector<Family> families_of(const std::vector<AttentionSegment>& segments, std::int64_t tokens,
                                const char* where);

// Queries [begin, end) and the first `keys` keys of one segment. Query t attends to all of them or, in its
// own segment, to those up to itself.
struct Span {
  std::size_t segment = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t keys = 0;
  bool own = false;
};

// The keys that queries [begin, end) of a run attend to: its prefix, then each segment's own keys.
std::vector<Span> spans_of(const std::vector<AttentionSegment>& segments, const Run& run, std::int64_t begin,
                           std::int64_t end);

// Of queries [begin, end) of a run the first position of their sequence, prefix included, that a window shows;
// may be below 0.
std::vector<std::int64_t> first_seen(const std::vector<AttentionSegment>& segments, const Run& run,
                                     std::int64_t begin, std::int64_t end, std::int64_t window);

}  // namespace hone::ops
