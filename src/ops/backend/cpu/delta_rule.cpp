// The delta rule's calls as rows for delta_rule_rows.h.
#include "ops/delta_rule.h"

#include <ATen/ATen.h>

#include "ops/backend/cpu/cpu_operators.h"
#include "ops/backend/cpu/delta_rule_rows.h"
#include "ops/backend/delta_states.h"

namespace hone::ops::cpu {
namespace {

static_assert(kStateColumns == delta::kColumns);

delta::Heads heads_of(const DeltaState& state) {
  return {static_cast<float*>(DeltaStates::values(state).mutable_data_ptr()),
          static_cast<float*>(DeltaStates::scales(state).mutable_data_ptr())};
}

delta::Source source_of(const Tensor& in, std::int64_t begin) {
  const auto bytes = in.stride(0) * static_cast<std::int64_t>(in.element_size());
  return {
      .in = static_cast<const char*>(in.const_data_ptr()) + begin * bytes, .row_bytes = bytes, .before = {}};
}

// Segments without a prefix, then those with one, which begin with what theirs ended with.
void forward_segments(const Tensor& out, const Tensor& in, const DeltaWeights& weights,
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
      if (ends[i].bytes() > 0) one.to = heads_of(ends[i]);
      if (!follows) continue;
      const auto prefix = static_cast<std::size_t>(s.prefix);
      const Tensor earlier =
          in.narrow(0, segments[prefix].begin, segments[prefix].end - segments[prefix].begin);
      one.source.before = delta::rows_before(earlier, {}, prepared.taps_count);
      one.from = heads_of(ends[prefix]);
    }
    delta::forward(out, in, prepared, rows);
  }
}

void forward_steps(const Tensor& out, const Tensor& in, const DeltaWeights& weights, const DeltaShape& shape,
                   const std::vector<DeltaStep>& steps) {
  const delta::Prepared prepared(in, weights, shape);
  const std::int64_t taps = prepared.taps_count;
  std::vector<delta::Rows> rows;
  for (const DeltaStep& step : steps) {
    delta::Rows& one = rows.emplace_back();
    one = {.source = source_of(in, step.begin), .begin = step.begin, .end = step.end, .from = {}, .to = {}};
    one.to = heads_of(*step.own);
    const bool has_own = step.own->length() > 0,
               has_before = step.before != nullptr && step.before->length() > 0;
    if (has_own) one.from = one.to;
    if (!has_own && has_before) one.from = heads_of(*step.before);
    one.source.before =
        delta::rows_before(has_own ? DeltaStates::last(*step.own, taps) : Tensor(),
                           has_before ? DeltaStates::last(*step.before, taps) : Tensor(), taps);
  }
  delta::forward(out, in, prepared, rows);
}

}  // namespace

bool delta_rule(const Tensor& out, const Tensor& in, const DeltaWeights& weights, const DeltaShape& shape,
                const Segments& segments) {
  if (!delta::fits(in, out, weights)) return false;
  forward_segments(out, in, weights, shape, segments);
  return true;
}

bool delta_rule_step(const Tensor& out, const Tensor& in, const DeltaWeights& weights,
                     const DeltaShape& shape, const std::vector<DeltaStep>& steps) {
  if (!delta::fits(in, out, weights)) return false;
  forward_steps(out, in, weights, shape, steps);
  return true;
}

bool delta_rule_backward(const Tensor& in, const Tensor& d, const DeltaWeights& weights,
                         const DeltaShape& shape, const Segments& segments, const DeltaGradients& gradients) {
  if (!delta::fits(in, d, weights)) return false;
  delta::backward(in, d, {in, weights, shape}, segments, gradients);
  return true;
}

std::int64_t delta_rule_backward_bytes(const DeltaShape& shape, std::int64_t longest, std::int64_t threads) {
  return delta::backward_bytes(shape, longest, threads);
}

}  // namespace hone::ops::cpu
