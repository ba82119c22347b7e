#include "ops/short_conv.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "ops/backend/reference/reference.h"

namespace hone::ops::reference {
namespace {

// [n, H] in fp32: the sum over taps of the last n rows of z.
Tensor taps_summed(const Tensor& z, std::int64_t n, const Tensor& weight, const Tensor& bias) {
  const std::int64_t taps = weight.size(2), h = weight.size(0), earlier = z.size(0) - n;
  const Tensor wide = z.to(at::kFloat), w = weight.to(at::kFloat);
  Tensor padded = wide;
  if (earlier < taps - 1) padded = at::cat({at::zeros({taps - 1 - earlier, h}, wide.options()), wide});
  if (earlier > taps - 1) padded = wide.narrow(0, earlier - (taps - 1), n + taps - 1);
  Tensor sum = bias.defined() ? bias.to(at::kFloat).expand({n, h}) : at::zeros({n, h}, wide.options());
  for (std::int64_t j = 0; j < taps; ++j) sum = sum + w.select(2, j).view({h}) * padded.narrow(0, j, n);
  return sum;
}

Tensor with_before(const Tensor& inputs, const ConvRows& rows) {
  const Tensor own = inputs.narrow(0, rows.begin, rows.end - rows.begin);
  return rows.before.defined() && rows.before.size(0) > 0 ? at::cat({rows.before, own}) : own;
}

// dz [T, H] fp32 of du, and the weights' gradients.
Tensor input_gradient(const Tensor& du, const Tensor& z, const Tensor& weight,
                      const std::vector<AttentionSegment>& segments, const Tensor& d_weight) {
  const std::int64_t taps = weight.size(2), h = weight.size(0);
  const Tensor wide = du.to(at::kFloat), w = weight.to(at::kFloat), inputs = z.to(at::kFloat);
  Tensor dz = at::zeros(du.sizes(), wide.options());
  // the n rows at `to` read those at `from`, `back` tokens before them
  const auto pass = [&](std::int64_t to, std::int64_t from, std::int64_t n, std::int64_t back) {
    const std::int64_t j = taps - 1 - back;
    const Tensor d = wide.narrow(0, to, n);
    dz.narrow(0, from, n).add_(d * w.select(2, j).view({h}));
    if (d_weight.defined()) d_weight.select(2, j).view({h}).add_((d * inputs.narrow(0, from, n)).sum(0));
  };
  for (const AttentionSegment& s : segments) {
    for (std::int64_t back = 0; back < taps; ++back) {
      const std::int64_t length = s.end - s.begin;
      if (back < length) pass(s.begin + back, s.begin, length - back, back);
      if (s.prefix == kNoSegment || back == 0) continue;
      const AttentionSegment& prefix = segments[static_cast<std::size_t>(s.prefix)];
      // row m of the segment reads the prefix's row end - back + m
      const std::int64_t first = std::max<std::int64_t>(0, back - (prefix.end - prefix.begin));
      const std::int64_t n = std::min(back, length) - first;
      if (n > 0) pass(s.begin + first, prefix.end - back + first, n, back);
    }
  }
  return dz;
}

}  // namespace

Tensor short_conv_packed(const Tensor& bcx, const Tensor& weight, const Tensor& bias,
                         const std::vector<std::pair<std::int64_t, std::int64_t>>& segments) {
  const ConvGates gates = conv_gates(bcx);
  const Tensor z = gates.b * gates.x;
  std::vector<Tensor> sums;
  for (const auto& [begin, end] : segments)
    sums.push_back(taps_summed(z.narrow(0, begin, end - begin), end - begin, weight, bias));
  return gates.c * at::cat(sums).to(bcx.scalar_type());
}

void short_conv(const Tensor& out, const Tensor& inputs, const Tensor& bcx, const Tensor& weight,
                const Tensor& bias, const std::vector<ConvRows>& rows) {
  const Tensor c = conv_gates(bcx).c;
  for (const ConvRows& one : rows) {
    const std::int64_t n = one.end - one.begin;
    const Tensor sum = taps_summed(with_before(inputs, one), n, weight, bias).to(inputs.scalar_type());
    out.narrow(0, one.begin, n).copy_(c.narrow(0, one.begin, n) * sum);
  }
}

void short_conv_backward(const Tensor& bcx, const Tensor& d, const Tensor& weight, const Tensor& bias,
                         const Segments& segments, const Tensor& d_weight) {
  const ConvGates gates = conv_gates(bcx);
  const Tensor z = conv_inputs(bcx);
  std::vector<Tensor> sums;
  for (const ConvRows& one : conv_rows(z, segments, weight.size(2)))
    sums.push_back(taps_summed(with_before(z, one), one.end - one.begin, weight, bias));
  const Tensor d_gate = d * at::cat(sums).to(d.scalar_type());
  d.mul_(gates.c);
  gates.c.copy_(d_gate);
  const Tensor dz = input_gradient(d, z, weight, segments, d_weight);
  const Tensor of_b = dz * gates.x;
  gates.x.copy_(dz * gates.b);
  gates.b.copy_(of_b);
}

}  // namespace hone::ops::reference
