#include "ops/backend/cuda/packed_index.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "ops/backend/attention_runs.h"
#include "ops/backend/cuda/staged_lists.h"

namespace hone::ops::cuda {
namespace {

struct Prefixes {
  std::vector<std::int64_t> queries, keys, query_begins = {0}, key_begins = {0};
  std::int64_t longest_queries = 0, longest_keys = 0;
};

Prefixes prefixes_of(const std::vector<AttentionSegment>& segments) {
  Prefixes out;
  const std::int64_t tokens = segments.back().end;
  for (const Family& family : families_of(segments, tokens, "ops::attend_packed")) {
    for (std::size_t i = 1; i < family.runs.size(); ++i) {
      const Run& run = family.runs[i];
      const AttentionSegment& prefix = segments[static_cast<std::size_t>(run.prefix)];
      for (std::int64_t t = run.begin; t < run.end; ++t) out.queries.push_back(t);
      for (std::int64_t t = prefix.begin; t < prefix.end; ++t) out.keys.push_back(t);
      out.query_begins.push_back(static_cast<std::int64_t>(out.queries.size()));
      out.key_begins.push_back(static_cast<std::int64_t>(out.keys.size()));
      out.longest_queries = std::max(out.longest_queries, run.end - run.begin);
      out.longest_keys = std::max(out.longest_keys, prefix.end - prefix.begin);
    }
  }
  return out;
}

PackedIndex made(const std::vector<AttentionSegment>& segments, at::Device device) {
  PackedIndex out;
  std::vector<std::int64_t> begins = {0};
  for (const AttentionSegment& one : segments) {
    begins.push_back(one.end);
    out.longest = std::max(out.longest, one.end - one.begin);
  }
  const Prefixes prefixes = prefixes_of(segments);
  StagedLists lists;
  const std::size_t own = lists.add(begins), queries = lists.add(prefixes.queries),
                    keys = lists.add(prefixes.keys), query_begins = lists.add(prefixes.query_begins),
                    key_begins = lists.add(prefixes.key_begins);
  lists.send(device);
  out.begins = lists.of(own);
  if (prefixes.queries.empty()) return out;
  out.prefixes.queries = lists.of(queries);
  out.prefixes.keys = lists.of(keys);
  out.prefixes.query_begins = lists.of(query_begins);
  out.prefixes.key_begins = lists.of(key_begins);
  out.prefixes.longest_queries = prefixes.longest_queries;
  out.prefixes.longest_keys = prefixes.longest_keys;
  return out;
}

bool same(const std::vector<AttentionSegment>& a, const std::vector<AttentionSegment>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const AttentionSegment& x, const AttentionSegment& y) {
                      return x.begin == y.begin && x.end == y.end && x.prefix == y.prefix;
                    });
}

}  // namespace

const PackedIndex& packed_index(const std::vector<AttentionSegment>& segments, at::Device device) {
  struct Last {
    std::vector<AttentionSegment> segments;
    at::Device device = at::kCPU;
    PackedIndex index;
  };
  thread_local Last& last =
      *new Last;  // never destroyed: its tensors may outlive the device's runtime at exit
  if (last.index.begins.defined() && last.device == device && same(last.segments, segments))
    return last.index;
  last.index = made(segments, device);
  last.segments = segments;
  last.device = device;
  return last.index;
}

}  // namespace hone::ops::cuda
