#include "ops/short_conv.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace hone::ops {
namespace short_conv_test {

struct Case {
  std::int64_t channels = 0, taps = 0;
  bool bias = false;
  at::ScalarType dtype = at::kFloat;
};

struct Inputs {
  Inputs(const Case& c, std::int64_t tokens) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
    const auto noise = [&](std::vector<std::int64_t> shape) {
      return at::randn(shape, generator, at::kFloat).to(c.dtype);
    };
    bcx = noise({tokens, 3 * c.channels});
    weight = noise({c.channels, 1, c.taps});
    if (c.bias) bias = noise({c.channels});
    d = noise({tokens, c.channels});
  }
  at::Tensor bcx, weight, bias, d;
};

std::vector<Case> cases() {
  return {{.channels = 8, .taps = 3, .bias = true},
          {.channels = 64, .taps = 4},
          {.channels = 100, .taps = 3, .bias = true, .dtype = at::kBFloat16},
          {.channels = 129, .taps = 1, .bias = true},
          {.channels = 70, .taps = 6, .dtype = at::kBFloat16}};
}

// Two sequences, then a prompt with three completions; shorter than the taps here and there.
const std::vector<AttentionSegment> kSegments = {{0, 9},      {9, 10},     {10, 12},
                                                 {12, 20, 2}, {20, 21, 2}, {21, 24, 2}};

// y of sequences that repeat their prefix, by transformers' own function in fp64.
at::Tensor whole(const at::Tensor& bcx, const Inputs& in) {
  const std::vector<at::Tensor> parts = bcx.to(at::kDouble).chunk(3, 1);
  const at::Tensor z = (parts[0] * parts[2]).t().unsqueeze(0);  // [1, H, n]
  const std::int64_t taps = in.weight.size(2), n = bcx.size(0);
  const std::optional<at::Tensor> bias =
      in.bias.defined() ? std::optional(in.bias.to(at::kDouble)) : std::nullopt;
  const at::Tensor out = at::conv1d(z, in.weight.to(at::kDouble), bias, 1, taps - 1, 1, in.weight.size(0));
  return parts[1] * out.narrow(2, 0, n).squeeze(0).t();
}

at::Tensor expected(const at::Tensor& bcx, const Inputs& in) {
  std::vector<at::Tensor> out;
  for (const AttentionSegment& s : kSegments) {
    const std::int64_t n = s.end - s.begin;
    at::Tensor rows = bcx.narrow(0, s.begin, n);
    if (s.prefix != kNoSegment) {
      const AttentionSegment& p = kSegments[static_cast<std::size_t>(s.prefix)];
      rows = at::cat({bcx.narrow(0, p.begin, p.end - p.begin), rows});
    }
    out.push_back(whole(rows, in).narrow(0, rows.size(0) - n, n));
  }
  return at::cat(out);
}

double largest(const at::Tensor& a, const at::Tensor& b) {
  return ((a.to(at::kDouble) - b.to(at::kDouble)).abs().max() / b.abs().max()).item<double>();
}

double bound(const Case& c) {
  return c.dtype == at::kFloat ? 1e-6 : 2e-2;
}

at::Tensor fused(const Inputs& in, const at::Tensor& bcx) {
  const at::Tensor inputs = conv_inputs(bcx);
  at::Tensor out = at::empty(inputs.sizes(), inputs.options());
  short_conv_into(out, inputs, bcx, in.weight, in.bias, conv_rows(inputs, kSegments, in.weight.size(2)));
  return out;
}

TEST(ShortConv, IsTransformersConvolutionInBothForms) {
  for (const Case& c : cases()) {
    const Inputs in(c, 24);
    const at::Tensor wanted = expected(in.bcx, in);
    EXPECT_LT(largest(fused(in, in.bcx), wanted), bound(c)) << c.channels;
    const at::Tensor plain = short_conv(in.bcx.narrow(0, 0, 10), in.weight, in.bias, {{0, 9}, {9, 10}});
    EXPECT_EQ(plain.scalar_type(), c.dtype);
    EXPECT_LT(largest(plain, wanted.narrow(0, 0, 10)), bound(c)) << c.channels;
  }
}

TEST(ShortConv, BackwardIsAutogradsThroughRepeatedPrefixes) {
  for (const Case& c : cases()) {
    Inputs in(c, 24);
    const at::Tensor wide = in.bcx.to(at::kDouble).requires_grad_(true);
    Inputs exact = in;
    exact.weight = in.weight.to(at::kDouble).requires_grad_(true);
    if (c.bias) exact.bias = in.bias.to(at::kDouble).requires_grad_(true);
    (expected(wide, exact) * in.d.to(at::kDouble)).sum().backward();

    const at::Tensor d_weight = at::ones({c.channels, 1, c.taps}, at::kFloat);  // added to
    const at::Tensor d_bias = c.bias ? at::ones({c.channels}, at::kFloat) : at::Tensor();
    const at::Tensor bcx = in.bcx.clone();
    short_conv_backward(bcx, in.d.clone(), in.weight, in.bias, kSegments, d_weight, d_bias);
    EXPECT_LT(largest(bcx, wide.grad()), 2 * bound(c)) << c.channels;
    EXPECT_LT(largest(d_weight - 1, exact.weight.grad()), 2 * bound(c)) << c.channels;
    if (c.bias) {
      EXPECT_LT(largest(d_bias - 1, exact.bias.grad()), 2 * bound(c)) << c.channels;
    }
    const at::Tensor alone = in.bcx.clone();  // without the weights' gradients
    short_conv_backward(alone, in.d.clone(), in.weight, in.bias, kSegments, {}, {});
    EXPECT_TRUE(at::equal(alone, bcx));
  }
}

// Tokens one by one, in pieces, and after a prefix: the bits of all at once.
TEST(ShortConv, StepsHaveTheBitsOfThePass) {
  for (const Case& c : cases()) {
    const Inputs in(c, 24);
    const at::Tensor wanted = fused(in, in.bcx);
    const at::Tensor inputs = conv_inputs(in.bcx);
    for (const std::int64_t piece : {1, 2, 5}) {
      std::vector<ConvInputs> caches(kSegments.size());
      for (std::size_t i = 0; i < kSegments.size(); ++i) {
        const AttentionSegment& s = kSegments[i];
        caches[i] = ConvInputs(c.channels, c.taps, c.dtype);
        for (std::int64_t t = s.begin; t < s.end; t += piece) {
          const std::int64_t n = std::min(piece, s.end - t);
          at::Tensor before = caches[i].last(c.taps - 1);
          if (s.prefix != kNoSegment && before.size(0) < c.taps - 1) {
            const ConvInputs& prefix = caches[static_cast<std::size_t>(s.prefix)];
            before = at::cat({prefix.last(c.taps - 1 - before.size(0)), before});
          }
          const at::Tensor rows = in.bcx.narrow(0, t, n), z = inputs.narrow(0, t, n);
          at::Tensor out = at::empty({n, c.channels}, rows.options());
          short_conv_into(out, z, rows, in.weight, in.bias, {{0, n, before}});
          caches[i].append(z);
          EXPECT_TRUE(at::equal(out, wanted.narrow(0, t, n))) << c.channels << " " << t;
        }
      }
    }
  }
}

TEST(ConvInputs, HoldTheLastAndSayWhatTheyCanTakeBack) {
  const at::Tensor rows = at::arange(200, at::kFloat).view({100, 2});
  ConvInputs held(2, 4, at::kFloat);
  std::int64_t length = 0;
  for (const std::int64_t n : {1, 2, 3, 40, 1, 1, 9, 5, 12, 1}) {
    held.append(rows.narrow(0, length, n));
    length += n;
    EXPECT_EQ(held.length(), length);
    const std::int64_t most = std::min<std::int64_t>(3, length);
    EXPECT_TRUE(at::equal(held.last(3), rows.narrow(0, length - most, most)));
    EXPECT_TRUE(held.can_truncate(std::max<std::int64_t>(0, length - ConvInputs::kTakenBack)));
    EXPECT_TRUE(held.can_truncate(0));
    EXPECT_FALSE(held.can_truncate(length + 1));
  }
  EXPECT_FALSE(held.can_truncate(40));
  EXPECT_THROW(held.truncate(40), base::InternalError);
  ConvInputs other = held.clone();
  other.truncate(length - 5);
  EXPECT_TRUE(at::equal(other.last(3), rows.narrow(0, length - 8, 3)));
  EXPECT_EQ(held.length(), length);
  other.truncate(0);
  EXPECT_EQ(other.last(3).size(0), 0);
  EXPECT_EQ(held.bytes(), ConvInputs::bytes(2, 4, at::kFloat));
}

}  // namespace short_conv_test
}  // namespace hone::ops
