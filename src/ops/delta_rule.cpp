#include "ops/delta_rule.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "ops/backend/delta_states.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {
namespace {

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

at::Tensor delta_rule(const at::Tensor& in, const DeltaWeights& weights, const DeltaShape& shape,
                      const std::vector<std::pair<std::int64_t, std::int64_t>>& segments) {
  require_shapes(in, weights, shape);
  return reference::delta_rule_packed(in, weights, shape, segments);
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

void delta_rule_into(at::Tensor out, const at::Tensor& in, const DeltaWeights& weights,
                     const DeltaShape& shape, const std::vector<AttentionSegment>& segments) {
  require_shapes(in, weights, shape);
  require_values(out, in, shape);
  backend::run(in.device(), &backend::Operators::delta_rule, reference::delta_rule, out, in, weights, shape,
               segments);
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
  backend::run(in.device(), &backend::Operators::delta_rule_step, reference::delta_rule_step, out, in,
               weights, shape, some);
  for (const DeltaStep& step : some)
    DeltaStates::append(*step.own, in.narrow(0, step.begin, step.end - step.begin), shape);
}

void delta_rule_backward(at::Tensor in, const at::Tensor& d, const DeltaWeights& weights,
                         const DeltaShape& shape, const std::vector<AttentionSegment>& segments,
                         const DeltaGradients& gradients) {
  require_shapes(in, weights, shape);
  require_values(d, in, shape);
  backend::run(in.device(), &backend::Operators::delta_rule_backward, reference::delta_rule_backward, in, d,
               weights, shape, segments, gradients);
}

std::int64_t delta_rule_backward_bytes(const DeltaShape& shape, std::int64_t longest, std::int64_t threads) {
  const auto bytes = backend::operators_of(at::kCPU).delta_rule_backward_bytes;
  return bytes == nullptr ? 0 : bytes(shape, longest, threads);
}

}  // namespace hone::ops
