#include "doctor/probes/machine/kernel_check.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/error.h"
#include "ops/attention.h"
#include "ops/fused_linear.h"
#include "ops/head/linear_logprob.h"
#include "ops/join/join.h"
#include "ops/kept_ggml.h"
#include "ops/machine/device_memory.h"

namespace hone::doctor {

namespace {

constexpr double kScale = 2;              // of the LoRA side
constexpr std::int64_t kChunk = 1 << 14;  // rows of a matrix in fp32 at a time

at::ScalarType dtype_of(const KernelShape& s) {
  return s.bf16 ? at::kBFloat16 : at::kFloat;
}

// Uniform in [-size, size), a function of seed and place.
at::Tensor noise(std::int64_t rows, std::int64_t columns, at::ScalarType dtype, std::uint64_t seed,
                 double size = 1) {
  at::Tensor out = at::empty({rows, columns}, dtype);
  for (std::int64_t begin = 0; begin < rows; begin += kChunk) {
    const std::int64_t n = std::min(kChunk, rows - begin);
    at::Tensor part = at::empty({n, columns}, at::kFloat);
    float* values = part.mutable_data_ptr<float>();
    at::parallel_for(0, n * columns, 1 << 16, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        std::uint64_t x =
            (static_cast<std::uint64_t>(begin * columns + i) + (seed << 40)) * 0x9E3779B97F4A7C15;
        x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9;
        x ^= x >> 32;
        const auto unit = static_cast<double>(x & 0xFFFFFF) / 0x800000 - 1.0;
        values[i] = static_cast<float>(unit * size);
      }
    });
    out.narrow(0, begin, n).copy_(part);
  }
  return out;
}

double matrix_size(std::int64_t in) {
  return std::sqrt(3.0 / static_cast<double>(std::max<std::int64_t>(1, in)));  // variance 1 / in
}

// The worst result so far, each relative to its largest right value.
struct Worst {
  double error = 0, mine = 0, wanted = 0;
  void add(const at::Tensor& values, const at::Tensor& right) {
    const at::Tensor found = values.detach().cpu().to(at::kFloat), expected = right.detach().to(at::kFloat);
    const at::Tensor off = found.sub(expected).abs().nan_to_num(std::numeric_limits<float>::infinity());
    const double share = off.max().item<double>() / std::max(expected.abs().max().item<double>(), 1e-6);
    const bool finite = found.isfinite().all().item<bool>();
    if (finite && share <= error) return;
    error = finite ? share : std::numeric_limits<double>::infinity();
    const at::Tensor place = off.reshape({-1}).argmax();
    mine = found.reshape({-1})[place.item<std::int64_t>()].item<double>();
    wanted = expected.reshape({-1})[place.item<std::int64_t>()].item<double>();
  }
};

// The first, the last and some between: what a tile, a thread or a tail may get wrong.
at::Tensor sample_rows(std::int64_t m) {
  std::vector<std::int64_t> rows;
  for (const std::int64_t at : {std::int64_t{0}, std::int64_t{1}, m / 3, m / 2, m - 2, m - 1}) {
    if (at >= 0 && at < m && (rows.empty() || rows.back() < at)) rows.push_back(at);
  }
  return at::tensor(rows, at::kLong);
}

at::Tensor rows_of(const at::Tensor& x, const at::Tensor& rows) {
  return x.index_select(0, rows.to(x.device()));
}

constexpr ops::QuantScheme kSchemes[] = {{ops::QuantType::kNf4, false},
                                         {ops::QuantType::kNf4, true},
                                         {ops::QuantType::kFp4, false},
                                         {ops::QuantType::kFp4, true},
                                         {ops::QuantType::kInt8, false}};

constexpr ops::QuantType kKeptTypes[] = {ops::QuantType::kQ4_0, ops::QuantType::kQ5_0, ops::QuantType::kQ8_0,
                                         ops::QuantType::kQ4_K, ops::QuantType::kQ5_K, ops::QuantType::kQ6_K};

ops::QuantScheme scheme_of(const std::string& words) {
  for (const ops::QuantScheme& one : kSchemes) {
    if (ops::describe(one) == words) return one;
  }
  throw base::InternalError({"check_kernel", "a scheme that it knows", words, "", ""});
}

// On the device; `plain` is the host's.
ops::Weight weight_of(const at::Tensor& plain, const KernelShape& s, at::Device device) {
  const auto quantized = [&](const ops::Quantized& matrix) {
    return ops::Weight::quantized(
        std::make_shared<const ops::Quantized>(ops::is_host(device) ? matrix : matrix.to(device)),
        dtype_of(s));
  };
  for (const ops::QuantType type : kKeptTypes)
    if (s.quantized == ops::describe({.type = type})) return quantized(ops::sample_ggml(plain, type));
  if (!s.quantized.empty()) return quantized(ops::quantize(plain, scheme_of(s.quantized), "probe"));
  const at::Tensor placed = plain.to(device);
  return s.packed ? ops::Weight::packed_where_possible(placed) : ops::Weight(placed);
}

// Inputs are the host's, but for what `linear` holds.
struct LinearCase {
  ops::Linear linear;
  at::Tensor plain, x, d_out;  // [out, in], [m, in], [m, out]
  at::Tensor bias;             // [out] or undefined
  at::Tensor a, b;             // in the GEMM's numbers, as fp32
  at::Tensor rows;
};

LinearCase make_linear(const KernelShape& s, at::Device device) {
  const at::ScalarType dtype = dtype_of(s);
  LinearCase c;
  c.plain = noise(s.out, s.in, dtype, 1, matrix_size(s.in));
  c.linear.name = "probe";
  c.linear.weight = weight_of(c.plain, s, device);
  if (c.linear.weight.is_quantized()) c.plain = c.linear.weight.dense().cpu();  // a number at a time
  if (s.bias) c.bias = noise(1, s.out, dtype, 2).view({s.out});
  if (s.bias) c.linear.bias = c.bias.to(device);
  c.x = noise(s.m, s.in, dtype, 3);
  c.d_out = noise(s.m, s.out, dtype, 4);
  c.rows = sample_rows(s.m);
  if (s.rank == 0) return c;
  ops::LoraWeights side;
  side.a = noise(s.rank, s.in, at::kFloat, 5, matrix_size(s.in));
  side.b = noise(s.out, s.rank, at::kFloat, 6, matrix_size(s.rank));
  side.scale = kScale;
  c.a = side.a.to(dtype).to(at::kFloat);
  c.b = side.b.to(dtype).to(at::kFloat);
  for (at::Tensor* leaf : {&side.a, &side.b}) {
    *leaf = leaf->to(device);
    leaf->set_requires_grad(true);
    leaf->mutable_grad() = at::zeros_like(*leaf);
  }
  c.linear.lora = std::move(side);
  return c;
}

void compare_forward(const LinearCase& c, const at::Tensor& out, Worst& worst) {
  const at::Tensor x = c.x.index_select(0, c.rows).to(at::kFloat);
  at::Tensor right = x.mm(c.plain.to(at::kFloat).t());
  if (c.bias.defined()) right = right + c.bias.to(at::kFloat);
  if (c.linear.lora) right = right + x.mm(c.a.t()).mm(c.b.t()) * kScale;
  worst.add(rows_of(out, c.rows), right);
}

void compare_backward(const LinearCase& c, const at::Tensor& dx, Worst& worst) {
  const at::Tensor d = c.d_out.to(at::kFloat), some = d.index_select(0, c.rows);
  at::Tensor right = some.mm(c.plain.to(at::kFloat));
  if (c.linear.lora) {
    const at::Tensor x = c.x.to(at::kFloat);
    right = right + some.mm(c.b).mm(c.a) * kScale;
    worst.add(c.linear.lora->a.grad(), d.mm(c.b).t().mm(x) * kScale);
    worst.add(c.linear.lora->b.grad(), d.t().mm(x.mm(c.a.t())) * kScale);
  }
  worst.add(rows_of(dx, c.rows), right);
}

void check_linear(const KernelShape& s, bool backward, at::Device device, Worst& worst) {
  LinearCase c = make_linear(s, device);
  const ops::PassContext pass;
  if (s.autograd) {
    const at::AutoGradMode grad(true);
    const at::Tensor x = c.x.clone().to(device).set_requires_grad(true);
    const at::Tensor out = ops::linear_forward(c.linear, x, pass);
    if (backward) out.backward(c.d_out.to(device));
    const at::NoGradGuard no_grad;
    compare_forward(c, out, worst);
    if (backward) compare_backward(c, x.grad(), worst);
    return;
  }
  const at::NoGradGuard no_grad;
  ops::Linear* const one = &c.linear;
  ops::Join::make({&one, 1});  // the product that a layer has there
  const auto placed = [&](const at::Tensor& rows, auto&& make) {
    return make({&c.linear, 1}, s.m, rows.options().device(device)).copy_(rows);
  };
  const at::Tensor x = placed(c.x, ops::input_rows), d_out = placed(c.d_out, ops::output_rows);
  const at::Tensor lora_a_out = ops::lora_a_forward(c.linear, x, pass);
  at::Tensor out = at::empty_like(c.d_out, device);
  ops::linear_into(out, c.linear, x, lora_a_out, pass);
  compare_forward(c, out, worst);
  if (!backward) return;
  at::Tensor dx = at::empty_like(c.x, device);
  const ops::LinearGradient gradient{&c.linear, d_out, lora_a_out};
  ops::linears_backward(dx, {&gradient, 1}, x, pass);
  compare_backward(c, dx, worst);
}

// Log-probabilities and their gradients of a few rows, the matrix in chunks of fp32.
void check_head_kernels(const KernelShape& s, at::Device device, Worst& worst) {
  const at::NoGradGuard no_grad;
  const at::Tensor plain = noise(s.out, s.in, dtype_of(s), 1, 2 * matrix_size(s.in));
  const at::Tensor hidden = noise(s.m, s.in, dtype_of(s), 2);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(s.m));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * 7919) % s.out;
  const at::Tensor targets = at::tensor(ids, at::kLong);
  const at::Tensor rows = sample_rows(s.m);
  const at::Tensor h = hidden.index_select(0, rows).to(at::kFloat);
  std::vector<at::Tensor> parts;
  for (std::int64_t begin = 0; begin < s.out; begin += kChunk)
    parts.push_back(h.mm(plain.slice(0, begin, std::min(s.out, begin + kChunk)).to(at::kFloat).t()));
  const at::Tensor logits = at::cat(parts, 1);
  if (s.autograd) {
    worst.add(rows_of(at::linear(hidden.to(device), plain.to(device)), rows), logits);
    return;
  }
  const ops::Weight head = weight_of(plain, s, device);
  const ops::TokenLogprobs found =
      ops::linear_logprob(hidden.to(device), head, targets.to(device), {.gradient = true});
  const at::Tensor some = targets.index_select(0, rows).unsqueeze(1);
  const at::Tensor logprobs = at::log_softmax(logits, 1);
  worst.add(rows_of(found.logprob, rows), logprobs.gather(1, some).squeeze(1));
  at::Tensor right = plain.index_select(0, some.squeeze(1)).to(at::kFloat);
  const at::Tensor p = logprobs.exp();
  for (std::int64_t begin = 0; begin < s.out; begin += kChunk) {
    const std::int64_t end = std::min(s.out, begin + kChunk);
    right = right - p.slice(1, begin, end).mm(plain.slice(0, begin, end).to(at::kFloat));
  }
  worst.add(rows_of(found.gradient, rows), right);
  worst.add(ops::head_logits(hidden.index_select(0, rows).contiguous().to(device), head), logits);
}

struct ConcatQkv {
  at::Tensor q, k, v;  // slices of one buffer, as the layer has them
};

ConcatQkv make_concat(const KernelShape& s, std::int64_t tokens, at::Device device = at::kCPU) {
  const std::int64_t n = s.heads, k = s.kv_heads, d = s.head_dim;
  const at::Tensor all = noise(tokens, (n + 2 * k) * d, dtype_of(s), 1).to(device);
  const auto part = [&](std::int64_t from, std::int64_t heads) {
    return all.narrow(1, from * d, heads * d).unflatten(1, {heads, d});
  };
  return {part(0, n), part(n, k), part(n + k, k)};
}

// Around the edges of a tile, the run's own length, and completions after a shared prompt.
std::vector<ops::AttentionSegment> segments_of(const KernelShape& s) {
  std::vector<ops::AttentionSegment> out;
  const auto add = [&out](std::int64_t length, std::int64_t prefix) {
    const std::int64_t begin = out.empty() ? 0 : out.back().end;
    if (length > 0) out.push_back({begin, begin + length, prefix});
  };
  for (const std::int64_t length :
       {std::int64_t{1}, ops::kKvTile - 1, ops::kKvTile, ops::kKvTile + 1, s.segment})
    add(length, ops::kNoSegment);
  if (s.prefix > 0 && !s.autograd) {
    add(s.prefix, ops::kNoSegment);
    const auto shared = static_cast<std::int64_t>(out.size()) - 1;
    for (int i = 0; i < 3; ++i) add(17, shared);
  }
  return out;
}

// libtorch in fp32 under autograd, segment by segment; rows of a prefix stand before their followers' and are
// dropped.
at::Tensor right_attention(const ConcatQkv& x, const std::vector<ops::AttentionSegment>& segments) {
  std::vector<at::Tensor> out;
  for (const ops::AttentionSegment& s : segments) {
    const auto rows = [&](const at::Tensor& t) {
      const at::Tensor own = t.slice(0, s.begin, s.end);
      if (s.prefix == ops::kNoSegment) return own;
      const ops::AttentionSegment& before = segments[static_cast<std::size_t>(s.prefix)];
      return at::cat({t.slice(0, before.begin, before.end), own});
    };
    const at::Tensor q = rows(x.q);
    const at::Tensor all = ops::packed_attention(q, rows(x.k), rows(x.v), {{0, q.size(0)}});
    out.push_back(all.slice(0, q.size(0) - (s.end - s.begin)));
  }
  return at::cat(out);
}

ConcatQkv leaves_of(const ConcatQkv& x, at::ScalarType dtype, at::Device device = at::kCPU) {
  const auto leaf = [=](const at::Tensor& t) {
    return t.detach().to(dtype).clone().to(device).set_requires_grad(true);
  };
  return {leaf(x.q), leaf(x.k), leaf(x.v)};
}

void check_attention(const KernelShape& s, at::Device device, Worst& worst) {
  const std::vector<ops::AttentionSegment> segments = segments_of(s);
  const std::int64_t tokens = segments.back().end;
  const ConcatQkv x = make_concat(s, tokens);
  const at::Tensor d_out = noise(tokens, s.heads * s.head_dim, dtype_of(s), 2);
  const at::AutoGradMode grad(true);
  const ConcatQkv right = leaves_of(x, at::kFloat);
  const at::Tensor right_out = right_attention(right, segments);
  right_out.backward(d_out.to(at::kFloat));
  if (s.autograd) {
    const ConcatQkv mine = leaves_of(x, dtype_of(s), device);
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    for (const ops::AttentionSegment& one : segments) pairs.emplace_back(one.begin, one.end);
    const at::Tensor out = ops::packed_attention(mine.q, mine.k, mine.v, pairs);
    out.backward(d_out.to(device));
    worst.add(out, right_out);
    worst.add(mine.q.grad(), right.q.grad());
    worst.add(mine.k.grad(), right.k.grad());
    worst.add(mine.v.grad(), right.v.grad());
    return;
  }
  const at::NoGradGuard no_grad;
  const ConcatQkv mine = make_concat(s, tokens, device);
  ConcatQkv gradient = make_concat(s, tokens, device);
  const at::Tensor out = at::empty_like(d_out, device);
  const at::Tensor lse = at::empty({tokens, s.heads}, at::TensorOptions(device).dtype(at::kFloat));
  ops::attend_packed(out, lse, mine.q, mine.k, mine.v, segments);
  ops::packed_attention_backward(gradient.q, gradient.k, gradient.v, d_out.to(device), mine.q, mine.k, mine.v,
                                 out, lse, segments);
  worst.add(out, right_out);
  worst.add(gradient.q, right.q.grad());
  worst.add(gradient.k, right.k.grad());
  worst.add(gradient.v, right.v.grad());
}

// Decoding: the last token of several sequences, each over its own keys.
void check_cached(const KernelShape& s, at::Device device, Worst& worst) {
  const at::NoGradGuard no_grad;
  const std::vector<std::int64_t> lengths = {1, ops::kKvTile - 1, ops::kKvTile, ops::kKvTile + 1,
                                             std::max<std::int64_t>(2, s.segment)};
  const auto n = static_cast<std::int64_t>(lengths.size());
  const auto pool = ops::make_kv_pool(s.kv_heads, s.head_dim, dtype_of(s), device);  // null: not there
  std::vector<ops::KvTiles> tiles;
  std::vector<at::Tensor> queries, right;
  tiles.reserve(lengths.size());
  for (const std::int64_t length : lengths) {
    const ConcatQkv x = make_concat(s, length);
    tiles.push_back(pool ? ops::KvTiles(s.kv_heads, s.head_dim, length, pool)
                         : ops::KvTiles(s.kv_heads, s.head_dim, dtype_of(s), length, device));
    tiles.back().append(x.k.to(device), x.v.to(device));
    queries.push_back(x.q.slice(0, length - 1));
    right.push_back(
        ops::packed_attention(x.q.to(at::kFloat), x.k.to(at::kFloat), x.v.to(at::kFloat), {{0, length}})
            .slice(0, length - 1));
  }
  const at::Tensor q = at::cat(queries).to(device);
  std::vector<ops::AttentionRows> rows;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    rows.push_back({i, i + 1, {}, &tiles[at], lengths[at] - 1});
  }
  const at::Tensor out = at::empty({n, s.heads * s.head_dim}, at::TensorOptions(device).dtype(dtype_of(s)));
  ops::attend_tiles(out, {}, q, rows);
  worst.add(out, at::cat(right));
}

}  // namespace

std::string KernelShape::describe() const {
  const auto text = [](std::int64_t value) { return std::to_string(value); };
  std::string said = kind + (bf16 ? " bf16" : " fp32");
  if (is_gemm()) {
    said += " [" + text(m) + " x " + text(in) + "] x [" + text(in) + " x " + text(out) + "]";
    if (rank > 0) said += ", rank " + text(rank);
    if (bias) said += ", bias";
    if (packed) said += ", packed";
    if (!quantized.empty()) said += ", " + quantized;
  } else {
    said += " " + text(heads) + " heads over " + text(kv_heads) + " of " + text(head_dim) + ", " +
            text(segment) + " tokens";
    if (prefix > 0) said += ", prompt " + text(prefix);
  }
  return said + (autograd ? ", plain" : "");
}

std::int64_t KernelShape::bytes() const {
  constexpr std::int64_t kScratch = 32 << 20;
  const std::int64_t e = bf16 ? 2 : 4;
  std::int64_t out_bytes = 0;
  if (kind == "head") {
    out_bytes = in * out * 2 * e + 2 * kChunk * in * 4 + 6 * out * 4 * 4 + m * in * (e + 8);
  } else if (is_gemm()) {
    const std::int64_t weight = in * out * (2 * e + 4 + (quantized.empty() ? 0 : e));
    out_bytes = weight + m * (in * (3 * e + 8) + out * (3 * e + 8)) + rank * (in + out) * 4 * 5;
  } else {
    const std::int64_t tokens = segment + prefix + 4 * 64;
    out_bytes =
        tokens * (2 * heads + 2 * kv_heads) * head_dim * (2 * e + 16) + heads * segment * segment * 4 * 2;
  }
  return out_bytes + out_bytes / 5 + kScratch;
}

base::Json KernelShape::to_json() const {
  return {{"kind", kind},       {"bf16", bf16},         {"plain", autograd},
          {"packed", packed},   {"bias", bias},         {"m", m},
          {"in", in},           {"out", out},           {"rank", rank},
          {"heads", heads},     {"kv_heads", kv_heads}, {"head_dim", head_dim},
          {"segment", segment}, {"prefix", prefix},     {"quantized", quantized}};
}

KernelShape KernelShape::from_json(const base::Json& json) {
  KernelShape s;
  s.kind = json.at("kind").get<std::string>();
  s.bf16 = json.at("bf16").get<bool>();
  s.autograd = json.at("plain").get<bool>();
  s.packed = json.at("packed").get<bool>();
  s.bias = json.at("bias").get<bool>();
  s.quantized = json.at("quantized").get<std::string>();
  const auto whole = [&json](const char* name) { return json.at(name).get<std::int64_t>(); };
  s.m = whole("m");
  s.in = whole("in");
  s.out = whole("out");
  s.rank = whole("rank");
  s.heads = whole("heads");
  s.kv_heads = whole("kv_heads");
  s.head_dim = whole("head_dim");
  s.segment = whole("segment");
  s.prefix = whole("prefix");
  return s;
}

KernelError check_kernel(const KernelShape& shape, at::Device device) {
  Worst worst;
  if (shape.kind == "gemm" || shape.kind == "decode") {
    check_linear(shape, shape.kind == "gemm", device, worst);
  } else if (shape.kind == "head") {
    check_head_kernels(shape, device, worst);
  } else if (shape.kind == "attention") {
    check_attention(shape, device, worst);
  } else {
    base::require(shape.kind == "cached", "check_kernel", "a kind of kernel that it knows");
    check_cached(shape, device, worst);
  }
  return {
      .error = worst.error, .bound = shape.bf16 ? 3e-2 : 2e-4, .found = worst.mine, .expected = worst.wanted};
}

}  // namespace hone::doctor
