#include "ops/delta_rule.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <ostream>

#include "base/error.h"
#include "base/process/instruction_level.h"

namespace hone::ops {
namespace delta_rule_test {

struct Case {
  DeltaShape shape;
  std::int64_t taps = 4;
  at::ScalarType dtype = at::kFloat;
  bool wide_norm = false;  // the norm in fp32, whatever dtype is
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.shape.key_heads << " " << c.shape.value_heads << " " << c.shape.key_dim << " "
             << c.shape.value_dim << " " << c.taps << " " << c10::toString(c.dtype);
}

std::vector<Case> cases() {
  return {
      {.shape = {.key_heads = 2, .value_heads = 2, .key_dim = 16, .value_dim = 16}},
      {.shape = {.key_heads = 1, .value_heads = 2, .key_dim = 24, .value_dim = 40}, .taps = 3},
      {.shape = {.key_heads = 2, .value_heads = 4, .key_dim = 36, .value_dim = 20}, .taps = 1},
      {.shape = {.key_heads = 1, .value_heads = 1, .key_dim = 128, .value_dim = 128}},
      {.shape = {.key_heads = 2, .value_heads = 4, .key_dim = 32, .value_dim = 64}, .dtype = at::kBFloat16},
      {.shape = {.key_heads = 2, .value_heads = 2, .key_dim = 20, .value_dim = 72, .eps = 1e-5},
       .taps = 5,
       .dtype = at::kBFloat16,
       .wide_norm = true}};
}

struct Inputs {
  Inputs(const Case& c, std::int64_t tokens) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
    const auto noise = [&](const std::vector<std::int64_t>& shape) {
      return at::randn(shape, generator, at::kFloat).to(c.dtype);
    };
    in = noise({tokens, c.shape.inputs()});
    weights.conv = noise({c.shape.channels(), 1, c.taps}) * 0.5;
    weights.a_log = noise({c.shape.value_heads});
    weights.dt_bias = noise({c.shape.value_heads}) - 2;
    weights.norm = noise({c.shape.value_dim});
    if (c.wide_norm) weights.norm = weights.norm.to(at::kFloat);
    d = noise({tokens, c.shape.values()});
  }
  at::Tensor in, d;
  DeltaWeights weights;
};

DeltaWeights each(const DeltaWeights& w, const std::function<at::Tensor(const at::Tensor&)>& f) {
  return {f(w.conv), f(w.a_log), f(w.dt_bias), f(w.norm)};
}

// ---- the recurrence as the header has it, in fp64, rounded where transformers rounds; gradients pass through

struct Rounding {
  at::ScalarType dtype = at::kDouble;
  bool product = true;
  at::Tensor operator()(const at::Tensor& x) const {
    return x + (x.detach().to(dtype).to(at::kDouble) - x.detach());
  }
};

at::Tensor convolved(const at::Tensor& x, const at::Tensor& w, const Rounding& round) {
  const std::int64_t n = x.size(0), taps = w.size(2);
  const at::Tensor out = at::conv1d(x.t().unsqueeze(0), w, {}, 1, taps - 1, 1, w.size(0));
  return round(at::silu(round(out.narrow(2, 0, n).squeeze(0).t())));
}

// One sequence in [n, .] fp64 -> [n, V E].
at::Tensor plain(const at::Tensor& in, const DeltaWeights& w, const DeltaShape& s,
                 const Rounding& round = {}) {
  const std::int64_t n = in.size(0), shared = s.value_heads / s.key_heads;
  const at::Tensor u = convolved(in.narrow(1, 0, s.channels()), w.conv, round);
  const auto heads = [&](std::int64_t first, std::int64_t count, std::int64_t width) {
    return u.narrow(1, first, count * width).view({n, count, width});
  };
  const auto unit = [&](const at::Tensor& x) {
    return (x / at::sqrt((x * x).sum(-1, true) + 1e-6)).repeat_interleave(shared, 1);
  };
  const at::Tensor q = unit(heads(0, s.key_heads, s.key_dim)) / std::sqrt(static_cast<double>(s.key_dim));
  const at::Tensor k = unit(heads(s.keys(), s.key_heads, s.key_dim));
  const at::Tensor v = heads(2 * s.keys(), s.value_heads, s.value_dim);
  const at::Tensor z = in.narrow(1, s.channels(), s.values()).view(v.sizes());
  const at::Tensor b = in.narrow(1, s.channels() + s.values(), s.value_heads);
  const at::Tensor a = in.narrow(1, s.inputs() - s.value_heads, s.value_heads);
  // with the slope of the rounded value, as autograd has it
  const at::Tensor gate = round(at::sigmoid(b)).detach(), beta = gate + gate * (1 - gate) * (b - b.detach());
  const at::Tensor g = at::exp(-at::exp(w.a_log) * at::softplus(a + w.dt_bias));
  at::Tensor state = at::zeros({s.value_heads, s.key_dim, s.value_dim}, at::kDouble);
  std::vector<at::Tensor> rows;
  for (std::int64_t t = 0; t < n; ++t) {
    state = g[t].view({-1, 1, 1}) * state;
    const at::Tensor seen = (state * k[t].unsqueeze(2)).sum(1);
    state = state + k[t].unsqueeze(2) * (beta[t].unsqueeze(1) * (v[t] - seen)).unsqueeze(1);
    rows.push_back((state * q[t].unsqueeze(2)).sum(1));
  }
  const at::Tensor o = round(at::stack(rows));
  const at::Tensor normed = round(o / at::sqrt((o * o).mean(-1, true) + s.eps));
  const at::Tensor product = round.product ? round(w.norm * normed) : w.norm * normed;
  return round(product * at::silu(z)).reshape({n, s.values()});
}

// Of segments whose prefixes are repeated.
at::Tensor expected(const at::Tensor& in, const DeltaWeights& w, const DeltaShape& shape,
                    const std::vector<AttentionSegment>& segments, const Rounding& round = {}) {
  std::vector<at::Tensor> out;
  for (const AttentionSegment& s : segments) {
    const std::int64_t n = s.end - s.begin;
    if (n == 0) continue;
    at::Tensor rows = in.narrow(0, s.begin, n);
    if (s.prefix != kNoSegment) {
      const AttentionSegment& p = segments[static_cast<std::size_t>(s.prefix)];
      rows = at::cat({in.narrow(0, p.begin, p.end - p.begin), rows});
    }
    out.push_back(plain(rows, w, shape, round).narrow(0, rows.size(0) - n, n));
  }
  return at::cat(out);
}

at::Tensor to_double(const at::Tensor& t) {
  return t.to(at::kDouble);
}
at::Tensor leaf(const at::Tensor& t) {
  return t.detach().to(at::kDouble).requires_grad_(true);
}
Rounding rounding(const Case& c) {
  return c.dtype == at::kBFloat16 ? Rounding{at::kBFloat16, !c.wide_norm} : Rounding{};
}

double largest(const at::Tensor& a, const at::Tensor& b) {
  return ((a.to(at::kDouble) - b.to(at::kDouble)).abs().max() / b.abs().max()).item<double>();
}
double mean(const at::Tensor& a, const at::Tensor& b) {
  return ((a.to(at::kDouble) - b.to(at::kDouble)).abs().mean() / b.abs().mean()).item<double>();
}

// bf16: a sum that falls to the other side of a tie is off by 2^-8, and what follows moves with it; most do not, so the mean is
// far smaller. A rounding that is left out moves the mean to 1e-3 and more.
void expect_close(const at::Tensor& got, const at::Tensor& exact, const Case& c, const char* what) {
  const at::Tensor wanted = exact.detach().to(got.scalar_type());
  const bool half = c.dtype == at::kBFloat16;
  EXPECT_TRUE(at::isfinite(got).all().item<bool>()) << c << " " << what;
  EXPECT_LT(largest(got, wanted), half ? 1.5e-2 : 1e-5) << c << " " << what;
  EXPECT_LT(mean(got, wanted), half ? 3e-4 : 2e-6) << c << " " << what;
}

const std::vector<AttentionSegment> kSegments = {{0, 1},     {1, 64},       {64, 128},     {128, 193},
                                                 {193, 263}, {263, 265, 4}, {265, 335, 4}, {335, 336, 4},
                                                 {336, 338}, {338, 343, 8}, {343, 344, 8}};
constexpr std::int64_t kTokensOfAll = 344;

at::Tensor fused(const Inputs& in, const DeltaShape& shape,
                 const std::vector<AttentionSegment>& segments = kSegments) {
  at::Tensor out = at::full({in.in.size(0), shape.values()}, std::nan(""), in.in.options());
  delta_rule_into(out, in.in, in.weights, shape, segments);
  return out;
}

struct Gradients {
  at::Tensor in;
  DeltaGradients weights;
};
Gradients fused_backward(const Inputs& in, const DeltaShape& shape,
                         const std::vector<AttentionSegment>& segments = kSegments) {
  const auto ones = [](const at::Tensor& like) { return at::ones(like.sizes(), at::kFloat); };  // added to
  Gradients out{
      in.in.clone(),
      {ones(in.weights.conv), ones(in.weights.a_log), ones(in.weights.dt_bias), ones(in.weights.norm)}};
  delta_rule_backward(out.in, in.d, in.weights, shape, segments, out.weights);
  return out;
}

TEST(DeltaRule, ReferenceIsTheRecurrenceWithItsGradients) {
  for (Case c : cases()) {
    c.dtype = at::kDouble;
    const std::vector<AttentionSegment> segments = {{0, 1}, {1, 64}, {64, 128}, {128, 193}, {193, 393}};
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    for (const AttentionSegment& s : segments) pairs.emplace_back(s.begin, s.end);
    const Inputs in(c, 393);
    const at::Tensor x = leaf(in.in), y = leaf(in.in);
    const DeltaWeights w = each(in.weights, leaf), v = each(in.weights, leaf);
    const at::Tensor wanted = expected(x, w, c.shape, segments), got = delta_rule(y, v, c.shape, pairs);
    EXPECT_LT(largest(got, wanted), 1e-11) << c;
    (wanted * in.d).sum().backward();
    (got * in.d).sum().backward();
    EXPECT_LT(largest(y.grad(), x.grad()), 1e-10) << c;
    EXPECT_LT(largest(v.conv.grad(), w.conv.grad()), 1e-10) << c;
    EXPECT_LT(largest(v.a_log.grad(), w.a_log.grad()), 1e-10) << c;
    EXPECT_LT(largest(v.dt_bias.grad(), w.dt_bias.grad()), 1e-10) << c;
    EXPECT_LT(largest(v.norm.grad(), w.norm.grad()), 1e-10) << c;
  }
}

// The recurrence's gradients by differences: of one input of each kind.
TEST(DeltaRule, GradientsAreDifferences) {
  const DeltaShape shape{.key_heads = 1, .value_heads = 2, .key_dim = 6, .value_dim = 5};
  const Inputs in({.shape = shape, .dtype = at::kDouble}, 70);
  const at::Tensor x = leaf(in.in);
  (delta_rule(x, in.weights, shape, {{0, 70}}) * in.d).sum().backward();
  const auto loss = [&](std::int64_t t, std::int64_t column, double step) {
    const at::Tensor moved = in.in.clone();
    moved[t][column] += step;
    return (delta_rule(moved, in.weights, shape, {{0, 70}}) * in.d).sum().item<double>();
  };
  for (const std::int64_t column : {0L, 7L, 13L, 25L, 33L, 35L}) {
    const double slope = (loss(3, column, 1e-5) - loss(3, column, -1e-5)) / 2e-5;
    EXPECT_NEAR(x.grad()[3][column].item<double>(), slope, 1e-6) << column;
  }
}

TEST(DeltaRule, ReferenceRoundsWhereTransformersDoes) {
  for (const Case& c : cases()) {
    const Inputs in(c, 130);
    const at::Tensor got = delta_rule(in.in, in.weights, c.shape, {{0, 65}, {65, 130}});
    EXPECT_EQ(got.scalar_type(), c.dtype);
    const at::Tensor wanted =
        expected(to_double(in.in), each(in.weights, to_double), c.shape, {{0, 65}, {65, 130}}, rounding(c));
    expect_close(got, wanted, c, "out");
  }
}

TEST(DeltaRule, FusedIsTheRecurrence) {
  for (const Case& c : cases()) {
    const Inputs in(c, kTokensOfAll);
    const at::Tensor wanted =
        expected(to_double(in.in), each(in.weights, to_double), c.shape, kSegments, rounding(c));
    expect_close(fused(in, c.shape), wanted, c, "out");
  }
}

TEST(DeltaRule, FusedBackwardIsAutogradsThroughRepeatedPrefixes) {
  for (const Case& c : cases()) {
    const Inputs in(c, kTokensOfAll);
    const at::Tensor x = leaf(in.in);
    const DeltaWeights w = each(in.weights, leaf);
    (expected(x, w, c.shape, kSegments, rounding(c)) * to_double(in.d)).sum().backward();
    const Gradients got = fused_backward(in, c.shape);
    expect_close(got.in, x.grad(), c, "in");
    for (const auto& [first, width] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {0, c.shape.keys()},
             {c.shape.keys(), c.shape.keys()},
             {2 * c.shape.keys(), c.shape.values()},
             {c.shape.channels(), c.shape.values()},
             {c.shape.channels() + c.shape.values(), c.shape.value_heads},
             {c.shape.inputs() - c.shape.value_heads, c.shape.value_heads}})
      expect_close(got.in.narrow(1, first, width), x.grad().narrow(1, first, width), c, "columns of in");
    expect_close(got.weights.conv - 1, w.conv.grad(), c, "conv");
    expect_close(got.weights.a_log - 1, w.a_log.grad(), c, "a_log");
    expect_close(got.weights.dt_bias - 1, w.dt_bias.grad(), c, "dt_bias");
    expect_close(got.weights.norm - 1, w.norm.grad(), c, "norm");
    const at::Tensor alone = in.in.clone();  // without the weights' gradients
    delta_rule_backward(alone, in.d, in.weights, c.shape, kSegments, {});
    EXPECT_TRUE(at::equal(alone, got.in)) << c;
  }
}

// fp64 has no fused form: what another device runs.
TEST(DeltaRule, FormsOfOtherDevicesAreTheRecurrence) {
  for (Case c : cases()) {
    c.dtype = at::kDouble;
    const Inputs in(c, kTokensOfAll);
    const at::Tensor x = leaf(in.in);
    const DeltaWeights w = each(in.weights, leaf);
    const at::Tensor wanted = expected(x, w, c.shape, kSegments);
    (wanted * in.d).sum().backward();
    EXPECT_LT(largest(fused(in, c.shape), wanted), 1e-11) << c;
    const Gradients got = fused_backward(in, c.shape);
    EXPECT_LT(largest(got.in, x.grad()), 1e-10) << c;
    EXPECT_LT(largest(got.weights.conv - 1, w.conv.grad()), 1e-5) << c;
  }
}

// In steps of `piece` tokens, one call for all sequences that have some left.
at::Tensor stepped(const Inputs& in, const Case& c, std::int64_t piece, std::vector<DeltaState>& states) {
  const at::Tensor out = at::full({in.in.size(0), c.shape.values()}, std::nan(""), in.in.options());
  states.clear();
  for (std::size_t i = 0; i < kSegments.size(); ++i) states.emplace_back(c.shape, c.taps, c.dtype);
  for (const bool follows : {false, true}) {
    for (std::int64_t at = 0; at < 100; at += piece) {
      std::vector<DeltaStep> steps;
      std::vector<at::Tensor> rows;
      std::vector<std::int64_t> places;
      std::int64_t total = 0;
      for (std::size_t i = 0; i < kSegments.size(); ++i) {
        const AttentionSegment& s = kSegments[i];
        const std::int64_t n = std::min(piece, s.end - s.begin - at);
        if ((s.prefix != kNoSegment) != follows || n <= 0) continue;
        const DeltaState* before = follows ? &states[static_cast<std::size_t>(s.prefix)] : nullptr;
        steps.push_back({total, total + n, before, &states[i]});
        rows.push_back(in.in.narrow(0, s.begin + at, n));
        places.push_back(s.begin + at);
        total += n;
      }
      if (steps.empty()) continue;
      at::Tensor some = at::empty({total, c.shape.values()}, in.in.options());
      delta_rule_step(some, at::cat(rows), in.weights, c.shape, steps);
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const std::int64_t n = steps[i].end - steps[i].begin;
        out.narrow(0, places[i], n).copy_(some.narrow(0, steps[i].begin, n));
      }
    }
  }
  return out;
}

TEST(DeltaRule, StepsHaveTheBitsOfThePass) {
  for (const Case& c : cases()) {
    const Inputs in(c, kTokensOfAll);
    const at::Tensor wanted = fused(in, c.shape);
    std::vector<DeltaState> states;
    for (const std::int64_t piece : {1, 3, 64, 70}) {
      EXPECT_TRUE(at::equal(stepped(in, c, piece, states), wanted)) << c << " " << piece;
      for (std::size_t i = 0; i < states.size(); ++i)
        EXPECT_EQ(states[i].length(), kSegments[i].end - kSegments[i].begin);
    }
  }
  Case c = cases().front();  // in chunks
  c.dtype = at::kDouble;
  const Inputs in(c, kTokensOfAll);
  std::vector<DeltaState> states;
  EXPECT_LT(largest(stepped(in, c, 3, states), fused(in, c.shape)), 1e-5);  // its state is fp32
}

// Each sequence in a call of its own, and on other numbers of threads.
TEST(DeltaRule, BitsDependOnNeitherTheRestNorTheThreads) {
  const int threads = at::get_num_threads();
  for (const Case& c : cases()) {
    const Inputs in(c, kTokensOfAll);
    at::set_num_threads(1);
    const at::Tensor one = fused(in, c.shape);
    const Gradients one_back = fused_backward(in, c.shape);
    at::set_num_threads(3);
    EXPECT_TRUE(at::equal(fused(in, c.shape), one)) << c;
    const Gradients back = fused_backward(in, c.shape);
    EXPECT_TRUE(at::equal(back.in, one_back.in)) << c;
    EXPECT_TRUE(at::equal(back.weights.conv, one_back.weights.conv)) << c;
    EXPECT_TRUE(at::equal(back.weights.a_log, one_back.weights.a_log)) << c;
    EXPECT_TRUE(at::equal(back.weights.dt_bias, one_back.weights.dt_bias)) << c;
    EXPECT_TRUE(at::equal(back.weights.norm, one_back.weights.norm)) << c;
    for (const AttentionSegment& s : kSegments) {
      if (s.prefix != kNoSegment) continue;
      const std::int64_t n = s.end - s.begin;
      Inputs part = in;
      part.in = in.in.narrow(0, s.begin, n).clone();
      part.d = in.d.narrow(0, s.begin, n);
      EXPECT_TRUE(at::equal(fused(part, c.shape, {{0, n}}), one.narrow(0, s.begin, n)))
          << c << " " << s.begin;
      if (s.begin == 193 || s.begin == 336) continue;  // have followers
      const Gradients alone = fused_backward(part, c.shape, {{0, n}});
      EXPECT_TRUE(at::equal(alone.in, one_back.in.narrow(0, s.begin, n))) << c << " " << s.begin;
    }
  }
  at::set_num_threads(threads);
}

TEST(DeltaRule, EachLevelRoundsWhereTransformersDoes) {
  for (const Case& c : cases()) {
    const Inputs in(c, kTokensOfAll);
    const at::Tensor x = leaf(in.in);
    const at::Tensor wanted = expected(x, each(in.weights, to_double), c.shape, kSegments, rounding(c));
    (wanted * to_double(in.d)).sum().backward();
    for (const base::InstructionLevel level : base::kInstructionLevels) {
      if (!base::machine_has(level)) continue;
      const base::ForceInstructionLevel forced(level);
      expect_close(fused(in, c.shape), wanted, c, name_of(level));
      expect_close(fused_backward(in, c.shape).in, x.grad(), c, name_of(level));
    }
  }
}

// Decays from none to all, and a gate that is shut: S is rescaled, and nothing is divided by 0.
TEST(DeltaRule, StrongDecaysAndShutGates) {
  const Case c = cases()[1];
  Inputs in(c, 200);
  const std::int64_t v = c.shape.value_heads;
  in.in.narrow(1, c.shape.inputs() - v, v).mul_(60);
  in.in.narrow(1, c.shape.inputs() - 2 * v, v).mul_(200);
  in.weights.a_log.fill_(2.5);
  const std::vector<AttentionSegment> segments = {{0, 200}};
  const at::Tensor x = leaf(in.in);
  const at::Tensor wanted = expected(x, each(in.weights, to_double), c.shape, segments);
  (wanted * to_double(in.d)).sum().backward();
  expect_close(fused(in, c.shape, segments), wanted, c, "out");
  expect_close(fused_backward(in, c.shape, segments).in, x.grad(), c, "in");
  in.in.narrow(1, c.shape.inputs() - v, v).fill_(-100);  // no decay at all
  in.weights.a_log.fill_(-5);
  const at::Tensor kept = expected(to_double(in.in), each(in.weights, to_double), c.shape, segments);
  expect_close(fused(in, c.shape, segments), kept, c, "kept");
}

TEST(DeltaRule, NothingIsNothing) {
  const Case c = cases().front();
  const Inputs in(c, 5);
  const at::Tensor none = in.in.narrow(0, 0, 0);
  EXPECT_EQ(delta_rule(none, in.weights, c.shape, {}).sizes(),
            (std::vector<std::int64_t>{0, c.shape.values()}));
  at::Tensor out = at::empty({0, c.shape.values()}, none.options());
  delta_rule_into(out, none, in.weights, c.shape, {});
  delta_rule_into(out, none, in.weights, c.shape, {{0, 0}});
  delta_rule_backward(none.clone(), out, in.weights, c.shape, {{0, 0}}, {});
  DeltaState state(c.shape, c.taps, c.dtype);
  delta_rule_step(out, none, in.weights, c.shape, {{0, 0, nullptr, &state}});
  EXPECT_EQ(state.length(), 0);
  // an empty prefix, and an empty completion
  const std::vector<AttentionSegment> segments = {{0, 0}, {0, 2, 0}, {2, 2, 0}, {2, 5}};
  EXPECT_TRUE(at::equal(fused(in, c.shape, segments), fused(in, c.shape, {{0, 2}, {2, 5}})));
  EXPECT_TRUE(
      at::equal(fused_backward(in, c.shape, segments).in, fused_backward(in, c.shape, {{0, 2}, {2, 5}}).in));
  EXPECT_THROW(delta_rule(in.in.narrow(1, 0, 7), in.weights, c.shape, {{0, 5}}), base::InternalError);
}

TEST(DeltaState, CopiesAndGoesBackToTheBegin) {
  for (const Case& c : {cases()[0], cases()[4]}) {
    const Inputs in(c, 12);
    const auto step = [&](std::int64_t begin, std::int64_t end, DeltaState& state) {
      at::Tensor out = at::empty({end - begin, c.shape.values()}, in.in.options());
      delta_rule_step(out, in.in.narrow(0, begin, end - begin), in.weights, c.shape,
                      {{0, end - begin, nullptr, &state}});
      return out;
    };
    DeltaState state(c.shape, c.taps, c.dtype);
    EXPECT_EQ(state.bytes(), DeltaState::bytes(c.shape, c.taps, c.dtype));
    const at::Tensor first = step(0, 7, state);
    DeltaState copy = state.clone();
    const at::Tensor second = step(7, 12, state);
    EXPECT_EQ(copy.length(), 7);
    EXPECT_EQ(state.length(), 12);
    EXPECT_TRUE(at::equal(step(7, 12, copy), second));
    EXPECT_TRUE(state.can_truncate(12) && state.can_truncate(0));
    EXPECT_FALSE(state.can_truncate(11) || state.can_truncate(13));
    EXPECT_THROW(state.truncate(11), base::InternalError);
    state.truncate(12);
    EXPECT_EQ(state.length(), 12);
    state.truncate(0);
    EXPECT_EQ(state.length(), 0);
    EXPECT_TRUE(at::equal(step(0, 7, state), first));
    EXPECT_EQ(copy.length(), 12);
  }
  EXPECT_EQ(DeltaState().length(), 0);
  EXPECT_EQ(DeltaState().bytes(), 0);
}

}  // namespace delta_rule_test
}  // namespace hone::ops
