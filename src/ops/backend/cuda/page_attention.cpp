#include "ops/backend/cuda/page_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/numeric.h"
#include "ops/backend/cuda.h"
#include "ops/backend/cuda/staged_lists.h"
#include "ops/backend/kv_memory.h"
#include "ops/sampling/page_parts.h"

namespace hone::ops::cuda {
namespace {

using at::Tensor;
using backend::KvPageRun;

// The tokens that a row of AttentionRows sees: `length` of each.
struct Seen {
  const PagedTokens* tokens = nullptr;
  std::int64_t length = 0;
};

template <typename Call>
void for_each_seen(const AttentionRows& row, std::int64_t own, const Call& call) {
  const auto pages_of = [](const KvTiles& tiles) {
    return &static_cast<const KvPageRun*>(KvMemory::run(tiles))->tokens();
  };
  for (const KvTiles* const before : row.before)
    if (before->length() > 0) call(Seen{pages_of(*before), before->length()});
  call(Seen{pages_of(*row.own), own});
}

// Pieces of prompts: FlashAttention-2's lists, and the tokens that it is to see, side by side.
struct Pieces {
  Tensor queries;  // [n] int64, which rows of q; undefined: all
  Tensor query_begins, key_begins;
  std::int64_t longest_query = 0, longest_keys = 0;
  PageSlots keys;
};

struct StepIndex {
  std::int64_t alone = 0, in_pieces = 0;  // rows of q
  Tensor queries;                         // of those that are alone; undefined: all
  SentParts parts;
  Pieces pieces;
};

class IndexOfRows {
 public:
  IndexOfRows(const std::vector<AttentionRows>& rows, bool one_by_one) {
    for (const AttentionRows& row : rows) {
      const std::int64_t count = row.end - row.begin;
      if (count > 1 && !one_by_one) {
        add_piece(row, count);
        continue;
      }
      for (std::int64_t i = 0; i < count; ++i) add_alone(row, i);
    }
  }

  StepIndex send(std::int64_t group, std::int64_t dim, at::Device device) const {
    StepIndex out;
    out.alone = static_cast<std::int64_t>(alone_.size());
    out.in_pieces = static_cast<std::int64_t>(in_pieces_.size());
    if (out.alone > 0) out.parts = ops::send(page_parts(spans_, begins_, group, dim), device);
    if (out.in_pieces == 0) return out;
    StagedLists lists;
    const bool both = out.alone > 0;
    const std::size_t alone = lists.add_wide(both ? alone_ : std::vector<std::int64_t>()),
                      pieces = lists.add_wide(both ? in_pieces_ : std::vector<std::int64_t>()),
                      queries = lists.add(query_begins_), keys = lists.add(key_begins_);
    lists.send(device);
    if (both) {
      out.queries = lists.of(alone).view(at::kLong);
      out.pieces.queries = lists.of(pieces).view(at::kLong);
    }
    out.pieces.query_begins = lists.of(queries);
    out.pieces.key_begins = lists.of(keys);
    out.pieces.longest_query = longest(query_begins_);
    out.pieces.longest_keys = longest(key_begins_);
    out.pieces.keys = send_slots(slots_, device);
    return out;
  }

 private:
  static std::int64_t longest(const std::vector<std::int64_t>& begins) {
    std::int64_t out = 0;
    for (std::size_t i = 1; i < begins.size(); ++i) out = std::max(out, begins[i] - begins[i - 1]);
    return out;
  }
  void add_alone(const AttentionRows& row, std::int64_t i) {
    alone_.push_back(row.begin + i);
    for_each_seen(row, row.own_offset + i + 1, [&](const Seen& one) {
      spans_.push_back({one.tokens->pages(), one.length, one.tokens->cuts()});
    });
    begins_.push_back(spans_.size());
  }
  void add_piece(const AttentionRows& row, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) in_pieces_.push_back(row.begin + i);
    for_each_seen(row, row.own_offset + count, [&](const Seen& one) {
      for (std::int64_t token = 0; token < one.length; ++token) slots_.push_back(one.tokens->slot(token));
    });
    query_begins_.push_back(static_cast<std::int64_t>(in_pieces_.size()));
    key_begins_.push_back(static_cast<std::int64_t>(slots_.size()));
  }

  std::vector<std::int64_t> alone_, in_pieces_, slots_, query_begins_ = {0}, key_begins_ = {0};
  std::vector<PagedRow> spans_;
  std::vector<std::size_t> begins_ = {0};
};

// All that decides the index, as numbers, one after another.
template <typename Put>
void put_key(const std::vector<AttentionRows>& rows, std::int64_t group, std::int64_t dim, bool one_by_one,
             const Put& put) {
  for (const std::int64_t one : {group, dim, std::int64_t{one_by_one ? 1 : 0}}) put(one);
  for (const AttentionRows& row : rows) {
    for (const std::int64_t one : {row.begin, row.end, row.own_offset}) put(one);
    for_each_seen(row, row.own_offset + row.end - row.begin, [&](const Seen& one) {
      put(one.length);
      put(std::ssize(one.tokens->pages()));
      put(std::ssize(one.tokens->cuts()));
      for (const std::int32_t page : one.tokens->pages()) put(page);
      for (const std::int64_t cut : one.tokens->cuts()) put(cut);
    });
  }
}

// Compares each layer's numbers with those of the layer before, without a list of them.
bool is_key(const std::vector<std::int64_t>& key, const std::vector<AttentionRows>& rows, std::int64_t group,
            std::int64_t dim, bool one_by_one) {
  std::size_t count = 0;
  bool same = true;
  put_key(rows, group, dim, one_by_one, [&](std::int64_t one) {
    same = same && count < key.size() && key[count] == one;
    ++count;
  });
  return same && count == key.size();
}

// Layers of a step have the same rows: what they need goes to the device once.
const StepIndex& index_of(const std::vector<AttentionRows>& rows, std::int64_t group, std::int64_t dim,
                          bool one_by_one, at::Device device) {
  struct Known {
    std::vector<std::int64_t> key;
    at::Device device = at::kCPU;
    StepIndex index;
  };
  using AllKnown = std::array<Known, 2>;  // layers of two shapes
  thread_local AllKnown& known =
      *new AllKnown;  // never destroyed: its tensors may outlive the device's runtime
  thread_local std::size_t oldest = 0;
  for (const Known& one : known)
    if (one.device == device && is_key(one.key, rows, group, dim, one_by_one)) return one.index;
  std::vector<std::int64_t> key;
  put_key(rows, group, dim, one_by_one, [&](std::int64_t one) { key.push_back(one); });
  // That of the same shape before others, so that what comes next may lie where it was.
  const auto same = std::find_if(known.begin(), known.end(), [&](const Known& one) {
    return one.device == device && one.key.size() > 2 &&
           std::equal(key.begin(), key.begin() + 3, one.key.begin());
  });
  Known& one = same != known.end() ? *same : known[std::exchange(oldest, (oldest + 1) % known.size())];
  one = {.key = std::move(key), .device = device, .index = {}};
  one.index = IndexOfRows(rows, one_by_one).send(group, dim, device);
  return one.index;
}

// out [n, N, D], lse [N, n]
std::pair<Tensor, Tensor> attend_pieces(const Tensor& q, const PageMemory& memory, const Pieces& pieces,
                                        double scale) {
  const auto seen = [&](const Tensor& all) {
    return all.transpose(1, 2).index({pieces.keys.page, pieces.keys.place});
  };
  const auto found = at::_flash_attention_forward(
      q, seen(memory.keys), seen(memory.values), pieces.query_begins, pieces.key_begins, pieces.longest_query,
      pieces.longest_keys, /*dropout_p=*/0, /*is_causal=*/true, /*return_debug_mask=*/false, scale);
  return {std::get<0>(found), std::get<1>(found)};
}

}  // namespace

bool attend_in_pages(const Tensor& out, const Tensor& lse, const Tensor& q, backend::KvPagePool& pool,
                     const std::vector<AttentionRows>& rows, const AttentionRule& rule) {
  if (rule.window > 0 || rule.soft_cap > 0 || !has_own_kernels(q.device())) return false;
  const PageMemory& memory = pool.memory();
  const std::int64_t group = q.size(1) / memory.keys.size(1), dim = q.size(2);
  const double scale = rule.scale > 0 ? rule.scale : 1 / std::sqrt(static_cast<double>(dim));
  // In fp32 FlashAttention-2 has nothing to give.
  const StepIndex& index = index_of(rows, group, dim, q.scalar_type() != at::kBFloat16, q.device());
  const Tensor heads = out.unflatten(1, {q.size(1), dim});
  if (index.in_pieces == 0) return ops::attend_pages(heads, lse, q, memory, index.parts, scale);
  if (index.alone == 0) {
    const auto [found, sums] = attend_pieces(q, memory, index.pieces, scale);
    heads.copy_(found);
    if (lse.defined()) lse.copy_(sums.t());
    return true;
  }
  const Tensor queries = q.index_select(0, index.queries), alone = at::empty_like(queries),
               sums_alone = lse.defined() ? at::empty({index.alone, q.size(1)}, lse.options()) : Tensor();
  if (!ops::attend_pages(alone, sums_alone, queries, memory, index.parts, scale)) return false;
  const auto [found, sums] =
      attend_pieces(q.index_select(0, index.pieces.queries), memory, index.pieces, scale);
  heads.index_copy_(0, index.queries, alone).index_copy_(0, index.pieces.queries, found);
  if (lse.defined())
    lse.index_copy_(0, index.queries, sums_alone).index_copy_(0, index.pieces.queries, sums.t());
  return true;
}

}  // namespace hone::ops::cuda
