// attend_tiles: its checks. attend_packed, by tiles where the backend has nothing else.
#include <ATen/ATen.h>

#include "base/error.h"
#include "ops/attention.h"
#include "ops/backend/announce.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"

namespace hone::ops {
namespace {

void check_tiles(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q,
                 const std::vector<AttentionRows>& rows) {
  constexpr const char* kWhere = "ops::attend_tiles";
  base::require(q.dim() == 3 && out.dim() == 2 && out.size(0) == q.size(0) &&
                    out.size(1) == q.size(1) * q.size(2) && out.scalar_type() == q.scalar_type(),
                kWhere, "q [T, N, D] and out [T, N * D] of one dtype");
  base::require(q.stride(2) == 1 && q.stride(1) == q.size(2) && out.stride(1) == 1, kWhere,
                "a row's heads side by side");
  base::require(
      !lse.defined() || (lse.scalar_type() == at::kFloat && lse.dim() == 2 && lse.size(0) == q.size(0) &&
                         lse.size(1) == q.size(1) && lse.stride(1) == 1),
      kWhere, "lse [T, N] in fp32");
  const auto fits = [&](const KvTiles* tiles) {
    return tiles != nullptr && tiles->kv_heads() > 0 && q.size(1) % tiles->kv_heads() == 0 &&
           tiles->head_dim() == q.size(2) && tiles->dtype() == q.scalar_type();
  };
  for (const AttentionRows& r : rows) {
    base::require(r.begin >= 0 && r.begin <= r.end && r.end <= q.size(0), kWhere, "rows inside q");
    base::require(fits(r.own) && r.own_offset >= 0 && r.own_offset + r.end - r.begin <= r.own->length(),
                  kWhere, "own tiles that hold the rows' tokens");
    for (const KvTiles* tiles : r.before) {
      base::require(fits(tiles) && tiles->kv_heads() == r.own->kv_heads(), kWhere, "tiles of the same shape");
    }
  }
}

}  // namespace

void attend_tiles(at::Tensor out, at::Tensor lse, const at::Tensor& q, const std::vector<AttentionRows>& rows,
                  const AttentionRule& rule) {
  if (lse.defined() && lse.dim() == 2 && lse.stride(1) != 1) {  // empty_log_sums()
    const at::Tensor by_rows = at::empty(lse.sizes(), lse.options());
    attend_tiles(out, by_rows, q, rows, rule);
    lse.copy_(by_rows);
    return;
  }
  check_tiles(out, lse, q, rows);
  announce("attention", q.size(0), q.size(1), q.size(2), q.scalar_type());
  backend::run(q.device(), &backend::Operators::attend_tiles, reference::attend_tiles, out, lse, q, rows,
               rule);
}

at::Tensor empty_log_sums(std::int64_t tokens, std::int64_t heads, const at::TensorOptions& options) {
  const auto wide = options.dtype(at::kFloat);
  const bool by_head = backend::operators_of(options.device()).log_sums_by_head;
  return by_head ? at::empty({heads, tokens}, wide).t() : at::empty({tokens, heads}, wide);
}

void attend_packed(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q, const at::Tensor& k,
                   const at::Tensor& v, const std::vector<AttentionSegment>& segments,
                   const AttentionRule& rule) {
  base::require(k.dim() == 3 && k.sizes() == v.sizes() && k.size(0) == q.size(0) && k.size(2) == q.size(2),
                "ops::attend_packed", "q [T, N, D], k and v [T, K, D]");
  if (const auto kernel = backend::operators_of(q.device()).attend_packed) {
    announce("attention", q.size(0), q.size(1), q.size(2), q.scalar_type());
    if (kernel(out, lse, q, k, v, segments, rule)) return;
  }
  std::vector<KvTiles> tiles;
  tiles.reserve(segments.size());
  std::vector<AttentionRows> rows;
  for (const AttentionSegment& one : segments) {
    const std::int64_t tokens = one.end - one.begin;
    tiles.emplace_back(k.size(1), k.size(2), k.scalar_type(), tokens, k.device());
    tiles.back().append(k.narrow(0, one.begin, tokens), v.narrow(0, one.begin, tokens));
    rows.push_back({.begin = one.begin, .end = one.end, .before = {}, .own = &tiles.back()});
    if (one.prefix != kNoSegment) rows.back().before = {&tiles[static_cast<std::size_t>(one.prefix)]};
  }
  attend_tiles(out, lse, q, rows, rule);
}

}  // namespace hone::ops
