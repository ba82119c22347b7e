#include "ops/backend/attention_runs.h"

#include <algorithm>

#include "base/error.h"

namespace hone::ops {

std::vector<Family> families_of(const std::vector<AttentionSegment>& segments, std::int64_t tokens,
                                const char* where) {
  std::vector<Family> families;
  std::vector<std::size_t> family_of(segments.size());
  std::int64_t at_token = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto& [begin, end, prefix] = segments[i];
    base::require(begin == at_token && end > begin, where, "segments in order, without gap or overlap");
    at_token = end;
    if (prefix == kNoSegment) {
      family_of[i] = families.size();
      families.push_back({{{.first = i, .last = i + 1, .begin = begin, .end = end}}});
      continue;
    }
    base::require(prefix >= 0 && prefix < static_cast<std::int64_t>(i), where,
                  "a prefix that comes before its segment");
    const auto of_prefix = static_cast<std::size_t>(prefix);
    base::require(segments[of_prefix].prefix == kNoSegment, where, "a prefix that has none itself");
    std::vector<Run>& runs = families[family_of[of_prefix]].runs;
    Run& latest = runs.back();
    if (latest.prefix == prefix && latest.last == i) {
      latest.last = i + 1;
      latest.end = end;
    } else {
      runs.push_back({.first = i, .last = i + 1, .begin = begin, .end = end, .prefix = prefix});
    }
  }
  base::require(at_token == tokens, where, "segments that cover every token");
  return families;
}

std::vector<Span> spans_of(const std::vector<AttentionSegment>& segments, const Run& run, std::int64_t begin,
                           std::int64_t end) {
  std::vector<Span> spans;
  if (run.prefix != kNoSegment) {
    const auto i = static_cast<std::size_t>(run.prefix);
    spans.push_back({i, begin, end, segments[i].end - segments[i].begin, false});
  }
  for (std::size_t i = run.first; i < run.last; ++i) {
    const std::int64_t from = std::max(begin, segments[i].begin), to = std::min(end, segments[i].end);
    if (from < to) spans.push_back({i, from, to, to - segments[i].begin, true});
  }
  return spans;
}

std::vector<std::int64_t> first_seen(const std::vector<AttentionSegment>& segments, const Run& run,
                                     std::int64_t begin, std::int64_t end, std::int64_t window) {
  std::int64_t before = 0;
  if (run.prefix != kNoSegment) {
    const AttentionSegment& prefix = segments[static_cast<std::size_t>(run.prefix)];
    before = prefix.end - prefix.begin;
  }
  std::vector<std::int64_t> first;
  for (std::size_t i = run.first; i < run.last; ++i) {
    const std::int64_t to = std::min(end, segments[i].end);
    for (std::int64_t t = std::max(begin, segments[i].begin); t < to; ++t) {
      first.push_back(before + t - segments[i].begin + 1 - window);
    }
  }
  return first;
}

}  // namespace hone::ops
