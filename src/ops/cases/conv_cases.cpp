#include "ops/cases/case.h"
#include "ops/cases/segments.h"
#include "ops/short_conv.h"

namespace hone::ops::cases {
namespace conv_cases {

struct Conv {
  std::int64_t channels, taps;
  bool bias;
  at::ScalarType dtype;
  Segments segments;
};

// bcx, weight, bias and the gradient of the output.
struct Inputs {
  Inputs(const Conv& c, at::Device device) {
    const std::int64_t tokens = tokens_of(c.segments);
    bcx = noise({tokens, 3 * c.channels}, 1, c.dtype).to(device);
    weight = noise({c.channels, 1, c.taps}, 2, c.dtype).to(device);
    if (c.bias) bias = noise({c.channels}, 3, c.dtype).to(device);
    d = noise({tokens, c.channels}, 4, c.dtype).to(device);
  }
  at::Tensor bcx, weight, bias, d;
};

// Token by token, as the header's formula has it.
at::Tensor convolved(const at::Tensor& bcx, const at::Tensor& weight, const at::Tensor& bias) {
  const std::vector<at::Tensor> parts = bcx.chunk(3, 1);
  const std::int64_t n = bcx.size(0), taps = weight.size(2);
  const at::Tensor z = parts[0] * parts[2];
  at::Tensor sum = at::zeros_like(z);
  for (std::int64_t k = 0; k < std::min(taps, n); ++k) {
    const at::Tensor before = at::cat({at::zeros({k, z.size(1)}, z.options()), z.narrow(0, 0, n - k)});
    sum = sum + weight.select(2, taps - 1 - k).view({-1}) * before;
  }
  return parts[1] * (bias.defined() ? sum + bias : sum);
}

at::Tensor defined_by(const Conv& c, const Tensors& t) {  // bcx, weight, bias
  return of_sequences(c.segments, [&](const AttentionSegment& s) {
    return convolved(with_prefix(t[0], c.segments, s), t[1], t.size() > 2 ? t[2] : at::Tensor());
  });
}

Tensors leaves(const Conv& c) {
  const Inputs in(c, at::kCPU);
  Tensors t{wide(in.bcx), wide(in.weight)};
  if (c.bias) t.push_back(wide(in.bias));
  return t;
}

// One token a call, with what is before it.
Tensors by_tokens(const Conv& c, at::Device device) {
  const Inputs in(c, device);
  const at::Tensor inputs = conv_inputs(in.bcx);
  std::vector<at::Tensor> out;
  for (const AttentionSegment& s : c.segments) {
    const at::Tensor sequence = with_prefix(inputs, c.segments, s);
    const std::int64_t shared = sequence.size(0) - (s.end - s.begin);
    for (std::int64_t t = s.begin; t < s.end; ++t) {
      const std::int64_t place = shared + t - s.begin, most = std::min(place, c.taps - 1);
      out.push_back(at::empty({1, c.channels}, inputs.options()));
      short_conv_into(out.back(), inputs.narrow(0, t, 1), in.bcx.narrow(0, t, 1), in.weight, in.bias,
                      {{0, 1, sequence.narrow(0, place - most, most)}});
    }
  }
  return {at::cat(out).cpu()};
}

std::string what(const Conv& c) {
  return std::to_string(c.channels) + " channels, " + std::to_string(c.taps) + " taps, " +
         describe(c.segments) + (c.bias ? ", bias, " : ", ") + describe(c.dtype);
}

Case forward(const Conv& conv) {
  const auto c = std::make_shared<const Conv>(conv);
  Case one{.op = "short_conv", .what = what(conv), .bounds = {bound_of(conv.dtype, 1e-6, 2e-2)}};
  one.run = [c](at::Device device) {
    const Inputs in(*c, device);
    const at::Tensor inputs = conv_inputs(in.bcx);
    const Placed out(unwritten(inputs.sizes(), c->dtype), device, Layout::kStrided);
    short_conv_into(out.view(), inputs, in.bcx, in.weight, in.bias, conv_rows(inputs, c->segments, c->taps));
    return Tensors{out.taken()};
  };
  one.exact = [c] { return Tensors{defined_by(*c, leaves(*c))}; };
  one.own_bits_from = base::InstructionLevel::kPlain;
  one.levels = SameBits::kAllLevels;
  one.otherwise = [c](at::Device device) { return by_tokens(*c, device); };
  return one;
}

Case backward(const Conv& conv) {
  const auto c = std::make_shared<const Conv>(conv);
  const double bound = bound_of(conv.dtype, 2e-6, 2e-2);
  Case one{.op = "short_conv_backward", .what = what(conv), .bounds = {bound}};
  one.run = [c](at::Device device) {
    const Inputs in(*c, device);
    const at::Tensor d_weight = at::ones({c->channels, 1, c->taps}, at::kFloat).to(device);  // added to
    const at::Tensor d_bias = c->bias ? at::ones({c->channels}, at::kFloat).to(device) : at::Tensor();
    short_conv_backward(in.bcx, in.d, in.weight, in.bias, c->segments, d_weight, d_bias);
    Tensors out{in.bcx.cpu(), (d_weight.cpu() - 1)};
    if (c->bias) out.push_back(d_bias.cpu() - 1);
    return out;
  };
  one.exact = [c] {
    const auto f = [&](const Tensors& t) { return defined_by(*c, t); };
    return gradients(f, leaves(*c), Inputs(*c, at::kCPU).d);
  };
  return one;
}

}  // namespace conv_cases

void add_conv_cases(Cases& all) {
  using namespace conv_cases;
  const Segments packed = {{0, 9}, {9, 10}, {10, 12}, {12, 20, 2}, {20, 21, 2}, {21, 24, 2}};
  for (const Conv& c :
       {Conv{8, 3, true, at::kFloat, packed}, Conv{64, 4, false, at::kFloat, packed},
        Conv{100, 3, true, at::kBFloat16, packed}, Conv{129, 1, true, at::kFloat, packed},
        Conv{70, 6, false, at::kBFloat16, packed}, Conv{1024, 3, false, at::kBFloat16, {{0, 64}}},
        Conv{2048, 3, false, at::kFloat, {{0, 1}}}, Conv{33, 4, true, at::kFloat, {{0, 257}}}}) {
    all.push_back(forward(c));
    all.push_back(backward(c));
  }
}

}  // namespace hone::ops::cases
