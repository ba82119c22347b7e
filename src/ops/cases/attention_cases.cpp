#include "ops/cases/case.h"
#include "ops/cases/segments.h"

#include <cmath>
#include <deque>

namespace hone::ops::cases {
namespace attention_cases {

struct Attention {
  std::int64_t heads, kv_heads, dim;
  at::ScalarType dtype;
  Segments segments;
  AttentionRule rule = {};
};
using Shared = std::shared_ptr<const Attention>;

// [T, heads, D] each, slices of a buffer as a layer has them.
struct Inputs {
  Inputs(const Attention& c, at::Device device) {
    const std::int64_t tokens = tokens_of(c.segments);
    const at::Tensor concat = noise({tokens, (c.heads + 2 * c.kv_heads) * c.dim}, 1, c.dtype).to(device);
    const auto part = [&](std::int64_t from, std::int64_t heads) {
      return concat.narrow(1, from * c.dim, heads * c.dim).unflatten(1, {heads, c.dim});
    };
    q = part(0, c.heads);
    k = part(c.heads, c.kv_heads);
    v = part(c.heads + c.kv_heads, c.kv_heads);
    d = noise({tokens, c.heads * c.dim}, 2, c.dtype).to(device);
  }
  at::Tensor q, k, v, d;
};

// out and lse of one sequence in fp64; the queries are its last.
std::pair<at::Tensor, at::Tensor> attended(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                           const AttentionRule& rule) {
  const std::int64_t n = q.size(0), length = k.size(0), group = q.size(1) / k.size(1);
  const at::Tensor keys = k.repeat_interleave(group, 1).permute({1, 2, 0});
  const at::Tensor values = v.repeat_interleave(group, 1).transpose(0, 1);
  const double scale = rule.scale > 0 ? rule.scale : 1 / std::sqrt(static_cast<double>(q.size(2)));
  at::Tensor scores = q.transpose(0, 1).matmul(keys) * scale;
  if (rule.soft_cap > 0) scores = (scores / rule.soft_cap).tanh() * rule.soft_cap;
  at::Tensor seen = at::ones({n, length}, at::kBool).tril(length - n);
  if (rule.window > 0)
    seen = seen.logical_and(at::ones({n, length}, at::kBool).triu(length - n - rule.window + 1));
  scores = scores.masked_fill(seen.logical_not(), -INFINITY);
  return {at::softmax(scores, -1).matmul(values).transpose(0, 1).reshape({n, -1}),
          at::logsumexp(scores, -1).transpose(0, 1)};
}

at::Tensor defined_by(const Attention& c, const Tensors& t, bool lse) {  // q, k, v
  return of_sequences(c.segments, [&](const AttentionSegment& s) {
    const auto [out, sums] = attended(t[0].slice(0, s.begin, s.end), with_prefix(t[1], c.segments, s),
                                      with_prefix(t[2], c.segments, s), c.rule);
    return lse ? sums : out;
  });
}

Tensors leaves(const Inputs& in) {
  return {wide(in.q), wide(in.k), wide(in.v)};
}

// Keys and values of all segments, in this device's layout: in one pool where it has them.
std::deque<KvTiles> tiles_of(const Attention& c, const Inputs& in, at::Device device) {
  std::deque<KvTiles> tiles;
  const auto pool = make_kv_pool(c.kv_heads, c.dim, c.dtype, device);
  for (const AttentionSegment& s : c.segments) {
    if (pool != nullptr) {
      tiles.emplace_back(c.kv_heads, c.dim, 1, pool);
    } else {
      tiles.emplace_back(c.kv_heads, c.dim, c.dtype, 1, device);
    }
    tiles.back().append(in.k.slice(0, s.begin, s.end), in.v.slice(0, s.begin, s.end));
  }
  return tiles;
}

std::vector<const KvTiles*> before(const AttentionSegment& s, const std::deque<KvTiles>& tiles) {
  if (s.prefix == kNoSegment) return {};
  return {&tiles[static_cast<std::size_t>(s.prefix)]};
}

// All rows in one call, and strided.
Tensors at_once(const Attention& c, at::Device device) {
  const Inputs in(c, device);
  const std::deque<KvTiles> tiles = tiles_of(c, in, device);
  const Placed out(unwritten(in.d.sizes(), c.dtype), device, Layout::kStrided);
  const at::Tensor lse = unwritten({in.d.size(0), c.heads}, at::kFloat).to(device);
  std::vector<AttentionRows> rows;
  for (std::size_t i = 0; i < c.segments.size(); ++i) {
    const AttentionSegment& s = c.segments[i];
    rows.push_back({s.begin, s.end, before(s, tiles), &tiles[i], 0});
  }
  attend_tiles(out.view(), lse, in.q, rows, c.rule);
  return {out.taken(), lse.cpu()};
}

// In calls of 1, 2, ... 11 and again 1 row, of one segment each.
Tensors in_pieces(const Attention& c, at::Device device) {
  const Inputs in(c, device);
  const std::deque<KvTiles> tiles = tiles_of(c, in, device);
  std::vector<at::Tensor> outs, sums;
  for (std::size_t i = 0; i < c.segments.size(); ++i) {
    const AttentionSegment& s = c.segments[i];
    for (std::int64_t t = s.begin, n = 1; t < s.end; t += n, n = n % 11 + 1) {
      const std::int64_t count = std::min(n, s.end - t);
      outs.push_back(at::empty({count, c.heads * c.dim}, in.d.options()));
      sums.push_back(at::empty({count, c.heads}, in.d.options().dtype(at::kFloat)));
      attend_tiles(outs.back(), sums.back(), in.q.narrow(0, t, count),
                   {{0, count, before(s, tiles), &tiles[i], t - s.begin}}, c.rule);
    }
  }
  return {at::cat(outs).cpu(), at::cat(sums).cpu()};
}

// As a layer of a training pass calls it.
Tensors packed(const Attention& c, at::Device device) {
  const Inputs in(c, device);
  const Placed out(unwritten(in.d.sizes(), c.dtype), device, Layout::kStrided);
  const at::Tensor lse = unwritten({in.d.size(0), c.heads}, at::kFloat).to(device);
  attend_packed(out.view(), lse, in.q, in.k, in.v, c.segments, c.rule);
  return {out.taken(), lse.cpu()};
}

std::string what(const Attention& c) {
  std::string out = std::to_string(c.heads) + " and " + std::to_string(c.kv_heads) + " heads of " +
                    std::to_string(c.dim) + ", " + describe(c.dtype) + ", " + describe(c.segments);
  if (c.rule.window > 0) out += ", window " + std::to_string(c.rule.window);
  if (c.rule.soft_cap > 0) out += ", soft cap";
  return out;
}

Case forward(const Shared& c) {
  Case one{.op = "attend_tiles", .what = what(*c), .bounds = {bound_of(c->dtype, 1e-5, 1e-2), 1e-5}};
  one.run = [c](at::Device device) { return at_once(*c, device); };
  one.exact = [c] {
    const Tensors t = leaves(Inputs(*c, at::kCPU));
    return Tensors{defined_by(*c, t, false), defined_by(*c, t, true)};
  };
  one.own_bits_from = base::InstructionLevel::kPlain;
  one.otherwise = [c](at::Device device) { return in_pieces(*c, device); };
  if (c->dtype == at::kBFloat16) one.levels = SameBits::kAvx2AndAvx512;
  return one;
}

// On the CPU by the tiles of the call: bit by bit what attend_tiles() gives.
Case forward_of_packed(const Shared& c) {
  Case one = forward(c);
  one.op = "attend_packed";
  one.run = [c](at::Device device) { return packed(*c, device); };
  one.otherwise = [c](at::Device device) { return at_once(*c, device); };
  return one;
}

// ---- gradients; out and lse are the definition's, rounded, so that no other operator is in it

struct Gradients {
  at::Tensor q, k, v;
};

Gradients back(const Attention& c, const Inputs& in, const at::Tensor& out, const at::Tensor& lse,
               const Segments& segments) {
  const at::Tensor concat =
      unwritten({in.q.size(0), (c.heads + 2 * c.kv_heads) * c.dim}, c.dtype).to(in.q.device());
  const auto part = [&](std::int64_t from, std::int64_t heads) {
    return concat.narrow(1, from * c.dim, heads * c.dim).unflatten(1, {heads, c.dim});
  };
  const Gradients g{part(0, c.heads), part(c.heads, c.kv_heads), part(c.heads + c.kv_heads, c.kv_heads)};
  packed_attention_backward(g.q, g.k, g.v, in.d, in.q, in.k, in.v, out, lse, segments, c.rule);
  return g;
}

Tensors groups_apart(const Attention& c, at::Device device, bool apart) {
  const Inputs in(c, device);
  const Tensors t = leaves(Inputs(c, at::kCPU));
  const at::Tensor out = defined_by(c, t, false).to(c.dtype).to(device);
  const at::Tensor lse = defined_by(c, t, true).to(at::kFloat).contiguous().to(device);
  std::vector<at::Tensor> found[3];
  const std::vector<Group> groups =
      apart ? groups_of(c.segments) : std::vector<Group>{{0, tokens_of(c.segments), c.segments}};
  for (const Group& group : groups) {
    const auto part = [&](const at::Tensor& x) { return x.slice(0, group.begin, group.end); };
    Inputs some = in;
    for (at::Tensor* x : {&some.q, &some.k, &some.v, &some.d}) *x = part(*x);
    const Gradients g = back(c, some, part(out), part(lse), group.segments);
    found[0].push_back(g.q.cpu());
    found[1].push_back(g.k.cpu());
    found[2].push_back(g.v.cpu());
  }
  return {at::cat(found[0]), at::cat(found[1]), at::cat(found[2])};
}

Case backward(const Shared& c) {
  Case one{.op = "attention_backward", .what = what(*c), .bounds = {bound_of(c->dtype, 1e-5, 2e-2)}};
  one.run = [c](at::Device device) { return groups_apart(*c, device, false); };
  one.exact = [c] {
    const Inputs in(*c, at::kCPU);
    const auto f = [&](const Tensors& t) { return defined_by(*c, t, false); };
    return gradients(f, leaves(in), in.d);
  };
  if (c->dtype == at::kBFloat16 && c->dim % 16 == 0) {  // the others are libtorch's products
    one.own_bits_from = base::InstructionLevel::kAvx2;
    one.otherwise = [c](at::Device device) { return groups_apart(*c, device, true); };
  }
  return one;
}

// Heads of families and others, lengths around a tile's 64.
std::vector<Shared> shapes() {
  const Segments packed = {{0, 1}, {1, 64}, {64, 129}, {129, 199}, {199, 201, 3}, {201, 266, 3}};
  std::vector<Shared> all;
  const auto add = [&](const Attention& c) { all.push_back(std::make_shared<const Attention>(c)); };
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    add({14, 2, 64, dtype, packed});
    add({4, 2, 96, dtype, {{0, 130}}});
    add({3, 1, 80, dtype, packed});
    add({4, 1, 128, dtype, {{0, 64}, {64, 129}}});
    add({2, 1, 256, dtype, {{0, 70}}});
    add({2, 1, 20, dtype, packed});
    add({4, 4, 16, dtype, {{0, 257}}});
    add({6, 2, 32, dtype, packed, {.window = 50}});
    add({6, 2, 32, dtype, {{0, 200}}, {.window = 64, .scale = 0.3, .soft_cap = 1.5}});
    add({2, 2, 64, dtype, packed, {.soft_cap = 2}});
  }
  return all;
}

}  // namespace attention_cases

void add_attention_cases(Cases& all) {
  for (const attention_cases::Shared& c : attention_cases::shapes())
    all.push_back(attention_cases::forward(c));
  all.push_back(attention_cases::forward(std::make_shared<const attention_cases::Attention>(
      attention_cases::Attention{3, 1, 512, at::kBFloat16, {{0, 2}}})));
}

void add_packed_attention_cases(Cases& all) {
  for (const attention_cases::Shared& c : attention_cases::shapes())
    all.push_back(attention_cases::forward_of_packed(c));
}

void add_attention_backward_cases(Cases& all) {
  for (const attention_cases::Shared& c : attention_cases::shapes())
    all.push_back(attention_cases::backward(c));
}

}  // namespace hone::ops::cases
