// The operators of libtorch that only CUDA has and that the table of ops/backend/cuda calls, for the stand-in: what they
// are defined to compute, in fp32 or fp64 on the host. With them that table's arithmetic is tested without a GPU; how
// CUDA's own kernels round is not.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <cmath>

#include "standin/cuda_only.h"
#include "standin/standin.h"

namespace hone::standin {
namespace {

using Scalar = at::Scalar;
using at::Tensor;

Tensor wide(const Tensor& x) {
  return x.cpu().to(at::kFloat);
}

// ---- products of bf16 with a result of fp32

Tensor& mm_out(const Tensor& a, const Tensor& b, at::ScalarType dtype, Tensor& out) {
  TORCH_CHECK(dtype == out.scalar_type() && a.scalar_type() == b.scalar_type(), "mm.dtype_out: dtypes");
  return out.copy_(at::mm(wide(a), wide(b)));
}

Tensor& addmm_out(const Tensor& self, const Tensor& a, const Tensor& b, at::ScalarType dtype,
                  const Scalar& beta, const Scalar& alpha, Tensor& out) {
  TORCH_CHECK(dtype == out.scalar_type() && self.scalar_type() == dtype, "addmm.dtype_out: dtypes");
  Tensor product = at::mm(wide(a), wide(b)).mul_(alpha);
  if (beta.toDouble() != 0) product.add_(wide(self), beta);
  return out.copy_(product);
}

// ---- groups of rows by the offsets of their ends

bool is_aligned(const Tensor& x) {
  const std::int64_t rows = x.stride(-2), columns = x.stride(-1);
  return (columns == 1 && rows % 8 == 0) || (rows == 1 && columns % 8 == 0);
}

// Of rows a [S, K] with matrices b [E, K, N]; of columns a [R, S] with rows b [S, N].
Tensor grouped_mm(const Tensor& a, const Tensor& b, const std::optional<Tensor>& ends,
                  const std::optional<Tensor>& bias, std::optional<at::ScalarType> dtype) {
  TORCH_CHECK(a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16 && !bias &&
                  dtype.value_or(at::kBFloat16) == at::kBFloat16 && ends && ends->scalar_type() == at::kInt &&
                  a.dim() == 2 && is_aligned(a) && is_aligned(b),
              "_grouped_mm: bf16, rows that begin at 16 bytes, int32 ends");
  const bool by_columns = b.dim() == 2;
  TORCH_CHECK(!by_columns || (a.stride(0) == 1 && b.stride(1) == 1), "_grouped_mm: groups without rows");
  const Tensor left = wide(a), right = wide(b), host = ends->cpu();
  const std::int64_t groups = host.size(0);
  TORCH_CHECK(by_columns || groups == right.size(0), "_grouped_mm: a matrix for each group");
  const Tensor out = by_columns ? at::zeros({groups, left.size(0), right.size(1)})
                                : at::full({left.size(0), right.size(2)}, NAN);
  for (std::int64_t group = 0, begin = 0; group < groups; ++group) {
    const std::int64_t end = host[group].item<std::int64_t>();
    TORCH_CHECK(begin <= end && end <= (by_columns ? left.size(1) : left.size(0)), "_grouped_mm: ends");
    if (by_columns) {
      out[group] = left.slice(1, begin, end).matmul(right.slice(0, begin, end));
    } else {
      out.slice(0, begin, end).copy_(left.slice(0, begin, end).matmul(right[group]));
    }
    begin = end;
  }
  return out.to(at::kBFloat16).to(a.device());
}

// ---- the norm: one rounding, and the inverse root in fp32

std::tuple<Tensor, Tensor> rms_norm(const Tensor& x, at::IntArrayRef shape,
                                    const std::optional<Tensor>& weight, std::optional<double> eps) {
  TORCH_CHECK(shape.size() == 1 && weight && weight->scalar_type() == x.scalar_type(), "_fused_rms_norm");
  const Tensor rows = wide(x), inverse = at::rsqrt(rows.square().mean(-1, true) + eps.value());
  return {(rows * inverse * wide(*weight)).to(x.scalar_type()).to(x.device()), inverse.to(x.device())};
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& d, const Tensor& x, at::IntArrayRef /*shape*/,
                                             const Tensor& inverse, const std::optional<Tensor>& weight,
                                             std::array<bool, 2> wanted) {
  TORCH_CHECK(d.scalar_type() == x.scalar_type() && wanted[0] && !wanted[1], "_fused_rms_norm_backward");
  const Tensor scale = wide(inverse), normed = wide(x) * scale, g = wide(d) * wide(*weight);
  const Tensor dx = scale * (g - normed * (g * normed).mean(-1, true));
  return {dx.to(x.scalar_type()).to(x.device()), Tensor()};
}

// ---- FlashAttention-2

std::vector<std::int64_t> numbers(const Tensor& x) {
  const Tensor host = x.cpu().to(at::kLong);
  return {host.const_data_ptr<std::int64_t>(), host.const_data_ptr<std::int64_t>() + host.numel()};
}

// Which keys a query sees: it is at the place keys - queries + i of its sequence.
Tensor hidden(std::int64_t queries, std::int64_t keys, bool causal, std::optional<std::int64_t> left,
              std::optional<std::int64_t> right) {
  const Tensor place = at::arange(queries).unsqueeze(1) + (keys - queries),
               key = at::arange(keys).unsqueeze(0);
  Tensor out = at::zeros({queries, keys}, at::kBool);
  if (causal) right = 0;
  if (right && *right >= 0) out = out.logical_or(key > place + *right);
  if (left && *left >= 0) out = out.logical_or(key < place - *left);
  return out;
}

// [N, queries, keys]: the scores of q [queries, N, D] and k [keys, N, D].
Tensor scores_of(const Tensor& q, const Tensor& k, double scale, const Tensor& mask) {
  return at::matmul(q.transpose(0, 1), k.permute({1, 2, 0})).mul_(scale).masked_fill_(mask, -INFINITY);
}

Tensor by_query_head(const Tensor& x, std::int64_t heads) {
  return x.repeat_interleave(heads / x.size(1), 1);
}

struct Sequence {
  std::int64_t q_begin, q_end, k_begin, k_end;
};

std::vector<Sequence> sequences(const Tensor& q_begins, const Tensor& k_begins,
                                const std::optional<Tensor>& used) {
  TORCH_CHECK(q_begins.scalar_type() == at::kInt && k_begins.scalar_type() == at::kInt &&
                  q_begins.sizes() == k_begins.sizes(),
              "int32 begins");
  TORCH_CHECK(
      !used || !used->defined() || (used->scalar_type() == at::kInt && used->size(0) == k_begins.size(0) - 1),
      "int32 lengths");
  const std::vector<std::int64_t> q = numbers(q_begins), k = numbers(k_begins),
                                  lengths =
                                      used && used->defined() ? numbers(*used) : std::vector<std::int64_t>();
  std::vector<Sequence> out;
  for (std::size_t i = 0; i + 1 < q.size(); ++i)
    out.push_back({q[i], q[i + 1], k[i], lengths.empty() ? k[i + 1] : k[i] + lengths[i]});
  return out;
}

// What the kernels rely on without a look at it.
void check_calls(const std::vector<Sequence>& all, std::int64_t queries, std::int64_t max_q,
                 std::int64_t max_k) {
  TORCH_CHECK(!all.empty() && all.front().q_begin == 0 && all.back().q_end == queries,
              "begins of all queries");
  for (const Sequence& s : all) {
    TORCH_CHECK(s.q_end - s.q_begin <= max_q && s.k_end - s.k_begin <= max_k, "the longest sequences");
    // GQA with one query each: row i is that of sequence i, and begins are not read
    TORCH_CHECK(max_q > 1 || s.q_end == s.q_begin + 1, "one query a sequence");
  }
}

using Attended = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

// q [queries, N, D] and keys [keys, K, D] of one sequence, in fp32: [queries, N, D] and [N, queries].
std::pair<Tensor, Tensor> attend(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                                 const Tensor& mask) {
  const Tensor scores = scores_of(q, by_query_head(k, q.size(1)), scale, mask);
  const Tensor lse = at::logsumexp(scores, -1);
  const Tensor p = (scores - lse.unsqueeze(-1)).exp().nan_to_num(0);  // a row without keys is 0
  return {at::matmul(p, by_query_head(v, q.size(1)).transpose(0, 1)).transpose(0, 1), lse};
}

Attended flash_forward(const Tensor& query, const Tensor& key, const Tensor& value,
                       const std::optional<Tensor>& q_begins, const std::optional<Tensor>& k_begins,
                       std::int64_t max_q, std::int64_t max_k, double dropout, bool causal, bool /*debug*/,
                       std::optional<double> scale, std::optional<std::int64_t> left,
                       std::optional<std::int64_t> right, const std::optional<Tensor>& used,
                       const std::optional<Tensor>& /*slopes*/) {
  TORCH_CHECK(query.scalar_type() != at::kFloat && dropout == 0 && query.size(-1) % 8 == 0 &&
                  query.size(-1) <= 256 && query.stride(-1) == 1,
              "_flash_attention_forward: bf16 or fp16, heads of at most 256");
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  const Tensor q = wide(query), k = wide(key), v = wide(value);
  Tensor out = at::zeros_like(q), lse;
  const auto one = [&](const Tensor& q1, const Tensor& k1, const Tensor& v1) {
    return attend(q1, k1, v1, factor, hidden(q1.size(0), k1.size(0), causal, left, right));
  };
  if (q_begins && q_begins->defined()) {
    lse = at::full({q.size(1), q.size(0)}, INFINITY);
    const std::vector<Sequence> all = sequences(*q_begins, *k_begins, used);
    check_calls(all, q.size(0), max_q, max_k);
    for (const Sequence& s : all) {
      if (s.q_end == s.q_begin || s.k_end == s.k_begin) continue;
      const auto [o, l] =
          one(q.slice(0, s.q_begin, s.q_end), k.slice(0, s.k_begin, s.k_end), v.slice(0, s.k_begin, s.k_end));
      out.slice(0, s.q_begin, s.q_end).copy_(o);
      lse.slice(1, s.q_begin, s.q_end).copy_(l);
    }
  } else {  // [B, S, N, D]
    lse = at::full({q.size(0), q.size(2), q.size(1)}, INFINITY);
    const std::vector<std::int64_t> lengths =
        used && used->defined() ? numbers(*used) : std::vector<std::int64_t>(q.size(0), k.size(1));
    for (std::int64_t b = 0; b < q.size(0); ++b) {
      const std::int64_t n = lengths[static_cast<std::size_t>(b)];
      if (n == 0) continue;
      const auto [o, l] = one(q[b], k[b].narrow(0, 0, n), v[b].narrow(0, 0, n));
      out[b].copy_(o);
      lse[b].copy_(l);
    }
  }
  const Tensor nothing = at::zeros({2}, at::kLong).to(query.device());
  return {out.to(query.scalar_type()).to(query.device()), lse.to(query.device()), nothing, nothing, nothing};
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(
    const Tensor& d_out, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& result,
    const Tensor& sums, const Tensor& q_begins, const Tensor& k_begins, std::int64_t /*max_q*/,
    std::int64_t /*max_k*/, double dropout, bool causal, const Tensor& /*rng*/, const Tensor& /*unused*/,
    std::optional<double> scale, std::optional<std::int64_t> left, std::optional<std::int64_t> right) {
  TORCH_CHECK(query.scalar_type() != at::kFloat && dropout == 0 && sums.scalar_type() == at::kFloat &&
                  sums.size(0) == query.size(1) && sums.is_contiguous(),
              "_flash_attention_backward: bf16 or fp16, sums [N, T]");
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  const Tensor q = wide(query), k = wide(key), v = wide(value), d = wide(d_out), o = wide(result),
               lse = wide(sums);
  const std::int64_t heads = q.size(1), group = heads / k.size(1);
  const Tensor dq = at::zeros_like(q), dk = at::zeros_like(k), dv = at::zeros_like(v);
  for (const Sequence& s : sequences(q_begins, k_begins, {})) {
    const auto of_q = [&](const Tensor& x) { return x.slice(0, s.q_begin, s.q_end).transpose(0, 1); };
    const auto of_k = [&](const Tensor& x) {
      return by_query_head(x.slice(0, s.k_begin, s.k_end), heads).transpose(0, 1);
    };
    const Tensor mask = hidden(s.q_end - s.q_begin, s.k_end - s.k_begin, causal, left, right);
    const Tensor scores = at::matmul(of_q(q), of_k(k).transpose(1, 2)).mul_(factor);
    const Tensor p = (scores - lse.slice(1, s.q_begin, s.q_end).unsqueeze(-1)).exp_().masked_fill_(mask, 0);
    const Tensor delta = (of_q(d) * of_q(o)).sum(-1, true);
    const Tensor ds = p * (at::matmul(of_q(d), of_k(v).transpose(1, 2)) - delta) * factor;
    of_q(dq).copy_(at::matmul(ds, of_k(k)));
    const auto by_key_head = [&](const Tensor& x) {  // [N, keys, D] -> [keys, K, D]
      return x.unflatten(0, {k.size(1), group}).sum(1).transpose(0, 1);
    };
    dk.slice(0, s.k_begin, s.k_end).copy_(by_key_head(at::matmul(ds.transpose(1, 2), of_q(q))));
    dv.slice(0, s.k_begin, s.k_end).copy_(by_key_head(at::matmul(p.transpose(1, 2), of_q(d))));
  }
  const auto sent = [&](const Tensor& x) { return x.to(query.scalar_type()).to(query.device()); };
  return {sent(dq), sent(dk), sent(dv)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("mm.dtype_out", mm_out);
  m.impl("addmm.dtype_out", addmm_out);
  m.impl("_grouped_mm", grouped_mm);
  m.impl("_fused_rms_norm", rms_norm);
  m.impl("_fused_rms_norm_backward", rms_norm_backward);
  m.impl("_flash_attention_forward", flash_forward);
  m.impl("_flash_attention_backward", flash_backward);
}

}  // namespace

UseCudaTable::UseCudaTable(const ops::backend::Operators& table) {
  ops::backend::register_operators(device().type(), &table);
}

UseCudaTable::~UseCudaTable() {
  ops::backend::register_operators(device().type(), nullptr);
}

}  // namespace hone::standin
