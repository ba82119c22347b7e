#include "ops/short_conv.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {
namespace {

constexpr const char* kWhere = "ops::short_conv";

void require_weights(const at::Tensor& weight, const at::Tensor& bias, std::int64_t channels) {
  base::require(weight.dim() == 3 && weight.size(0) == channels && weight.size(1) == 1, kWhere,
                "weights [channels, 1, taps]");
  base::require(!bias.defined() || bias.numel() == channels, kWhere, "a bias for each channel");
}

}  // namespace

ConvGates conv_gates(const at::Tensor& bcx) {
  base::require(bcx.dim() == 2 && bcx.size(1) % 3 == 0, kWhere, "b, c and x side by side");
  const std::int64_t h = bcx.size(1) / 3;
  return {bcx.narrow(1, 0, h), bcx.narrow(1, h, h), bcx.narrow(1, 2 * h, h)};
}

at::Tensor conv_inputs(const at::Tensor& bcx) {
  const ConvGates gates = conv_gates(bcx);
  return gates.b * gates.x;
}

std::vector<ConvRows> conv_rows(const at::Tensor& inputs, const std::vector<AttentionSegment>& segments,
                                std::int64_t taps) {
  std::vector<ConvRows> rows;
  for (const AttentionSegment& s : segments) {
    ConvRows& one = rows.emplace_back();
    one.begin = s.begin;
    one.end = s.end;
    if (s.prefix == kNoSegment) continue;
    const AttentionSegment& prefix = segments[static_cast<std::size_t>(s.prefix)];
    const std::int64_t n = std::min(taps - 1, prefix.end - prefix.begin);
    one.before = inputs.narrow(0, prefix.end - n, n);
  }
  return rows;
}

at::Tensor short_conv(const at::Tensor& bcx, const at::Tensor& weight, const at::Tensor& bias,
                      const std::vector<std::pair<std::int64_t, std::int64_t>>& segments) {
  require_weights(weight, bias, conv_gates(bcx).b.size(1));
  return reference::short_conv_packed(bcx, weight, bias, segments);
}

void short_conv_into(at::Tensor out, const at::Tensor& inputs, const at::Tensor& bcx,
                     const at::Tensor& weight, const at::Tensor& bias, const std::vector<ConvRows>& rows) {
  const std::int64_t channels = conv_gates(bcx).b.size(1);
  require_weights(weight, bias, channels);
  base::require(out.sizes() == inputs.sizes() && inputs.size(1) == channels &&
                    inputs.size(0) == bcx.size(0) && !rows.empty(),
                kWhere, "out and inputs of [T, H]");
  backend::run(inputs.device(), &backend::Operators::short_conv, reference::short_conv, out, inputs, bcx,
               weight, bias, rows);
}

void short_conv_backward(at::Tensor bcx, at::Tensor d, const at::Tensor& weight, const at::Tensor& bias,
                         const std::vector<AttentionSegment>& segments, const at::Tensor& d_weight,
                         const at::Tensor& d_bias) {
  const ConvGates gates = conv_gates(bcx);
  require_weights(weight, bias, gates.b.size(1));
  base::require(d.sizes() == gates.b.sizes(), kWhere, "a gradient of [T, H]");
  backend::run(d.device(), &backend::Operators::short_conv_backward, reference::short_conv_backward, bcx, d,
               weight, bias, segments, d_weight);
  if (d_bias.defined()) d_bias.add_(d.to(at::kFloat).sum(0));
}

ConvInputs::ConvInputs(std::int64_t channels, std::int64_t taps, at::ScalarType dtype, at::Device device)
    : rows_(at::empty({taps - 1 + 2 * kTakenBack, channels}, at::TensorOptions(dtype).device(device))),
      taps_(taps) {}

void ConvInputs::append(const at::Tensor& inputs) {
  base::require(inputs.dim() == 2 && inputs.size(1) == rows_.size(1), "ops::ConvInputs",
                "inputs of [n, channels]");
  const std::int64_t n = inputs.size(0), least = taps_ - 1 + kTakenBack;
  if (held_ + n > rows_.size(0)) {
    const std::int64_t kept = std::min(held_, std::max<std::int64_t>(0, least - n));
    if (kept > 0) rows_.narrow(0, 0, kept).copy_(rows_.narrow(0, held_ - kept, kept).clone());
    held_ = kept;
  }
  const std::int64_t taken = std::min(n, rows_.size(0) - held_);
  rows_.narrow(0, held_, taken).copy_(inputs.narrow(0, n - taken, taken));
  held_ += taken;
  length_ += n;
}

at::Tensor ConvInputs::last(std::int64_t most) const {
  const std::int64_t n = std::min(most, held_);
  return rows_.narrow(0, held_ - n, n);
}

bool ConvInputs::can_truncate(std::int64_t length) const {
  if (length == 0 || held_ == length_) return length <= length_;
  return length <= length_ && length - (taps_ - 1) >= length_ - held_;
}

void ConvInputs::truncate(std::int64_t length) {
  base::require(length >= 0 && can_truncate(length), "ops::ConvInputs", "a length whose inputs are held");
  held_ = length == 0 ? 0 : held_ - (length_ - length);
  length_ = length;
}

ConvInputs ConvInputs::clone() const {
  ConvInputs out = *this;
  if (rows_.defined()) out.rows_ = rows_.clone();
  return out;
}

std::int64_t ConvInputs::bytes(std::int64_t channels, std::int64_t taps, at::ScalarType dtype) {
  return (taps - 1 + 2 * kTakenBack) * channels * static_cast<std::int64_t>(at::elementSize(dtype));
}

}  // namespace hone::ops
