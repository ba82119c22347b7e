// The form of packed_attention_backward with our kernels: the work cut into chunks of queries for the kernel, each
// with its own fp32 shares of dk and dv, which are added in order afterwards.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "ops/backend/cpu/attention_kernels.h"
#include "ops/backend/cpu/cpu_operators.h"
#include "ops/backend/cpu/level.h"

namespace hone::ops::cpu {
namespace {

constexpr std::int64_t kMaxFloats = std::int64_t{8} << 20;  // of shares at once

// At most 8 chunks of at least 128 queries: chosen only by the run's length, so that the order of its sums is its own.
std::int64_t chunk_of(std::int64_t queries) {
  return std::max<std::int64_t>(128, (queries + 7) / 8);
}

std::int64_t chunks_of(std::int64_t queries) {
  return (queries + chunk_of(queries) - 1) / chunk_of(queries);
}

// A chunk of queries of one run and kv head.
struct Piece {
  const Run* run = nullptr;
  std::int64_t kv_head = 0, begin = 0, end = 0, cost = 0;
  std::vector<Span> spans;
  std::vector<std::int64_t> shares;  // of each span, its offset in the workspace in floats: dk, then dv
};

// What one segment and kv head gets.
struct Sum {
  std::size_t segment = 0;
  std::int64_t kv_head = 0;
  struct Part {
    std::int64_t share = 0, keys = 0;
  };
  std::vector<Part> parts;
};

struct Free {
  void operator()(std::byte* x) const { std::free(x); }
};

// Calls work() on threads; each pulls units until there are none.
template <typename F>
void on_threads(std::size_t units, const F& work) {
  const std::int64_t threads =
      std::min<std::int64_t>(at::get_num_threads(), static_cast<std::int64_t>(units));
  if (threads <= 1 || at::in_parallel_region()) {
    work();
  } else {
    at::parallel_for(0, threads, 1, [&](std::int64_t, std::int64_t) { work(); });
  }
}

class FastBackward {
 public:
  explicit FastBackward(const AttentionBackward& x)
      : x_(x), dim_(x.q.size(2)), group_(x.q.size(1) / x.k.size(1)) {}

  void run(const std::vector<Family>& families) {
    for (const Family& family : families) {
      const std::int64_t needed = floats_of(family);
      for (std::int64_t head = 0; head < x_.k.size(1); ++head) {
        if (floats_ > 0 && floats_ + needed > kMaxFloats) flush();
        add(family, head);
      }
    }
    flush();
  }

 private:
  using Element = std::uint16_t;

  static Element* at_row(const at::Tensor& x, std::int64_t row, std::int64_t column) {
    return static_cast<Element*>(x.data_ptr()) + row * x.stride(0) + column;
  }

  template <typename F>
  static void for_each_chunk(const Family& family, F take) {
    for (const Run& run : family.runs) {
      const std::int64_t chunk = chunk_of(run.end - run.begin);
      for (std::int64_t begin = run.begin; begin < run.end; begin += chunk) {
        take(run, begin, std::min(run.end, begin + chunk));
      }
    }
  }

  std::int64_t floats_of(const Family& family) const {
    std::int64_t floats = 0;
    for_each_chunk(family, [&](const Run& run, std::int64_t begin, std::int64_t end) {
      for (const Span& span : spans_of(x_.segments, run, begin, end)) floats += 2 * span.keys * dim_;
    });
    return floats;
  }

  void add(const Family& family, std::int64_t head) {
    // A family's sums are in the order of its segments, which need not be neighbors: found by segment.
    const std::size_t first_sum = sums_.size();
    const auto sum_of = [&](std::size_t segment) -> Sum& {
      for (std::size_t i = first_sum; i < sums_.size(); ++i) {
        if (sums_[i].segment == segment) return sums_[i];
      }
      return sums_.emplace_back(Sum{.segment = segment, .kv_head = head, .parts = {}});
    };
    for_each_chunk(family, [&](const Run& run, std::int64_t begin, std::int64_t end) {
      Piece piece{.run = &run, .kv_head = head, .begin = begin, .end = end, .spans = {}, .shares = {}};
      piece.spans = spans_of(x_.segments, run, begin, end);
      for (const Span& span : piece.spans) {
        piece.shares.push_back(floats_);
        sum_of(span.segment).parts.push_back({floats_, span.keys});
        floats_ += 2 * span.keys * dim_;
        const std::int64_t queries = span.end - span.begin;
        piece.cost += queries * (2 * span.keys - (span.own ? queries : 0) + kKvTile);
      }
      pieces_.push_back(std::move(piece));
    });
  }

  void flush() {
    if (shares_.numel() < floats_) shares_ = at::empty({floats_}, at::kFloat);
    std::int64_t most_queries = 0;
    for (const Piece& piece : pieces_) most_queries = std::max(most_queries, piece.end - piece.begin);
    std::stable_sort(pieces_.begin(), pieces_.end(),
                     [](const Piece& a, const Piece& b) { return a.cost > b.cost; });
    std::atomic<std::size_t> next{0};
    const std::size_t bytes = kernels_.backward_scratch(dim_, most_queries * group_);
    on_threads(pieces_.size(), [&] {
      const std::unique_ptr<std::byte, Free> scratch(static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
      base::require(scratch != nullptr, "ops::packed_attention_backward", "memory for one chunk of queries");
      for (std::size_t i = next++; i < pieces_.size(); i = next++) run_piece(pieces_[i], scratch.get());
    });
    // Gradients may take the place of keys and values: only now has everyone read them.
    std::atomic<std::size_t> next_sum{0};
    on_threads(sums_.size(), [&] {
      for (std::size_t i = next_sum++; i < sums_.size(); i = next_sum++) add_shares(sums_[i]);
    });
    pieces_.clear();
    sums_.clear();
    floats_ = 0;
  }

  void run_piece(const Piece& piece, std::byte* scratch) const {
    const std::int64_t origin = piece.run->begin, column = piece.kv_head * group_ * dim_;
    std::vector<attention_kernels::BackwardSpan> spans(piece.spans.size());
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const Span& span = piece.spans[i];
      const std::int64_t first = x_.segments[span.segment].begin;
      spans[i].k = at_row(x_.k, first, piece.kv_head * dim_);
      spans[i].v = at_row(x_.v, first, piece.kv_head * dim_);
      spans[i].keys = span.keys;
      spans[i].begin = span.begin - origin;
      spans[i].end = span.end - origin;
      spans[i].own = span.own;
      spans[i].origin = first - origin;
      spans[i].part_k = shares_.data_ptr<float>() + piece.shares[i];
      spans[i].part_v = spans[i].part_k + span.keys * dim_;
    }
    attention_kernels::Backward b;
    b.head_dim = dim_;
    b.group = group_;
    b.window = x_.rule.window;
    b.scale = static_cast<float>(x_.rule.scale);
    b.soft_cap = static_cast<float>(x_.rule.soft_cap);
    std::vector<std::int64_t> first;
    if (b.window > 0) first = first_seen(x_.segments, *piece.run, piece.begin, piece.end, b.window);
    b.first_seen = first.data();
    b.q = at_row(x_.q, origin, column);
    b.out = at_row(x_.out, origin, column);
    b.d_out = at_row(x_.d_out, origin, column);
    b.q_stride = x_.q.stride(0);
    b.k_stride = x_.k.stride(0);
    b.v_stride = x_.v.stride(0);
    b.out_stride = x_.out.stride(0);
    b.d_out_stride = x_.d_out.stride(0);
    b.lse = x_.lse.const_data_ptr<float>() + origin * x_.lse.stride(0) + piece.kv_head * group_;
    b.lse_stride = x_.lse.stride(0);
    b.dq = at_row(x_.dq, origin, column);
    b.dq_stride = x_.dq.stride(0);
    b.begin = piece.begin - origin;
    b.end = piece.end - origin;
    b.spans = spans.data();
    b.span_count = static_cast<std::int64_t>(spans.size());
    b.scratch = scratch;
    kernels_.backward(b);
  }

  void add_shares(const Sum& sum) const {
    const AttentionSegment& segment = x_.segments[sum.segment];
    std::vector<attention_kernels::PartialSum> shares;
    for (const Sum::Part& part : sum.parts) {
      const float* const k = shares_.const_data_ptr<float>() + part.share;
      shares.push_back({k, k + part.keys * dim_, part.keys});
    }
    attention_kernels::PartialSums s;
    s.shares = shares.data();
    s.count = static_cast<std::int64_t>(shares.size());
    s.tokens = segment.end - segment.begin;
    s.head_dim = dim_;
    s.scale = static_cast<float>(x_.rule.scale);
    s.dk = at_row(x_.dk, segment.begin, sum.kv_head * dim_);
    s.dv = at_row(x_.dv, segment.begin, sum.kv_head * dim_);
    s.dk_stride = x_.dk.stride(0);
    s.dv_stride = x_.dv.stride(0);
    kernels_.sum_partials(s);
  }

  const AttentionBackward& x_;
  const attention_kernels::Bf16Kernels& kernels_ = *level_kernels().attention_bf16;
  std::int64_t dim_, group_;
  std::vector<Piece> pieces_;
  std::vector<Sum> sums_;
  std::int64_t floats_ = 0;
  at::Tensor shares_ = at::empty({0}, at::kFloat);
};

bool has_kernel(at::ScalarType dtype, std::int64_t head_dim) {
  return dtype == at::kBFloat16 && head_dim % 16 == 0 && head_dim <= attention_kernels::kMaxHeadDim &&
         level_kernels().attention_bf16 != nullptr;
}

bool rows_are_dense(const Tensor& x) {
  return x.stride(-1) == 1 && (x.dim() == 2 || x.size(1) == 1 || x.stride(1) == x.size(2));
}

// The kernel packs keys and values by pairs of neighboring elements.
bool pairs_are_aligned(const Tensor& x) {
  return x.stride(0) % 2 == 0 && reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 4 == 0;
}

}  // namespace

bool attention_backward(const AttentionBackward& x, const std::vector<Family>& families) {
  bool fits = has_kernel(x.q.scalar_type(), x.q.size(2));
  for (const Tensor& one : {x.dq, x.dk, x.dv, x.d_out, x.q, x.k, x.v, x.out, x.lse})
    fits = fits && rows_are_dense(one);
  if (!fits || !pairs_are_aligned(x.k) || !pairs_are_aligned(x.v)) return false;
  FastBackward(x).run(families);
  return true;
}

bool attention_backward_bytes(std::int64_t& bytes, const AttentionSizes& s) {
  if (!has_kernel(s.dtype, s.head_dim)) return false;
  const std::int64_t alone = chunks_of(s.longest) * s.longest;  // keys in the shares of one family and head
  std::int64_t one = alone, tokens = chunks_of(s.longest) * s.tokens;
  std::int64_t queries = std::min(s.longest, chunk_of(s.longest));
  if (s.prefix > 0) {
    const std::int64_t chunk = chunk_of(s.sharing), chunks = chunks_of(s.sharing);
    const std::int64_t meets = std::min(chunks, s.longest / chunk + 2);  // chunks that a segment is in
    one = std::max(alone, (chunks_of(s.prefix) + chunks) * s.prefix + meets * s.sharing);
    tokens = std::max(tokens, (chunks_of(s.prefix) + chunks + meets) * s.tokens);
    queries = std::max(queries, std::min(s.sharing, chunk));
  }
  const std::int64_t held =
      std::max(2 * one * s.head_dim, std::min(2 * tokens * s.head_dim * s.kv_heads, kMaxFloats));
  const auto scratch =
      level_kernels().attention_bf16->backward_scratch(s.head_dim, queries * (s.heads / s.kv_heads));
  bytes = 4 * held + s.threads * static_cast<std::int64_t>(scratch);
  return true;
}

}  // namespace hone::ops::cpu
