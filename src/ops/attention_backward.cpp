// packed_attention_backward: the formulas of flash attention's backward (Dao 2022, algorithm 4) in plain
// form, and the work cut into chunks of queries for the kernel.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "ops/attention.h"
#include "ops/attention_kernels.h"
#include "ops/instructions.h"

namespace hone::ops {
namespace {

// One key-value head of one segment, over blocks of kBackwardQueries queries: only the block's rows of the
// scores are ever held. dk and dv are sums in fp32 over the blocks in order, and written last: they may lie
// where k and v lie, as a block of dq may where its queries lie.
class PlainHead {
 public:
  PlainHead(std::int64_t begin, std::int64_t end, std::int64_t kv_head, std::int64_t group,
            const at::Tensor& k, const at::Tensor& v)
      : begin_(begin),
        end_(end),
        kv_head_(kv_head),
        group_(group),
        dim_(k.size(2)),
        keys_(own(k)),
        values_(own(v)) {}

  void run(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv, const at::Tensor& d_out,
           const at::Tensor& q, const at::Tensor& out, const at::Tensor& lse) {
    const std::int64_t n = end_ - begin_;
    const at::Tensor scores = at::empty({2, std::min(n, kBackwardQueries) * group_ * n}, keys_.options());
    const at::Tensor sum_k = at::zeros_like(keys_), sum_v = at::zeros_like(values_);
    for (std::int64_t at_query = 0; at_query < n; at_query += kBackwardQueries) {
      const std::int64_t count = std::min(kBackwardQueries, n - at_query), seen = at_query + count;
      const auto rows = [&](const at::Tensor& x) { return queries(x, begin_ + at_query, count); };
      const auto room = [&](std::int64_t which) {
        return scores[which].narrow(0, 0, count * group_ * seen).view({count * group_, seen});
      };
      const at::Tensor block_q = rows(q), g = rows(d_out.unflatten(1, {-1, dim_}));
      const at::Tensor delta = g.mul(rows(out.unflatten(1, {-1, dim_}))).sum(1, /*keepdim=*/true);
      at::Tensor p = room(0), ds = room(1);
      at::mm_out(p, block_q, keys_.narrow(0, 0, seen).t());
      p.mul_(scale()).sub_(rows(lse.unsqueeze(2))).exp_();
      const at::Tensor later = at::ones({count, count}, p.options().dtype(at::kBool)).triu_(1).unsqueeze(1);
      p.view({count, group_, seen}).narrow(2, at_query, count).masked_fill_(later, 0);
      at::mm_out(ds, g, values_.narrow(0, 0, seen).t());
      ds.sub_(delta).mul_(p).mul_(scale());
      sum_k.narrow(0, 0, seen).addmm_(ds.t(), block_q);
      sum_v.narrow(0, 0, seen).addmm_(p.t(), g);
      give(dq, at_query, count, at::mm(ds, keys_.narrow(0, 0, seen)));  // block_q may be a view of it
    }
    dk.narrow(0, begin_, n).select(1, kv_head_).copy_(sum_k);
    dv.narrow(0, begin_, n).select(1, kv_head_).copy_(sum_v);
  }

 private:
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(dim_)); }

  at::Tensor own(const at::Tensor& x) const {  // of k or v: [n, D]
    return x.narrow(0, begin_, end_ - begin_).select(1, kv_head_).to(at::kFloat).contiguous();
  }

  // Of x [T, N, W] the heads of this key-value head: [count * group, W].
  at::Tensor queries(const at::Tensor& x, std::int64_t from, std::int64_t count) const {
    return x.narrow(0, from, count)
        .narrow(1, kv_head_ * group_, group_)
        .to(at::kFloat)
        .reshape({count * group_, x.size(2)});
  }

  void give(const at::Tensor& dq, std::int64_t at_query, std::int64_t count, const at::Tensor& x) const {
    dq.narrow(0, begin_ + at_query, count)
        .narrow(1, kv_head_ * group_, group_)
        .copy_(x.view({count, group_, dim_}));
  }

  std::int64_t begin_, end_, kv_head_, group_, dim_;
  at::Tensor keys_, values_;
};

void check(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv, const at::Tensor& d_out,
           const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
           const at::Tensor& lse, const std::vector<std::pair<std::int64_t, std::int64_t>>& segments) {
  constexpr const char* kWhere = "ops::packed_attention_backward";
  base::require(q.dim() == 3 && k.dim() == 3 && k.sizes() == v.sizes() && q.size(0) == k.size(0) &&
                    q.size(2) == k.size(2) && q.size(1) % k.size(1) == 0,
                kWhere, "q [T, N, D], k and v [T, K, D]");
  base::require(dq.sizes() == q.sizes() && dk.sizes() == k.sizes() && dv.sizes() == v.sizes(), kWhere,
                "dq, dk, dv like q, k, v");
  base::require(out.dim() == 2 && out.sizes() == d_out.sizes() && out.size(0) == q.size(0) &&
                    out.size(1) == q.size(1) * q.size(2),
                kWhere, "out and d_out [T, N * D]");
  base::require(lse.dim() == 2 && lse.size(0) == q.size(0) && lse.size(1) == q.size(1) &&
                    lse.scalar_type() == at::kFloat,
                kWhere, "lse [T, N] in fp32");
  for (const at::Tensor* x : {&dq, &dk, &dv, &d_out, &k, &v, &out}) {
    base::require(x->scalar_type() == q.scalar_type(), kWhere, "one dtype");
  }
  std::int64_t at_token = 0;
  for (const auto& [begin, end] : segments) {
    base::require(begin == at_token && end > begin, kWhere, "segments in order, without gap or overlap");
    at_token = end;
  }
  base::require(at_token == q.size(0), kWhere, "segments that cover every token");
}

namespace kernels = attention_kernels;

// One (segment, kv head): its chunks of queries each have their own fp32 share of dk and dv.
struct Job {
  std::int64_t begin, end, kv_head;
  std::int64_t chunk, chunks;  // queries of a chunk, and how many
  std::int64_t share;          // offset of the first share in the workspace, in floats
};

struct Piece {
  std::size_t job;
  std::int64_t index;  // of the chunk
  std::int64_t cost;
};

constexpr std::int64_t kMostFloats = std::int64_t{8} << 20;  // of shares at once

// At most 8 chunks of at least 128 queries: by the segment's length alone, so that the sums' order is its
// own.
std::int64_t chunk_of(std::int64_t n) {
  return std::max<std::int64_t>(128, (n + 7) / 8);
}

std::int64_t share_size(const Job& job, std::int64_t dim) {  // dk and dv of one chunk
  return 2 * (job.end - job.begin) * dim;
}

struct Free {
  void operator()(std::byte* x) const { std::free(x); }
};

template <typename F>
void on_threads(std::int64_t units, const F& work) {  // work() pulls units until there are none
  const std::int64_t threads = std::min<std::int64_t>(at::get_num_threads(), units);
  if (threads <= 1 || at::in_parallel_region()) {
    work();
  } else {
    at::parallel_for(0, threads, 1, [&](std::int64_t, std::int64_t) { work(); });
  }
}

class FastBackward {
 public:
  FastBackward(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv, const at::Tensor& d_out,
               const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
               const at::Tensor& lse)
      : dq_(dq),
        dk_(dk),
        dv_(dv),
        d_out_(d_out),
        q_(q),
        k_(k),
        v_(v),
        out_(out),
        lse_(lse),
        dim_(q.size(2)) {}

  void run(const std::vector<std::pair<std::int64_t, std::int64_t>>& segments) {
    std::int64_t floats = 0;
    for (const auto& [begin, end] : segments) {
      for (std::int64_t head = 0; head < k_.size(1); ++head) {
        Job job{begin, end, head, chunk_of(end - begin), 0, floats};
        job.chunks = (end - begin + job.chunk - 1) / job.chunk;
        const std::int64_t needed = job.chunks * share_size(job, dim_);
        if (floats > 0 && floats + needed > kMostFloats) {
          run_jobs(floats);
          jobs_.clear();
          floats = job.share = 0;
        }
        floats += needed;
        jobs_.push_back(job);
      }
    }
    run_jobs(floats);
  }

 private:
  using Element = std::uint16_t;

  static Element* at_row(const at::Tensor& x, std::int64_t row, std::int64_t column) {
    return static_cast<Element*>(x.data_ptr()) + row * x.stride(0) + column;
  }

  void run_jobs(std::int64_t floats) {
    if (shares_.numel() < floats) shares_ = at::empty({floats}, at::kFloat);
    const std::int64_t group = q_.size(1) / k_.size(1);
    std::vector<Piece> pieces;
    std::int64_t most_queries = 0;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const std::int64_t n = jobs_[i].end - jobs_[i].begin;
      most_queries = std::max(most_queries, std::min(n, jobs_[i].chunk));
      for (std::int64_t c = 0; c < jobs_[i].chunks; ++c) {
        const std::int64_t begin = c * jobs_[i].chunk, end = std::min(n, begin + jobs_[i].chunk);
        pieces.push_back({i, c, (end - begin) * (begin + end + kKvTile)});
      }
    }
    std::stable_sort(pieces.begin(), pieces.end(),
                     [](const Piece& a, const Piece& b) { return a.cost > b.cost; });
    std::atomic<std::size_t> next{0};
    const std::size_t bytes = kernels::backward_scratch(dim_, most_queries * group);
    on_threads(static_cast<std::int64_t>(pieces.size()), [&] {
      const std::unique_ptr<std::byte, Free> scratch(static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
      base::require(scratch != nullptr, "ops::packed_attention_backward", "memory for one chunk of queries");
      for (std::size_t i = next++; i < pieces.size(); i = next++) run_piece(pieces[i], group, scratch.get());
    });
    std::atomic<std::size_t> next_sum{0};
    on_threads(static_cast<std::int64_t>(jobs_.size()), [&] {
      for (std::size_t i = next_sum++; i < jobs_.size(); i = next_sum++) sum_shares(jobs_[i]);
    });
  }

  void run_piece(const Piece& piece, std::int64_t group, std::byte* scratch) const {
    const Job& job = jobs_[piece.job];
    const std::int64_t n = job.end - job.begin, column = job.kv_head * group * dim_;
    kernels::Backward b;
    b.head_dim = dim_;
    b.group = group;
    b.q = at_row(q_, job.begin, column);
    b.k = at_row(k_, job.begin, job.kv_head * dim_);
    b.v = at_row(v_, job.begin, job.kv_head * dim_);
    b.out = at_row(out_, job.begin, column);
    b.d_out = at_row(d_out_, job.begin, column);
    b.q_stride = q_.stride(0);
    b.k_stride = k_.stride(0);
    b.v_stride = v_.stride(0);
    b.out_stride = out_.stride(0);
    b.d_out_stride = d_out_.stride(0);
    b.lse = lse_.const_data_ptr<float>() + job.begin * lse_.stride(0) + job.kv_head * group;
    b.lse_stride = lse_.stride(0);
    b.dq = at_row(dq_, job.begin, column);
    b.dq_stride = dq_.stride(0);
    b.begin = piece.index * job.chunk;
    b.end = std::min(n, b.begin + job.chunk);
    b.part_k = shares_.data_ptr<float>() + job.share + piece.index * share_size(job, dim_);
    b.part_v = b.part_k + n * dim_;
    b.scratch = scratch;
    kernels::backward_bf16(b);
  }

  void sum_shares(const Job& job) const {
    kernels::Shares s;
    s.shares = shares_.const_data_ptr<float>() + job.share;
    s.share_size = share_size(job, dim_);
    s.chunk = job.chunk;
    s.tokens = job.end - job.begin;
    s.head_dim = dim_;
    s.dk = at_row(dk_, job.begin, job.kv_head * dim_);
    s.dv = at_row(dv_, job.begin, job.kv_head * dim_);
    s.dk_stride = dk_.stride(0);
    s.dv_stride = dv_.stride(0);
    kernels::sum_shares_bf16(s);
  }

  const at::Tensor &dq_, &dk_, &dv_, &d_out_, &q_, &k_, &v_, &out_, &lse_;
  std::int64_t dim_;
  std::vector<Job> jobs_;
  at::Tensor shares_ = at::empty({0}, at::kFloat);
};

bool rows_are_dense(const at::Tensor& x) {
  return x.stride(-1) == 1 && (x.dim() == 2 || x.size(1) == 1 || x.stride(1) == x.size(2));
}

bool has_kernel(at::ScalarType dtype, std::int64_t dim) {
  return dtype == at::kBFloat16 && dim % 16 == 0 && dim <= kernels::kMaxHeadDim &&
         instructions() == Instructions::kAvx512Bf16;
}

// The kernel packs keys and values by pairs of neighbouring elements.
bool pairs_are_aligned(const at::Tensor& x) {
  return x.stride(0) % 2 == 0 && reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 4 == 0;
}

}  // namespace

void packed_attention_backward(at::Tensor dq, at::Tensor dk, at::Tensor dv, const at::Tensor& d_out,
                               const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& out, const at::Tensor& lse,
                               const std::vector<std::pair<std::int64_t, std::int64_t>>& segments) {
  check(dq, dk, dv, d_out, q, k, v, out, lse, segments);
  bool fast = q.device().is_cpu() && has_kernel(q.scalar_type(), q.size(2));
  for (const at::Tensor& x : {dq, dk, dv, d_out, q, k, v, out, lse}) fast = fast && rows_are_dense(x);
  fast = fast && pairs_are_aligned(k) && pairs_are_aligned(v);
  if (fast) {
    FastBackward(dq, dk, dv, d_out, q, k, v, out, lse).run(segments);
    return;
  }
  for (const auto& [begin, end] : segments) {
    for (std::int64_t head = 0; head < k.size(1); ++head) {
      PlainHead(begin, end, head, q.size(1) / k.size(1), k, v).run(dq, dk, dv, d_out, q, out, lse);
    }
  }
}

std::int64_t packed_attention_backward_bytes(const AttentionSizes& s) {
  const std::int64_t n = s.longest, group = s.heads / s.kv_heads;
  if (n == 0) return 0;
  if (!has_kernel(s.dtype, s.head_dim)) {
    const std::int64_t rows = std::min(n, kBackwardQueries) * group;
    return 4 * (2 * rows * n + 4 * n * s.head_dim + 5 * rows * s.head_dim);
  }
  const std::int64_t chunk = std::min(n, chunk_of(n)), chunks = (n + chunk - 1) / chunk;
  const std::int64_t one = chunks * 2 * n * s.head_dim;  // the shares of one job
  const std::int64_t all = chunks * 2 * s.tokens * s.head_dim * s.kv_heads;
  return 4 * std::max(one, std::min(all, kMostFloats)) +
         s.threads * static_cast<std::int64_t>(kernels::backward_scratch(s.head_dim, chunk * group));
}

}  // namespace hone::ops
