// Packed sequences: some that follow a prefix, each group side by side.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ops/attention.h"
#include "ops/cases/case.h"

namespace hone::ops::cases {

using Segments = std::vector<AttentionSegment>;

inline std::int64_t tokens_of(const Segments& segments) {
  return segments.empty() ? 0 : segments.back().end;
}

inline std::string describe(const Segments& segments) {
  std::string out;
  for (const AttentionSegment& s : segments) {
    out += out.empty() ? "" : " ";
    out += std::to_string(s.end - s.begin) + (s.prefix == kNoSegment ? "" : "<" + std::to_string(s.prefix));
  }
  return out;
}

// Rows of a segment, after those of its prefix.
inline at::Tensor with_prefix(const at::Tensor& x, const Segments& segments, const AttentionSegment& s) {
  const at::Tensor own = x.slice(0, s.begin, s.end);
  if (s.prefix == kNoSegment) return own;
  const AttentionSegment& before = segments[static_cast<std::size_t>(s.prefix)];
  return at::cat({x.slice(0, before.begin, before.end), own});
}

// f of each sequence with its prefix repeated: the rows of the segments.
template <typename Function>
at::Tensor of_sequences(const Segments& segments, const Function& f) {
  std::vector<at::Tensor> out;
  for (const AttentionSegment& s : segments) {
    const std::int64_t n = s.end - s.begin;
    if (n == 0) continue;
    const at::Tensor rows = f(s);
    out.push_back(rows.narrow(0, rows.size(0) - n, n));
  }
  return at::cat(out);
}

// A prefix with all that follow it, or a segment alone, as a batch of its own.
struct Group {
  std::int64_t begin = 0, end = 0;
  Segments segments;
};

inline std::vector<Group> groups_of(const Segments& segments) {
  std::vector<Group> out;
  for (const AttentionSegment& s : segments) {
    if (s.prefix == kNoSegment) out.push_back({s.begin, s.end, {}});
    Group& group = out.back();
    group.end = s.end;
    group.segments.push_back(
        {s.begin - group.begin, s.end - group.begin, s.prefix == kNoSegment ? kNoSegment : 0});
  }
  return out;
}

}  // namespace hone::ops::cases
