#include "ops/sampling/page_step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "base/error.h"
#include "ops/backend/announce.h"
#include "ops/backend/cuda.h"
#include "ops/index_tensor.h"
#include "ops/sampling/page_lists.h"
#include "ops/sampling/page_parts.h"

namespace hone::ops {
namespace step_index {

using at::Tensor;

// Pieces of prompts: FlashAttention-2's lists, and the tokens that it is to see, side by side.
struct Pieces {
  Tensor queries;  // [n] int64, which rows of q; undefined: all
  Tensor query_begins, key_begins;
  std::int64_t longest_query = 0, longest_keys = 0;
  PageSlots keys;
};

// What a layer of one shape reads in a step that reads prompts.
struct StepIndex {
  std::int64_t alone = 0, in_pieces = 0;  // rows of q
  Tensor queries;                         // of those that are alone; undefined: all
  SentParts parts;
  Pieces pieces;
};

inline Tensor numbers_on(const std::vector<std::int64_t>& values, at::Device device) {
  return staged(at::tensor(values, at::kLong).to(at::kInt), device);
}

class IndexOfRows {
 public:
  IndexOfRows(std::span<const PageRows> rows, bool one_by_one) {
    for (const PageRows& row : rows) {
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
    if (out.alone > 0) {
      out.queries = index_tensor(alone_, device);
      out.pieces.queries = index_tensor(in_pieces_, device);
    }
    out.pieces.query_begins = numbers_on(query_begins_, device);
    out.pieces.key_begins = numbers_on(key_begins_, device);
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
  // What a row's token sees, the last one of `own`.
  template <typename Call>
  static void for_each_seen(const PageRows& row, std::int64_t own, const Call& call) {
    for (const PageRun* const one : row.before)
      if (one->length() > 0) call(one->tokens(), one->length());
    call(row.own->tokens(), own);
  }
  void add_alone(const PageRows& row, std::int64_t i) {
    alone_.push_back(row.begin + i);
    for_each_seen(row, row.own->length() - (row.end - row.begin) + i + 1,
                  [&](const PagedTokens& tokens, std::int64_t length) {
                    spans_.push_back({tokens.pages(), length, tokens.cuts()});
                  });
    begins_.push_back(spans_.size());
  }
  void add_piece(const PageRows& row, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) in_pieces_.push_back(row.begin + i);
    for_each_seen(row, row.own->length(), [&](const PagedTokens& tokens, std::int64_t length) {
      for (std::int64_t token = 0; token < length; ++token) slots_.push_back(tokens.slot(token));
    });
    query_begins_.push_back(static_cast<std::int64_t>(in_pieces_.size()));
    key_begins_.push_back(static_cast<std::int64_t>(slots_.size()));
  }

  std::vector<std::int64_t> alone_, in_pieces_, slots_, query_begins_ = {0}, key_begins_ = {0};
  std::vector<PagedRow> spans_;
  std::vector<std::size_t> begins_ = {0};
};

}  // namespace step_index
namespace {

using at::Tensor;

// out [n, N, D]
Tensor attend_pieces(const Tensor& q, const PageMemory& memory, const step_index::Pieces& pieces,
                     double scale) {
  const auto seen = [&](const Tensor& all) {
    return all.transpose(1, 2).index({pieces.keys.page, pieces.keys.place});
  };
  const auto found = at::_flash_attention_forward(
      q, seen(memory.keys), seen(memory.values), pieces.query_begins, pieces.key_begins, pieces.longest_query,
      pieces.longest_keys, /*dropout_p=*/0, /*is_causal=*/true, /*return_debug_mask=*/false, scale);
  return std::get<0>(found);
}

std::vector<std::pair<std::int64_t, std::int64_t>> shapes_of(const KeyPages& pages) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (const std::optional<KeyShape>& one : pages.layers()) {
    if (!one) continue;
    const std::pair<std::int64_t, std::int64_t> shape = {one->heads / one->kv_heads, one->head_dim};
    if (std::find(out.begin(), out.end(), shape) == out.end()) out.push_back(shape);
  }
  return out;
}

}  // namespace

class PageStep::Lists {
 public:
  explicit Lists(const KeyPages& pages) : kept(shapes_of(pages), pages.device()) {}

  PageLists kept;  // of steps whose rows have one token each
  std::vector<PageRows> rows;
  bool is_listed = false;
  std::shared_ptr<PageRun> nobody;  // whose page the rows that are nobody's write to
  // Of a step that reads prompts, made by the first layer that needs them.
  PageSlots slots;
  struct Made {
    std::int64_t group = 0, dim = 0;
    step_index::StepIndex index;
  };
  std::deque<Made> made;

  const step_index::StepIndex& index_of(std::int64_t group, std::int64_t dim, bool one_by_one,
                                        at::Device device) {
    for (const Made& one : made)
      if (one.group == group && one.dim == dim) return one.index;
    made.push_back({.group = group,
                    .dim = dim,
                    .index = step_index::IndexOfRows(rows, one_by_one).send(group, dim, device)});
    return made.back().index;
  }
};

PageStep::PageStep(KeyPages& pages) : pages_(pages), lists_(std::make_unique<Lists>(pages)) {}
PageStep::~PageStep() = default;

void PageStep::begin(std::span<const PageRows> rows) {
  Lists& lists = *lists_;
  lists.made.clear();
  lists.slots = {};
  lists.is_listed = true;
  bool some_are_nobodys = false;
  for (const PageRows& row : rows) {
    lists.is_listed = lists.is_listed && row.end - row.begin == 1;
    some_are_nobodys = some_are_nobodys || row.own == nullptr;
    if (row.own == nullptr) continue;
    std::int64_t before = 0;  // what rows of this step have added too
    for (const PageRun* const one : row.before) before += one->length();
    pages_.extend(*row.own, row.position - before + row.end - row.begin);
  }
  base::require(lists.is_listed || !some_are_nobodys, "PageStep::begin", "a sequence for each row");
  if (lists.is_listed) {
    if (some_are_nobodys && !lists.nobody) {
      // Does not hold the pages, which hold this step.
      lists.nobody =
          std::make_shared<PageRun>(std::shared_ptr<KeyPages>(std::shared_ptr<KeyPages>(), &pages_));
      pages_.extend(*lists.nobody, 1);
    }
    lists.kept.set(rows, lists.nobody.get());
    return;
  }
  lists.rows.assign(rows.begin(), rows.end());
  std::vector<std::int64_t> slots;
  for (const PageRows& row : rows) {
    const std::int64_t count = row.end - row.begin, from = row.own->length() - count;
    for (std::int64_t i = 0; i < count; ++i) slots.push_back(row.own->tokens().slot(from + i));
  }
  lists.slots = send_slots(slots, pages_.device());
}

bool PageStep::is_listed() const {
  return lists_->is_listed;
}

const Tensor& PageStep::positions() const {
  return lists_->kept.positions();
}

std::vector<std::int64_t> PageStep::form() const {
  std::vector<std::int64_t> out;
  lists_->kept.put_form(out);
  for (std::size_t i = 0; i < pages_.layers().size(); ++i) {
    if (!pages_.layers()[i]) continue;
    const PageMemory& memory = pages_.memory(static_cast<std::int64_t>(i));
    for (const Tensor* const one : {&memory.keys, &memory.values})
      out.push_back(reinterpret_cast<std::intptr_t>(one->const_data_ptr()));
  }
  return out;
}

bool PageStep::append_rotated(std::int64_t layer, const Tensor& qkv, const HeadRotation& rotation) {
  return cuda::step_heads(qkv, rotation, pages_.memory(layer),
                          lists_->is_listed ? lists_->kept.slots() : lists_->slots);
}

void PageStep::append(std::int64_t layer, const Tensor& k, const Tensor& v) {
  write_pages(pages_.memory(layer), k, v, lists_->is_listed ? lists_->kept.slots() : lists_->slots);
}

void PageStep::attend(std::int64_t layer, const Tensor& out, const Tensor& q, const AttentionRule& rule) {
  base::require(rule.window == 0 && rule.soft_cap == 0, "PageStep::attend",
                "neither a window nor a soft cap");
  announce("attention", q.size(0), q.size(1), q.size(2), q.scalar_type());
  const PageMemory& memory = pages_.memory(layer);
  const std::int64_t group = q.size(1) / memory.keys.size(1), dim = q.size(2);
  const double scale = rule.scale > 0 ? rule.scale : 1 / std::sqrt(static_cast<double>(dim));
  const Tensor heads = out.unflatten(1, {q.size(1), dim});
  const auto attend_alone = [&](const Tensor& to, const Tensor& from, const SentParts& parts) {
    base::require(attend_pages(to, {}, from, memory, parts, scale), "PageStep::attend",
                  "a kernel that attends to pages");
  };
  if (lists_->is_listed) return attend_alone(heads, q, lists_->kept.parts(group, dim));
  // In fp32 FlashAttention-2 has nothing to give.
  const step_index::StepIndex& index =
      lists_->index_of(group, dim, q.scalar_type() != at::kBFloat16, pages_.device());
  if (index.in_pieces == 0) return attend_alone(heads, q, index.parts);
  if (index.alone == 0) {
    heads.copy_(attend_pieces(q, memory, index.pieces, scale));
    return;
  }
  const Tensor queries = q.index_select(0, index.queries), alone = at::empty_like(queries);
  attend_alone(alone, queries, index.parts);
  const Tensor pieces = attend_pieces(q.index_select(0, index.pieces.queries), memory, index.pieces, scale);
  heads.index_copy_(0, index.queries, alone);
  heads.index_copy_(0, index.pieces.queries, pieces);
}

}  // namespace hone::ops
