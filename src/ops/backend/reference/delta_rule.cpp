#include "ops/delta_rule.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>

#include "ops/backend/delta_states.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops::reference {
namespace {

// What the next tokens of a sequence need; undefined at its begin.
struct Carried {
  Tensor inputs;  // [at most L - 1, C], the newest last
  Tensor values;  // S [V, D, E], fp32 or fp64
};

constexpr std::int64_t kChunk = 64;
constexpr double kUnitEps = 1e-6;  // of the norms of q and k

// u [n, C] of the last n rows of x, in x's dtype.
Tensor convolved_silu(const Tensor& x, std::int64_t n, const Tensor& weight, at::ScalarType wide) {
  const std::int64_t taps = weight.size(2), channels = weight.size(0), missing = n + taps - 1 - x.size(0);
  const Tensor w = weight.to(x.scalar_type()).to(wide);
  Tensor padded = x.to(wide);
  if (missing > 0) padded = at::cat({at::zeros({missing, channels}, padded.options()), padded});
  if (missing < 0) padded = padded.narrow(0, -missing, n + taps - 1);
  Tensor sum = w.select(2, taps - 1).view({channels}) * padded.narrow(0, taps - 1, n);
  for (std::int64_t back = 1; back < taps; ++back)
    sum = sum + w.select(2, taps - 1 - back).view({channels}) * padded.narrow(0, taps - 1 - back, n);
  return at::silu(sum.to(x.scalar_type()));
}

// [n, K D] -> unit vectors [V, n, D] times `scale`.
Tensor unit_heads(const Tensor& u, const DeltaShape& shape, double scale, at::ScalarType wide) {
  const Tensor heads = u.to(wide).view({u.size(0), shape.key_heads, shape.key_dim});
  const Tensor unit = heads * at::rsqrt((heads * heads).sum(-1, true) + kUnitEps) * scale;
  const std::int64_t shared = shape.value_heads / shape.key_heads;
  const Tensor all = unit.unsqueeze(2).expand({u.size(0), shape.key_heads, shared, shape.key_dim});
  return all.reshape({u.size(0), shape.value_heads, shape.key_dim}).transpose(0, 1);
}

// [V, n, ...] -> [V, ceil(n / 64), 64, ...], filled with zeros.
Tensor chunked(const Tensor& x) {
  const std::int64_t chunks = (x.size(1) + kChunk - 1) / kChunk, missing = chunks * kChunk - x.size(1);
  std::vector<std::int64_t> sizes = x.sizes().vec();
  Tensor whole = x;
  if (missing > 0) {
    sizes[1] = missing;
    whole = at::cat({x, at::zeros(sizes, x.options())}, 1);
  }
  sizes[1] = chunks;
  sizes.insert(sizes.begin() + 2, kChunk);
  return whole.reshape(sizes);
}

// The recurrence: q, k [V, n, D], v [V, n, E], beta and g = log of the decay [V, n], S [V, D, E] -> o [V, n, E], and S
// after them. The names are transformers'.
Tensor recurrence(const Tensor& q_rows, const Tensor& k_rows, const Tensor& v_rows, const Tensor& beta_rows,
                  const Tensor& decay_rows, Tensor& state) {
  const Tensor q = chunked(q_rows), k = chunked(k_rows), beta = chunked(beta_rows).unsqueeze(-1);
  const Tensor decay = chunked(decay_rows).cumsum(2), k_beta = k * beta;
  const Tensor mask = at::ones({kChunk, kChunk}, q.options().dtype(at::kBool)).triu(1);
  const Tensor pairs = (decay.unsqueeze(3) - decay.unsqueeze(2))
                           .masked_fill(mask, -std::numeric_limits<double>::infinity())
                           .exp();
  const Tensor from_start = decay.exp().unsqueeze(-1);
  const Tensor system = at::matmul(k_beta, k.transpose(2, 3)) * pairs;
  const Tensor scores = at::matmul(q, k.transpose(2, 3)) * pairs;
  const Tensor values = at::linalg_solve_triangular(system, chunked(v_rows) * beta, false, true, true);
  const Tensor reads = at::linalg_solve_triangular(system, k_beta * from_start, false, true, true);
  const Tensor last = decay.narrow(2, kChunk - 1, 1);
  const Tensor q_decayed = q * from_start, k_decayed = k * (last - decay).exp().unsqueeze(-1);
  std::vector<Tensor> out;
  for (std::int64_t i = 0; i < q.size(1); ++i) {
    const Tensor added = values.select(1, i) - at::matmul(reads.select(1, i), state);
    out.push_back(at::matmul(q_decayed.select(1, i), state) + at::matmul(scores.select(1, i), added));
    state = state * last.select(1, i).exp().unsqueeze(-1) +
            at::matmul(k_decayed.select(1, i).transpose(1, 2), added);
  }
  return at::cat(out, 1).narrow(1, 0, q_rows.size(1));
}

// o [V, n, E] and z [n, V E] -> [n, V E].
Tensor gated_norm(const Tensor& o, const Tensor& z, const Tensor& weight, double eps, at::ScalarType wide) {
  const Tensor rounded = o.transpose(0, 1).to(z.scalar_type()).to(wide);
  const Tensor normed = rounded * at::rsqrt((rounded * rounded).mean(-1, true) + eps);
  const Tensor gate = at::silu(z.to(wide)).view(normed.sizes());
  return (weight * normed.to(z.scalar_type()) * gate).to(z.scalar_type()).reshape(z.sizes());
}

// The next tokens, in [n, C + V E + 2 V] -> out [n, V E]; `carried` is brought to their end. Differentiable.
Tensor in_chunks(const Tensor& in, const DeltaWeights& weights, const DeltaShape& shape, Carried& carried) {
  const std::int64_t n = in.size(0), channels = shape.channels(), v = shape.value_heads;
  const at::ScalarType wide = in.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  Tensor x = in.narrow(1, 0, channels);
  if (carried.inputs.defined()) x = at::cat({carried.inputs, x});
  if (!carried.values.defined())
    carried.values = at::zeros({v, shape.key_dim, shape.value_dim}, in.options().dtype(wide));
  carried.values = carried.values.to(wide);
  const std::int64_t kept = std::min(x.size(0), weights.conv.size(2) - 1);
  carried.inputs = x.narrow(0, x.size(0) - kept, kept);
  if (n == 0) return at::empty({0, shape.values()}, in.options());
  const Tensor z = in.narrow(1, channels, shape.values());
  const Tensor b = in.narrow(1, channels + shape.values(), v), a = in.narrow(1, shape.inputs() - v, v);
  const Tensor u = convolved_silu(x, n, weights.conv, wide);
  const double scale = 1 / std::sqrt(static_cast<double>(shape.key_dim));
  const Tensor q = unit_heads(u.narrow(1, 0, shape.keys()), shape, scale, wide),
               k = unit_heads(u.narrow(1, shape.keys(), shape.keys()), shape, 1, wide);
  const Tensor values =
      u.narrow(1, 2 * shape.keys(), shape.values()).to(wide).view({n, v, shape.value_dim}).transpose(0, 1);
  const Tensor decay = -weights.a_log.to(wide).exp() * at::softplus(a.to(wide) + weights.dt_bias.to(wide));
  const Tensor o = recurrence(q, k, values, at::sigmoid(b).to(wide).t(), decay.t(), carried.values);
  return gated_norm(o, z, weights.norm, shape.eps, wide);
}

Tensor leaf_of(const Tensor& t) {
  return t.detach().clone().requires_grad_(true);
}

void add_gradient(const Tensor& sum, const Tensor& leaf) {
  if (sum.defined() && leaf.grad().defined()) sum.add_(leaf.grad().to(sum.scalar_type()));
}

Carried carried_of(const DeltaState& state, const DeltaShape& shape, std::int64_t taps) {
  if (state.length() == 0) return {};
  const std::int64_t blocks = DeltaStates::values(state).size(1);
  const Tensor wide = DeltaStates::values(state)
                          .permute({0, 2, 1, 3})
                          .reshape({shape.value_heads, shape.key_dim, blocks * kStateColumns})
                          .narrow(2, 0, shape.value_dim);
  return {DeltaStates::last(state, taps), wide * DeltaStates::scales(state).view({-1, 1, 1})};
}
void keep(const DeltaState& state, const Carried& end, const DeltaShape& shape) {
  DeltaStates::scales(state).fill_(1);
  for (std::int64_t j = 0; j < DeltaStates::values(state).size(1); ++j) {
    const std::int64_t width = std::min(kStateColumns, shape.value_dim - j * kStateColumns);
    DeltaStates::values(state)
        .select(1, j)
        .narrow(2, 0, width)
        .copy_(end.values.narrow(2, j * kStateColumns, width));
  }
}

void step_in_chunks(const Tensor& out, const Tensor& rows, const DeltaWeights& weights,
                    const DeltaShape& shape, const DeltaStep& step) {
  const std::int64_t taps = weights.conv.size(2);
  Carried carried = carried_of(*step.own, shape, taps), before;
  if (step.before != nullptr) before = carried_of(*step.before, shape, taps);
  if (!carried.values.defined()) {
    carried = before;
  } else if (before.inputs.defined()) {
    const Tensor all = at::cat({before.inputs, carried.inputs});
    const std::int64_t kept = std::min(taps - 1, all.size(0));
    carried.inputs = all.narrow(0, all.size(0) - kept, kept);
  }
  out.copy_(in_chunks(rows, weights, shape, carried));
  keep(*step.own, carried, shape);
}

}  // namespace

Tensor delta_rule_packed(const Tensor& in, const DeltaWeights& weights, const DeltaShape& shape,
                         const std::vector<std::pair<std::int64_t, std::int64_t>>& segments) {
  if (segments.empty()) return at::zeros({0, shape.values()}, in.options());
  std::vector<Tensor> out;
  for (const auto& [begin, end] : segments) {
    Carried carried;
    out.push_back(in_chunks(in.narrow(0, begin, end - begin), weights, shape, carried));
  }
  return at::cat(out);
}

void delta_rule(const Tensor& out, const Tensor& in, const DeltaWeights& weights, const DeltaShape& shape,
                const Segments& segments) {
  std::vector<Carried> ends(segments.size());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const AttentionSegment& s = segments[i];
    if (s.prefix != kNoSegment) ends[i] = ends[static_cast<std::size_t>(s.prefix)];
    const std::int64_t n = s.end - s.begin;
    out.narrow(0, s.begin, n).copy_(in_chunks(in.narrow(0, s.begin, n), weights, shape, ends[i]));
  }
}

void delta_rule_step(const Tensor& out, const Tensor& in, const DeltaWeights& weights,
                     const DeltaShape& shape, const std::vector<DeltaStep>& steps) {
  for (const DeltaStep& step : steps) {
    const std::int64_t n = step.end - step.begin;
    step_in_chunks(out.narrow(0, step.begin, n), in.narrow(0, step.begin, n), weights, shape, step);
  }
}

void delta_rule_backward(const Tensor& in, const Tensor& d, const DeltaWeights& weights,
                         const DeltaShape& shape, const Segments& segments, const DeltaGradients& gradients) {
  const at::AutoGradMode with_grad(true);
  const DeltaWeights leaves{leaf_of(weights.conv), leaf_of(weights.a_log), leaf_of(weights.dt_bias),
                            leaf_of(weights.norm)};
  std::vector<Tensor> rows;
  std::vector<Carried> ends(segments.size());
  Tensor total;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const AttentionSegment& s = segments[i];
    rows.push_back(leaf_of(in.narrow(0, s.begin, s.end - s.begin)));
    if (s.prefix != kNoSegment) ends[i] = ends[static_cast<std::size_t>(s.prefix)];
    const Tensor out = in_chunks(rows.back(), leaves, shape, ends[i]);
    const Tensor product = (out * d.narrow(0, s.begin, s.end - s.begin)).sum();
    total = total.defined() ? total + product : product;
  }
  if (!total.defined()) return;
  total.backward();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::int64_t n = segments[i].end - segments[i].begin;
    if (n > 0) in.narrow(0, segments[i].begin, n).copy_(rows[i].grad());
  }
  add_gradient(gradients.conv, leaves.conv);
  add_gradient(gradients.a_log, leaves.a_log);
  add_gradient(gradients.dt_bias, leaves.dt_bias);
  add_gradient(gradients.norm, leaves.norm);
}

}  // namespace hone::ops::reference
