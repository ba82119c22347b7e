#include "ops/backend/cuda/pool_index.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ops/backend/cuda/staged_lists.h"
#include "ops/backend/kv_memory.h"

namespace hone::ops::cuda {
namespace {

// What decides an index: of each row where its queries and keys are.
struct RowPlace {
  std::int64_t begin = 0, end = 0;   // of q
  std::int64_t own = 0, offset = 0;  // where its own keys begin, and how many the first query has before it
  std::int64_t prefix = 0, in_prefix = 0;  // where those of its prefix begin, and how many
  bool operator==(const RowPlace&) const = default;
};

std::int64_t begin_of(const KvTiles& tiles) {
  return KvMemory::run(tiles)->place(0);
}

std::vector<RowPlace> places_of(const std::vector<AttentionRows>& rows) {
  std::vector<RowPlace> out;
  out.reserve(rows.size());
  for (const AttentionRows& one : rows) {
    if (one.begin == one.end) continue;
    RowPlace place{.begin = one.begin, .end = one.end, .own = begin_of(*one.own), .offset = one.own_offset};
    if (!one.before.empty() && one.before.front()->length() > 0) {
      place.prefix = begin_of(*one.before.front());
      place.in_prefix = one.before.front()->length();
    }
    out.push_back(place);
  }
  return out;
}

struct QueryRuns {
  std::vector<std::int64_t> queries, query_begins = {0}, key_begins, key_lengths;

  // `count` rows of q from `begin` on, which see `keys` rows of the pool from `from` on
  void add(std::int64_t begin, std::int64_t count, std::int64_t from, std::int64_t keys) {
    for (std::int64_t i = 0; i < count; ++i) queries.push_back(begin + i);
    query_begins.push_back(static_cast<std::int64_t>(queries.size()));
    key_begins.push_back(from);
    key_lengths.push_back(keys);
  }
  // The same keys again, for rows that follow.
  bool continues(std::int64_t from, std::int64_t keys) const {
    return !key_begins.empty() && key_begins.back() == from && key_lengths.back() == keys;
  }
  void add_to_last(std::int64_t begin, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) queries.push_back(begin + i);
    query_begins.back() += count;
  }
};

struct RunLists {
  QueryRuns single, several, prefixes;
  bool some_without_prefix = false;
};

// A window is a matter of where keys begin, for a row alone. Several rows behind a prefix are then taken one by one.
RunLists lists_of(const std::vector<RowPlace>& rows, std::int64_t window) {
  RunLists out;
  bool any_prefix = false;
  for (const RowPlace& row : rows) {
    any_prefix = any_prefix || row.in_prefix > 0;
    const std::int64_t count = row.end - row.begin;
    const bool one_by_one = count == 1 || (window > 0 && row.in_prefix > 0);
    if (!one_by_one) out.several.add(row.begin, count, row.own, row.offset + count);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t before = row.offset + i;  // own keys before the row's own
      if (one_by_one) {
        const std::int64_t first = window > 0 ? std::max<std::int64_t>(0, before - window + 1) : 0;
        out.single.add(row.begin + i, 1, row.own + first, before + 1 - first);
      }
      const std::int64_t hidden =
          window > 0 ? std::clamp<std::int64_t>(row.in_prefix + before - window + 1, 0, row.in_prefix) : 0;
      const std::int64_t from = row.prefix + hidden, keys = row.in_prefix - hidden;
      out.some_without_prefix = out.some_without_prefix || keys == 0;
      if (out.prefixes.continues(from, keys)) {
        out.prefixes.add_to_last(row.begin + i, 1);
      } else {
        out.prefixes.add(row.begin + i, 1, from, keys);
      }
    }
  }
  if (!any_prefix) out.prefixes = {};
  return out;
}

struct Staged {
  std::size_t queries = 0, query_begins = 0, key_begins = 0, key_lengths = 0;
};

// `all`: the rows of q; where these are all of them, they are not listed.
Staged add(StagedLists& staging, const QueryRuns& s, std::size_t all) {
  std::vector<std::int64_t> key_begins = s.key_begins;
  key_begins.push_back(0);
  return {.queries = staging.add_wide(s.queries.size() < all ? s.queries : std::vector<std::int64_t>()),
          .query_begins = staging.add(s.query_begins),
          .key_begins = staging.add(key_begins),
          .key_lengths = staging.add(s.key_lengths)};
}

PoolReads reads_of(const StagedLists& staging, const Staged& lists, const QueryRuns& s, std::size_t all) {
  PoolReads out;
  out.sequences = static_cast<std::int64_t>(s.key_lengths.size());
  if (out.sequences == 0) return out;
  if (s.queries.size() < all) out.queries = staging.of(lists.queries).view(at::kLong);
  out.query_begins = staging.of(lists.query_begins);
  out.key_begins = staging.of(lists.key_begins);
  out.key_lengths = staging.of(lists.key_lengths);
  for (std::size_t i = 0; i < s.key_lengths.size(); ++i)
    out.longest_query = std::max(out.longest_query, s.query_begins[i + 1] - s.query_begins[i]);
  out.longest_keys = *std::max_element(s.key_lengths.begin(), s.key_lengths.end());
  return out;
}

PoolIndex index_of_places(const std::vector<RowPlace>& rows, std::int64_t window, at::Device device) {
  const RunLists lists = lists_of(rows, window);
  const std::size_t all = lists.single.queries.size() + lists.several.queries.size();
  StagedLists staging;
  const Staged single = add(staging, lists.single, all), several = add(staging, lists.several, all),
               prefixes = add(staging, lists.prefixes, all);
  staging.send(device);
  return {.single = reads_of(staging, single, lists.single, all),
          .several = reads_of(staging, several, lists.several, all),
          .prefixes = reads_of(staging, prefixes, lists.prefixes, all),
          .some_without_prefix = lists.some_without_prefix};
}

}  // namespace

backend::KvPool* pool_of(const std::vector<AttentionRows>& rows, std::int64_t queries) {
  backend::KvPool* pool = nullptr;
  std::int64_t covered = 0;
  const auto joins = [&](const KvTiles& tiles) {
    const backend::KvRun* const run = KvMemory::run(tiles);
    if (run == nullptr || (pool != nullptr && pool != &run->pool())) return false;
    pool = &run->pool();
    return true;
  };
  for (const AttentionRows& one : rows) {
    if (one.begin != covered || !joins(*one.own)) return nullptr;
    for (const KvTiles* const before : one.before)
      if (!joins(*before)) return nullptr;
    covered = one.end;
  }
  return covered == queries ? pool : nullptr;
}

const PoolIndex& pool_index(const std::vector<AttentionRows>& rows, std::int64_t window, at::Device device) {
  struct Known {
    std::vector<RowPlace> rows;
    std::int64_t window = -1;
    at::Device device = at::kCPU;
    PoolIndex index;
  };
  // Layers of a model differ in their windows, and in where their pools have put a sequence when they are of two models.
  using AllKnown = std::array<Known, 4>;
  thread_local AllKnown& known =
      *new AllKnown;  // never destroyed: its tensors may outlive the device's runtime
  thread_local std::size_t oldest = 0;
  std::vector<RowPlace> places = places_of(rows);
  for (const Known& one : known) {
    if (one.window == window && one.device == device && one.rows == places) return one.index;
  }
  Known& one = known[std::exchange(oldest, (oldest + 1) % known.size())];
  one = {.rows = std::move(places), .window = window, .device = device, .index = {}};
  one.index = index_of_places(one.rows, window, device);
  return one.index;
}

}  // namespace hone::ops::cuda
