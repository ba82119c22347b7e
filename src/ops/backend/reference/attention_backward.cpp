// Flash attention's backward (Dao 2022, algorithm 4) with libtorch's products in fp32, on any device.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ops/backend/reference/reference.h"
#include "ops/index_tensor.h"

namespace hone::ops::reference {
namespace {

// One key-value head of one family, over blocks of kBackwardQueries queries: only a block's rows of the
// scores are ever held. dk and dv are sums in fp32 over the blocks in order, and written when the last query
// that sees the segment has passed: they may lie where k and v lie, as a block of dq may where its queries
// lie.
class AtenHead {
 public:
  AtenHead(const AttentionBackward& x, std::int64_t kv_head)
      : x_(x),
        kv_head_(kv_head),
        group_(x.q.size(1) / x.k.size(1)),
        dim_(x.q.size(2)),
        scale_(x.rule.scale > 0 ? x.rule.scale : 1.0 / std::sqrt(static_cast<double>(dim_))) {}

  void run(const Family& family) {
    make_room(family);
    for (const Run& run : family.runs) {
      for (std::int64_t begin = run.begin; begin < run.end; begin += kBackwardQueries) {
        block(run, begin, std::min(run.end, begin + kBackwardQueries));
      }
    }
    give_keys(family.runs.front().first);
  }

 private:
  struct Keys {
    at::Tensor k, v, sum_k, sum_v;  // [n, D] fp32
  };

  void block(const Run& run, std::int64_t begin, std::int64_t end) {
    const at::Tensor q = rows(x_.q, begin, end), g = rows(x_.d_out.unflatten(1, {-1, dim_}), begin, end);
    const at::Tensor delta = g.mul(rows(x_.out.unflatten(1, {-1, dim_}), begin, end)).sum(1, true);
    const at::Tensor lse = rows(x_.lse.unsqueeze(2), begin, end), dq = at::zeros_like(q);
    for (const Span& span : spans_of(x_.segments, run, begin, end)) {
      const auto part = [&](const at::Tensor& all) {
        return all.narrow(0, (span.begin - begin) * group_, (span.end - span.begin) * group_);
      };
      const Keys& keys = keys_of(span.segment);
      const at::Tensor k = keys.k.narrow(0, 0, span.keys), v = keys.v.narrow(0, 0, span.keys);
      at::Tensor p = room(0, span), ds = room(1, span);
      at::mm_out(p, part(q), k.t());
      p.mul_(scale_);
      const double cap = x_.rule.soft_cap;
      const at::Tensor t = cap > 0 ? room(2, span) : at::Tensor();
      if (cap > 0) {
        t.copy_(p).div_(cap).tanh_();
        p.copy_(t).mul_(cap);
      }
      p.sub_(part(lse)).exp_();
      if (span.own) hide_later(p, span);
      if (x_.rule.window > 0) hide_left(p, run, span);
      at::mm_out(ds, part(g), v.t());
      ds.sub_(part(delta)).mul_(p).mul_(scale_);
      if (cap > 0) ds.mul_(t.mul_(t).neg_().add_(1));
      keys.sum_k.narrow(0, 0, span.keys).addmm_(ds.t(), part(q));
      keys.sum_v.narrow(0, 0, span.keys).addmm_(p.t(), part(g));
      part(dq).addmm_(ds, k);
      // The keys of a segment with a prefix are read only by itself; a prefix's also by later segments.
      if (span.own && run.prefix != kNoSegment && span.end == x_.segments[span.segment].end) {
        give_keys(span.segment);
      }
    }
    x_.dq
        .narrow(0, begin, end - begin)  // q may be a view of it
        .narrow(1, kv_head_ * group_, group_)
        .copy_(dq.view({end - begin, group_, dim_}));
  }

  void hide_later(const at::Tensor& p, const Span& span) const {
    const std::int64_t count = span.end - span.begin;
    const at::Tensor later = at::ones({count, count}, p.options().dtype(at::kBool)).triu_(1).unsqueeze(1);
    p.view({count, group_, span.keys}).narrow(2, span.keys - count, count).masked_fill_(later, 0);
  }

  // Keys that the window has left behind.
  void hide_left(const at::Tensor& p, const Run& run, const Span& span) const {
    std::vector<std::int64_t> first = first_seen(x_.segments, run, span.begin, span.end, x_.rule.window);
    if (span.own && run.prefix != kNoSegment) {  // its keys come after the prefix's
      const AttentionSegment& before = x_.segments[static_cast<std::size_t>(run.prefix)];
      for (std::int64_t& key : first) key -= before.end - before.begin;
    }
    const auto index = p.options().dtype(at::kLong);
    const at::Tensor low = index_tensor(first, p.device()).view({-1, 1, 1});
    p.view({span.end - span.begin, group_, span.keys})
        .masked_fill_(at::arange(span.keys, index).view({1, 1, -1}) < low, 0);
  }

  // Of x [T, N, W] the heads of this key-value head: [tokens * group, W].
  at::Tensor rows(const at::Tensor& x, std::int64_t begin, std::int64_t end) const {
    return x.narrow(0, begin, end - begin)
        .narrow(1, kv_head_ * group_, group_)
        .to(at::kFloat)
        .reshape({(end - begin) * group_, x.size(2)});
  }

  void make_room(const Family& family) {
    std::int64_t most = 0;
    for (const Run& run : family.runs) {
      const std::int64_t queries = std::min(run.end - run.begin, kBackwardQueries);
      for (const Span& span : spans_of(x_.segments, run, run.begin, run.end)) {
        most = std::max(most, queries * group_ * span.keys);
      }
    }
    room_ = at::empty({x_.rule.soft_cap > 0 ? 3 : 2, most}, x_.lse.options());
  }

  at::Tensor room(std::int64_t which, const Span& span) const {
    const std::int64_t count = (span.end - span.begin) * group_;
    return room_[which].narrow(0, 0, count * span.keys).view({count, span.keys});
  }

  at::Tensor of_segment(const at::Tensor& x, std::size_t segment) const {  // k, v, dk or dv: [n, D]
    const AttentionSegment& s = x_.segments[segment];
    return x.narrow(0, s.begin, s.end - s.begin).select(1, kv_head_);
  }

  const Keys& keys_of(std::size_t segment) {
    const auto found = keys_.find(segment);
    if (found != keys_.end()) return found->second;
    const auto own = [&](const at::Tensor& x) { return of_segment(x, segment).to(at::kFloat).contiguous(); };
    Keys keys{own(x_.k), own(x_.v), {}, {}};
    keys.sum_k = at::zeros_like(keys.k);
    keys.sum_v = at::zeros_like(keys.v);
    return keys_.emplace(segment, keys).first->second;
  }

  void give_keys(std::size_t segment) {
    const Keys& keys = keys_.at(segment);
    of_segment(x_.dk, segment).copy_(keys.sum_k);
    of_segment(x_.dv, segment).copy_(keys.sum_v);
    keys_.erase(segment);
  }

  const AttentionBackward& x_;
  std::int64_t kv_head_, group_, dim_;
  double scale_;
  std::map<std::size_t, Keys> keys_;  // of segments that queries still see
  at::Tensor room_;                   // scores and their gradients; with a soft cap its tanh
};

}  // namespace

void attention_backward(const AttentionBackward& x, const std::vector<Family>& families) {
  for (const Family& family : families) {
    for (std::int64_t head = 0; head < x.k.size(1); ++head) AtenHead(x, head).run(family);
  }
}

void attention_backward_bytes(std::int64_t& bytes, const AttentionSizes& s) {
  const std::int64_t group = s.heads / s.kv_heads;
  const auto scores = [&](std::int64_t queries, std::int64_t keys) {
    const std::int64_t rows = std::min(queries, kBackwardQueries) * group;
    return (s.soft_cap ? 3 : 2) * rows * keys + 5 * rows * s.head_dim;
  };
  const std::int64_t alone = scores(s.longest, s.longest) + 4 * s.longest * s.head_dim;
  bytes = 4 * alone;
  if (s.prefix == 0) return;
  // Beside the prefix, the segments that a block of queries meets.
  const std::int64_t met = std::min(s.sharing, kBackwardQueries + 2 * s.longest);
  const std::int64_t shared =
      scores(s.sharing, std::max(s.prefix, s.longest)) + 4 * (s.prefix + met) * s.head_dim;
  bytes = 4 * std::max(alone, shared);
}

}  // namespace hone::ops::reference
