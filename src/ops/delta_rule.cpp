#include "ops/delta_rule.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "ops/cpu/delta_rule_rows.h"
#include "ops/reference/delta_rule.h"

namespace hone::ops {
namespace {

constexpr std::int64_t kStateColumns = 32;  // of a block of S

void require_shapes(const at::Tensor& in, const DeltaWeights& weights, const DeltaShape& shape) {
  constexpr const char* kWhere = "ops::delta_rule";
  base::require(shape.key_heads > 0 && shape.value_heads % shape.key_heads == 0, kWhere,
                "value heads a multiple of key heads");
  base::require(in.dim() == 2 && in.size(1) == shape.inputs(), kWhere, "q, k, v, z, b and a side by side");
  const at::Tensor& conv = weights.conv;
  base::require(conv.dim() == 3 && conv.size(0) == shape.channels() && conv.size(1) == 1, kWhere,
                "taps [channels, 1, L]");
  base::require(weights.a_log.numel() == shape.value_heads && weights.dt_bias.numel() == shape.value_heads &&
                    weights.norm.numel() == shape.value_dim,
                kWhere, "a_log and dt_bias of each value head, a norm of its columns");
}

void require_values(const at::Tensor& rows, const at::Tensor& in, const DeltaShape& shape) {
  base::require(rows.dim() == 2 && rows.size(0) == in.size(0) && rows.size(1) == shape.values(),
                "ops::delta_rule", "rows of [T, V E]");
}

std::int64_t state_blocks(const DeltaShape& shape) {
  return (shape.value_dim + kStateColumns - 1) / kStateColumns;
}

}  // namespace

// What the two forms read and write of a state.
class DeltaStates {
 public:
  static delta::Heads heads(const DeltaState& state) {
    return {static_cast<float*>(state.values_.mutable_data_ptr()),
            static_cast<float*>(state.scales_.mutable_data_ptr())};
  }
  static at::Tensor last(const DeltaState& state, std::int64_t taps) { return state.inputs_.last(taps - 1); }
  static void append(DeltaState& state, const at::Tensor& rows, const DeltaShape& shape) {
    state.inputs_.append(rows.narrow(1, 0, shape.channels()));
  }
  static delta::Carried carried(const DeltaState& state, const DeltaShape& shape, std::int64_t taps) {
    if (state.length() == 0) return {};
    const std::int64_t blocks = state.values_.size(1);
    const at::Tensor wide = state.values_.permute({0, 2, 1, 3})
                                .reshape({shape.value_heads, shape.key_dim, blocks * kStateColumns})
                                .narrow(2, 0, shape.value_dim);
    return {state.inputs_.last(taps - 1), wide * state.scales_.view({-1, 1, 1})};
  }
  static void keep(DeltaState& state, const delta::Carried& end, const DeltaShape& shape) {
    state.scales_.fill_(1);
    for (std::int64_t j = 0; j < state.values_.size(1); ++j) {
      const std::int64_t width = std::min(kStateColumns, shape.value_dim - j * kStateColumns);
      state.values_.select(1, j).narrow(2, 0, width).copy_(end.values.narrow(2, j * kStateColumns, width));
    }
  }
};

at::Tensor delta_rule(const at::Tensor& in, const DeltaWeights& weights, const DeltaShape& shape,
                      const std::vector<std::pair<std::int64_t, std::int64_t>>& segments) {
  require_shapes(in, weights, shape);
  if (segments.empty()) return at::zeros({0, shape.values()}, in.options());
  std::vector<at::Tensor> out;
  for (const auto& [begin, end] : segments) {
    delta::Carried carried;
    out.push_back(delta::in_chunks(in.narrow(0, begin, end - begin), weights, shape, carried));
  }
  return at::cat(out);
}

DeltaState::DeltaState(const DeltaShape& shape, std::int64_t taps, at::ScalarType dtype, at::Device device)
    : inputs_(shape.channels(), taps, dtype, device),
      values_(at::zeros({shape.value_heads, state_blocks(shape), shape.key_dim, kStateColumns},
                        at::TensorOptions(at::kFloat).device(device))),
      scales_(at::ones({shape.value_heads}, values_.options())) {}

void DeltaState::truncate(std::int64_t length) {
  base::require(can_truncate(length), "ops::DeltaState", "all tokens or none");
  if (length == this->length()) return;
  inputs_.truncate(0);
  values_.zero_();
  scales_.fill_(1);
}

DeltaState DeltaState::clone() const {
  DeltaState out;
  out.inputs_ = inputs_.clone();
  if (values_.defined()) out.values_ = values_.clone();
  if (scales_.defined()) out.scales_ = scales_.clone();
  return out;
}

std::int64_t DeltaState::bytes() const {
  if (!values_.defined()) return 0;
  return inputs_.bytes() + static_cast<std::int64_t>(values_.nbytes() + scales_.nbytes());
}

std::int64_t DeltaState::bytes(const DeltaShape& shape, std::int64_t taps, at::ScalarType dtype) {
  const std::int64_t head = state_blocks(shape) * shape.key_dim * kStateColumns + 1;
  return ConvInputs::bytes(shape.channels(), taps, dtype) + shape.value_heads * head * 4;
}

namespace {

delta::Source source_of(const at::Tensor& in, std::int64_t begin) {
  const auto bytes = in.stride(0) * static_cast<std::int64_t>(in.element_size());
  return {
      .in = static_cast<const char*>(in.const_data_ptr()) + begin * bytes, .row_bytes = bytes, .before = {}};
}

// Segments without a prefix, then those with one, which begin with what theirs ended with.
void into_on_cpu(const at::Tensor& out, const at::Tensor& in, const DeltaWeights& weights,
                 const DeltaShape& shape, const std::vector<AttentionSegment>& segments) {
  const delta::Prepared prepared(in, weights, shape);
  std::vector<DeltaState> ends(segments.size());
  for (const AttentionSegment& s : segments) {
    if (s.prefix == kNoSegment) continue;
    DeltaState& end = ends[static_cast<std::size_t>(s.prefix)];
    if (end.bytes() == 0) end = DeltaState(shape, prepared.taps_count, in.scalar_type());
  }
  for (const bool follows : {false, true}) {
    std::vector<delta::Rows> rows;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const AttentionSegment& s = segments[i];
      if ((s.prefix != kNoSegment) != follows) continue;
      delta::Rows& one = rows.emplace_back();
      one = {.source = source_of(in, s.begin), .begin = s.begin, .end = s.end, .from = {}, .to = {}};
      if (ends[i].bytes() > 0) one.to = DeltaStates::heads(ends[i]);
      if (!follows) continue;
      const auto prefix = static_cast<std::size_t>(s.prefix);
      const at::Tensor earlier =
          in.narrow(0, segments[prefix].begin, segments[prefix].end - segments[prefix].begin);
      one.source.before = delta::rows_before(earlier, {}, prepared.taps_count);
      one.from = DeltaStates::heads(ends[prefix]);
    }
    delta::forward(out, in, prepared, rows);
  }
}

void step_on_cpu(const at::Tensor& out, const at::Tensor& in, const DeltaWeights& weights,
                 const DeltaShape& shape, const std::vector<DeltaStep>& steps) {
  const delta::Prepared prepared(in, weights, shape);
  const std::int64_t taps = prepared.taps_count;
  std::vector<delta::Rows> rows;
  for (const DeltaStep& step : steps) {
    delta::Rows& one = rows.emplace_back();
    one = {.source = source_of(in, step.begin), .begin = step.begin, .end = step.end, .from = {}, .to = {}};
    one.to = DeltaStates::heads(*step.own);
    const bool has_own = step.own->length() > 0,
               has_before = step.before != nullptr && step.before->length() > 0;
    if (has_own) one.from = one.to;
    if (!has_own && has_before) one.from = DeltaStates::heads(*step.before);
    one.source.before =
        delta::rows_before(has_own ? DeltaStates::last(*step.own, taps) : at::Tensor(),
                           has_before ? DeltaStates::last(*step.before, taps) : at::Tensor(), taps);
  }
  delta::forward(out, in, prepared, rows);
}

void step_in_chunks(const at::Tensor& out, const at::Tensor& rows, const DeltaWeights& weights,
                    const DeltaShape& shape, const DeltaStep& step) {
  const std::int64_t taps = weights.conv.size(2);
  delta::Carried carried = DeltaStates::carried(*step.own, shape, taps), before;
  if (step.before != nullptr) before = DeltaStates::carried(*step.before, shape, taps);
  if (!carried.values.defined()) {
    carried = before;
  } else if (before.inputs.defined()) {
    const at::Tensor all = at::cat({before.inputs, carried.inputs});
    const std::int64_t kept = std::min(taps - 1, all.size(0));
    carried.inputs = all.narrow(0, all.size(0) - kept, kept);
  }
  out.copy_(delta::in_chunks(rows, weights, shape, carried));
  DeltaStates::keep(*step.own, carried, shape);
}

}  // namespace

void delta_rule_into(at::Tensor out, const at::Tensor& in, const DeltaWeights& weights,
                     const DeltaShape& shape, const std::vector<AttentionSegment>& segments) {
  require_shapes(in, weights, shape);
  require_values(out, in, shape);
  if (delta::fits(in, out, weights)) return into_on_cpu(out, in, weights, shape, segments);
  std::vector<delta::Carried> ends(segments.size());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const AttentionSegment& s = segments[i];
    if (s.prefix != kNoSegment) ends[i] = ends[static_cast<std::size_t>(s.prefix)];
    const std::int64_t n = s.end - s.begin;
    out.narrow(0, s.begin, n).copy_(delta::in_chunks(in.narrow(0, s.begin, n), weights, shape, ends[i]));
  }
}

void delta_rule_step(at::Tensor out, const at::Tensor& in, const DeltaWeights& weights,
                     const DeltaShape& shape, const std::vector<DeltaStep>& steps) {
  require_shapes(in, weights, shape);
  require_values(out, in, shape);
  std::vector<DeltaStep> some;
  for (const DeltaStep& step : steps) {
    base::require(step.own != nullptr, "ops::delta_rule_step", "a state of each sequence");
    if (step.end > step.begin) some.push_back(step);
  }
  const bool on_cpu = delta::fits(in, out, weights);
  if (on_cpu) step_on_cpu(out, in, weights, shape, some);
  for (const DeltaStep& step : some) {
    const at::Tensor rows = in.narrow(0, step.begin, step.end - step.begin);
    if (!on_cpu) step_in_chunks(out.narrow(0, step.begin, rows.size(0)), rows, weights, shape, step);
    DeltaStates::append(*step.own, rows, shape);
  }
}

void delta_rule_backward(at::Tensor in, const at::Tensor& d, const DeltaWeights& weights,
                         const DeltaShape& shape, const std::vector<AttentionSegment>& segments,
                         const DeltaGradients& gradients) {
  require_shapes(in, weights, shape);
  require_values(d, in, shape);
  if (delta::fits(in, d, weights)) return delta::backward(in, d, {in, weights, shape}, segments, gradients);
  delta::backward_in_chunks(in, d, weights, shape, segments, gradients);
}

std::int64_t delta_rule_backward_bytes(const DeltaShape& shape, std::int64_t longest, std::int64_t threads) {
  return delta::backward_bytes(shape, longest, threads);
}

}  // namespace hone::ops
