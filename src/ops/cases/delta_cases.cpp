// By definition: the differentiable form (transformers' chunks), in fp64. tests/ops/delta_rule_test.cpp holds
// that form against the recurrence, token by token.
#include "ops/cases/case.h"
#include "ops/cases/segments.h"
#include "ops/delta_rule.h"

namespace hone::ops::cases {
namespace delta_cases {

struct Delta {
  DeltaShape shape;
  std::int64_t taps;
  at::ScalarType dtype;
  bool wide_norm;  // the norm in fp32
  Segments segments;
};
using Shared = std::shared_ptr<const Delta>;

struct Inputs {
  Inputs(const Delta& c, at::Device device) {
    const auto some = [&](at::IntArrayRef shape, std::uint64_t seed) { return noise(shape, seed, c.dtype); };
    const std::int64_t tokens = tokens_of(c.segments), heads = c.shape.value_heads;
    in = some({tokens, c.shape.inputs()}, 1).to(device);
    d = some({tokens, c.shape.values()}, 2).to(device);
    weights.conv = (some({c.shape.channels(), 1, c.taps}, 3) * 0.5).to(device);
    weights.a_log = some({heads}, 4).to(device);
    weights.dt_bias = (some({heads}, 5) - 2).to(device);
    weights.norm = noise({c.shape.value_dim}, 6, c.wide_norm ? at::kFloat : c.dtype).to(device);
  }
  at::Tensor in, d;
  DeltaWeights weights;
};

at::Tensor defined_by(const Delta& c, const Tensors& t) {  // in, conv, a_log, dt_bias, norm
  const DeltaWeights weights{t[1], t[2], t[3], t[4]};
  return of_sequences(c.segments, [&](const AttentionSegment& s) {
    const at::Tensor rows = with_prefix(t[0], c.segments, s);
    return delta_rule(rows, weights, c.shape, {{0, rows.size(0)}});
  });
}

Tensors leaves(const Inputs& in) {
  return {wide(in.in), wide(in.weights.conv), wide(in.weights.a_log), wide(in.weights.dt_bias),
          wide(in.weights.norm)};
}

// In steps of `piece` tokens, one call for all sequences that have some left.
Tensors stepped(const Delta& c, std::int64_t piece, at::Device device) {
  const Inputs in(c, device);
  const at::Tensor out = unwritten({in.in.size(0), c.shape.values()}, c.dtype).to(device);
  std::vector<DeltaState> states;
  std::int64_t longest = 0;
  for (const AttentionSegment& s : c.segments) {
    states.emplace_back(c.shape, c.taps, c.dtype, device);
    longest = std::max(longest, s.end - s.begin);
  }
  for (const bool follows : {false, true}) {
    for (std::int64_t done = 0; done < longest; done += piece) {
      std::vector<DeltaStep> steps;
      std::vector<at::Tensor> rows;
      std::vector<std::int64_t> places;
      std::int64_t total = 0;
      for (std::size_t i = 0; i < c.segments.size(); ++i) {
        const AttentionSegment& s = c.segments[i];
        const std::int64_t n = std::min(piece, s.end - s.begin - done);
        if ((s.prefix != kNoSegment) != follows || n <= 0) continue;
        steps.push_back(
            {total, total + n, follows ? &states[static_cast<std::size_t>(s.prefix)] : nullptr, &states[i]});
        rows.push_back(in.in.narrow(0, s.begin + done, n));
        places.push_back(s.begin + done);
        total += n;
      }
      if (steps.empty()) continue;
      const at::Tensor some = at::empty({total, c.shape.values()}, in.in.options());
      delta_rule_step(some, at::cat(rows), in.weights, c.shape, steps);
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const std::int64_t n = steps[i].end - steps[i].begin;
        out.narrow(0, places[i], n).copy_(some.narrow(0, steps[i].begin, n));
      }
    }
  }
  return {out.cpu()};
}

Tensors passed(const Delta& c, at::Device device) {
  const Inputs in(c, device);
  const at::Tensor out = unwritten({in.in.size(0), c.shape.values()}, c.dtype).to(device);
  delta_rule_into(out, in.in, in.weights, c.shape, c.segments);
  return {out.cpu()};
}

std::string what(const Delta& c) {
  return std::to_string(c.shape.key_heads) + " and " + std::to_string(c.shape.value_heads) + " heads of " +
         std::to_string(c.shape.key_dim) + " and " + std::to_string(c.shape.value_dim) + ", " +
         std::to_string(c.taps) + " taps, " + describe(c.dtype) + ", " + describe(c.segments);
}

Case made(const char* op, const Shared& c) {
  Case one{.op = op, .what = what(*c), .bounds = {bound_of(c->dtype, 1e-5, 3e-2)}};
  one.exact = [c] { return Tensors{defined_by(*c, leaves(Inputs(*c, at::kCPU)))}; };
  if (c->dtype == at::kDouble) return one;
  one.own_bits_from = base::InstructionLevel::kPlain;
  one.levels = SameBits::kFromAvx2;
  return one;
}

Case forward(const Shared& c) {
  Case one = made("delta_rule", c);
  one.run = [c](at::Device device) { return passed(*c, device); };
  if (one.own_bits_from) {
    one.otherwise = [c](at::Device device) {  // each group alone
      const Inputs in(*c, device);
      std::vector<at::Tensor> out;
      for (const Group& group : groups_of(c->segments)) {
        const at::Tensor rows = in.in.slice(0, group.begin, group.end).clone();
        out.push_back(at::empty({rows.size(0), c->shape.values()}, rows.options()));
        delta_rule_into(out.back(), rows, in.weights, c->shape, group.segments);
      }
      return Tensors{at::cat(out).cpu()};
    };
  }
  return one;
}

Case step(const Shared& c) {
  Case one = made("delta_rule_step", c);
  one.run = [c](at::Device device) { return stepped(*c, 3, device); };
  if (one.own_bits_from) one.otherwise = [c](at::Device device) { return stepped(*c, 70, device); };
  return one;
}

Tensors back(const Delta& c, const at::Tensor& in, const at::Tensor& d, const DeltaWeights& weights,
             const Segments& segments) {
  const at::Tensor own = in.clone();
  const auto ones = [](const at::Tensor& like) {  // added to
    return at::ones(like.sizes(), like.options().dtype(at::kFloat));
  };
  const DeltaGradients g{ones(weights.conv), ones(weights.a_log), ones(weights.dt_bias), ones(weights.norm)};
  delta_rule_backward(own, d, weights, c.shape, segments, g);
  Tensors out{own.cpu()};
  for (const at::Tensor& x : {g.conv, g.a_log, g.dt_bias, g.norm}) out.push_back(x.cpu() - 1);
  return out;
}

Case backward(const Shared& c) {
  Case one = made("delta_rule_backward", c);
  // The weights' gradients are fp32; of bf16 they are sums over all tokens' roundings.
  one.bounds = {bound_of(c->dtype, 1e-5, 3e-2), c->dtype == at::kBFloat16 ? 5e-2 : 1e-5};
  one.run = [c](at::Device device) {
    const Inputs in(*c, device);
    return back(*c, in.in, in.d, in.weights, c->segments);
  };
  one.exact = [c] {
    const Inputs in(*c, at::kCPU);
    return gradients([&](const Tensors& t) { return defined_by(*c, t); }, leaves(in), in.d);
  };
  if (one.own_bits_from) {
    one.otherwise = [c](at::Device device) {
      const Inputs in(*c, device);
      std::vector<at::Tensor> out;
      for (const Group& group : groups_of(c->segments)) {
        const auto part = [&](const at::Tensor& x) { return x.slice(0, group.begin, group.end).clone(); };
        out.push_back(back(*c, part(in.in), part(in.d), in.weights, group.segments)[0]);
      }
      return Tensors{at::cat(out)};
    };
  }
  return one;
}

}  // namespace delta_cases

void add_delta_cases(Cases& all) {
  using namespace delta_cases;
  const Segments packed = {{0, 1},        {1, 64},       {64, 129},    {129, 199},
                           {199, 201, 3}, {201, 266, 3}, {266, 267, 3}};
  const auto shape = [](std::int64_t keys, std::int64_t values, std::int64_t key_dim,
                        std::int64_t value_dim) {
    return DeltaShape{.key_heads = keys, .value_heads = values, .key_dim = key_dim, .value_dim = value_dim};
  };
  for (const Delta& c : {Delta{shape(2, 2, 16, 16), 4, at::kFloat, false, packed},
                         Delta{shape(1, 2, 24, 40), 3, at::kFloat, false, packed},
                         Delta{shape(1, 2, 128, 128), 4, at::kFloat, false, {{0, 65}}},
                         Delta{shape(2, 4, 32, 64), 4, at::kBFloat16, false, packed},
                         Delta{shape(2, 2, 20, 72), 5, at::kBFloat16, true, packed},
                         Delta{shape(1, 1, 16, 16), 1, at::kFloat, false, {{0, 1}}},
                         Delta{shape(2, 4, 36, 20), 1, at::kDouble, false, packed}}) {
    const auto shared = std::make_shared<const Delta>(c);
    all.push_back(forward(shared));
    if (c.dtype != at::kDouble) all.push_back(step(shared));  // a state is fp32
    all.push_back(backward(shared));
  }
}

}  // namespace hone::ops::cases
