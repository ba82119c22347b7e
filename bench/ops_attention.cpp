// attend_tiles for training, prefill and decode, its backward, and the tiles' own filling.
#include <ATen/ATen.h>

#include <memory>

#include "bench/ops_cases.h"
#include "bench/work.h"
#include "ops/attention.h"
#include "ops/kv_tiles.h"

namespace hone::bench {

namespace {

using ops::AttentionRows;
using ops::KvTiles;
using Segments = std::vector<ops::AttentionSegment>;

struct Heads {
  std::int64_t n = 0, k = 0, d = 0;
};

Heads heads_of(const model::ModelConfig& config) {
  return {config.num_attention_heads, config.num_key_value_heads, config.head_dim};
}

// q, k, v as slices of one concatenated buffer, as the layer has them.
struct ConcatQkv {
  at::Tensor q, k, v;
};

ConcatQkv concat(std::int64_t tokens, const Heads& h) {
  const at::Tensor all = random_bf16({tokens, (h.n + 2 * h.k) * h.d});
  const auto slice = [&](std::int64_t first, std::int64_t heads) {
    return all.narrow(1, first * h.d, heads * h.d).unflatten(1, {heads, h.d});
  };
  return {slice(0, h.n), slice(h.n, h.k), slice(h.n + h.k, h.k)};
}

// What packed rows see: themselves, and one prompt before all of them where there is one.
struct Packed {
  std::vector<std::int64_t> lengths;
  std::int64_t prompt = 0;
};

Segments segments_of(const Packed& packed) {
  Segments out;
  std::int64_t begin = 0;
  const auto add = [&](std::int64_t length, std::int64_t prefix) {
    out.emplace_back(begin, begin + length, prefix);
    begin += length;
  };
  if (packed.prompt > 0) add(packed.prompt, ops::kNoSegment);
  for (const std::int64_t length : packed.lengths) add(length, packed.prompt > 0 ? 0 : ops::kNoSegment);
  return out;
}

double pair_flop(const Heads& h) {
  return 4 * static_cast<double>(h.n * h.d);
}

struct Training {
  ConcatQkv parts;
  std::vector<KvTiles> tiles;
  std::vector<AttentionRows> rows;
  at::Tensor out, lse;
};

std::shared_ptr<Training> training(const Packed& packed, const Heads& h) {
  const auto held = std::make_shared<Training>();
  const Segments segments = segments_of(packed);
  const std::int64_t tokens = segments.back().end;
  held->parts = concat(tokens, h);
  held->tiles.reserve(segments.size());
  for (const auto& [begin, end, prefix] : segments) {
    KvTiles& tiles = held->tiles.emplace_back(h.k, h.d, at::kBFloat16, end - begin);
    tiles.append(held->parts.k.slice(0, begin, end), held->parts.v.slice(0, begin, end));
    held->rows.push_back({.begin = begin, .end = end, .before = {}, .own = &tiles, .own_offset = 0});
    if (prefix != ops::kNoSegment) held->rows.back().before = {&held->tiles.front()};
  }
  held->out = at::empty({tokens, h.n * h.d}, at::kBFloat16);
  held->lse = at::empty({tokens, h.n}, at::kFloat);
  return held;
}

Case forward(const Packed& packed, const Heads& h) {
  const auto held = training(packed, h);
  return {.flop = pair_flop(h) * causal_pairs(packed.lengths, packed.prompt),
          .run = [held] { ops::attend_tiles(held->out, held->lse, held->parts.q, held->rows); }};
}

// Five products where the forward has two: scores again, dV, dP, dQ, dK.
Case backward(const Packed& packed, const Heads& h) {
  const auto held = training(packed, h);
  ops::attend_tiles(held->out, held->lse, held->parts.q, held->rows);
  const Segments segments = segments_of(packed);
  const ConcatQkv d = concat(segments.back().end, h);
  const at::Tensor d_out = random_bf16({segments.back().end, h.n * h.d});
  return {.flop = 2.5 * pair_flop(h) * causal_pairs(packed.lengths, packed.prompt), .run = [=] {
            ops::packed_attention_backward(d.q, d.k, d.v, d_out, held->parts.q, held->parts.k, held->parts.v,
                                           held->out, held->lse, segments);
          }};
}

// One new row a sequence: keys and values are read once. Many sequences' tiles, so that they come from
// memory.
Case decode(std::int64_t batch, std::int64_t context, const Heads& h) {
  struct Held {
    std::vector<KvTiles> tiles;
    std::vector<AttentionRows> rows;
    at::Tensor q, out;
  };
  const auto held = std::make_shared<Held>();
  held->tiles.reserve(static_cast<std::size_t>(batch));
  for (std::int64_t i = 0; i < batch; ++i) {
    KvTiles& tiles = held->tiles.emplace_back(h.k, h.d, at::kBFloat16, context);
    const ConcatQkv parts = concat(context, h);
    tiles.append(parts.k, parts.v);
    held->rows.push_back({.begin = i, .end = i + 1, .before = {}, .own = &tiles, .own_offset = context - 1});
  }
  held->q = random_bf16({batch, h.n, h.d});
  held->out = at::empty({batch, h.n * h.d}, at::kBFloat16);
  return {.flop = pair_flop(h) * static_cast<double>(batch * context),
          .bytes = 4 * static_cast<double>(batch * context * h.k * h.d),
          .run = [held] { ops::attend_tiles(held->out, at::Tensor(), held->q, held->rows); }};
}

Case append(std::int64_t tokens, const Heads& h) {
  const auto tiles = std::make_shared<KvTiles>(h.k, h.d, at::kBFloat16, tokens);
  const ConcatQkv parts = concat(tokens, h);
  return {.bytes = 8 * static_cast<double>(tokens * h.k * h.d),
          .run = [=] { tiles->append(parts.k, parts.v); },
          .prepare = [=] { tiles->truncate(0); }};
}

}  // namespace

std::vector<Entry> attention_entries(const OpsShape& shape) {
  const Heads h = heads_of(shape.config);
  const Packed packed = {
      std::vector<std::int64_t>(static_cast<std::size_t>(shape.tokens / shape.length), shape.length)};
  const Packed alone = {{shape.tokens}};
  const Packed group = {std::vector<std::int64_t>(8, 64), 512};
  const std::string shared = "512 shared by 8 x 64";
  const std::string several = std::to_string(packed.lengths.size()) + " x " + std::to_string(shape.length);
  const std::string one = "1 x " + std::to_string(shape.tokens);
  std::vector<Entry> out = {
      {"attend_tiles " + several, [=] { return forward(packed, h); }},
      {"attend_tiles " + one, [=] { return forward(alone, h); }},
      {"attention backward " + several, [=] { return backward(packed, h); }},
      {"attention backward " + one, [=] { return backward(alone, h); }},
      {"attend_tiles " + shared, [=] { return forward(group, h); }},
      {"attention backward " + shared, [=] { return backward(group, h); }},
      {"KvTiles append " + one, [=, tokens = shape.tokens] { return append(tokens, h); }}};
  for (const std::int64_t batch : {1, 8, 16}) {
    out.push_back({"attend_tiles decode " + std::to_string(batch) + " x context 512",
                   [=] { return decode(batch, 512, h); }});
  }
  return out;
}

}  // namespace hone::bench
