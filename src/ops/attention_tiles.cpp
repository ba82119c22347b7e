// attend_tiles: the work cut into blocks of rows for the kernels, and the plain form with ATen for other
// devices.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "ops/announce.h"
#include "ops/attention.h"
#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/instructions.h"
#include "ops/cpu/team.h"

namespace hone::ops {
namespace {

// The tiles' tokens as [length, K, D], keys then values.
std::pair<at::Tensor, at::Tensor> dense(const KvTiles& tiles) {
  const at::Tensor &keys = tiles.keys(), &values = tiles.values();
  const std::int64_t heads = tiles.kv_heads(), dim = tiles.head_dim(), n = keys.size(1);
  at::Tensor k, v;
  if (keys.scalar_type() == at::kFloat) {
    k = keys.view({heads, n, dim, kKvTile}).permute({1, 3, 0, 2});
    v = values.view({heads, n, kKvTile, dim}).permute({1, 2, 0, 3});
  } else {
    k = keys.view({heads, n, dim / 2, kKvTile, 2}).permute({1, 3, 0, 2, 4});
    v = values.view({heads, n, kKvTile / 2, dim, 2}).permute({1, 2, 4, 0, 3});
  }
  const auto rows = [&](const at::Tensor& x) {
    return x.reshape({n * kKvTile, heads, dim}).narrow(0, 0, tiles.length());
  };
  return {rows(k), rows(v)};
}

void attend_plain(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q,
                  const AttentionRows& rows, const AttentionRule& rule) {
  std::vector<at::Tensor> all_k, all_v;
  std::int64_t prefix = 0;
  for (const KvTiles* tiles : rows.before) {
    auto [k, v] = dense(*tiles);
    all_k.push_back(k);
    all_v.push_back(v);
    prefix += tiles->length();
  }
  auto [own_k, own_v] = dense(*rows.own);
  all_k.push_back(own_k);
  all_v.push_back(own_v);
  const std::int64_t heads = q.size(1), dim = q.size(2), kv_heads = rows.own->kv_heads();
  const std::int64_t n = rows.end - rows.begin, group = heads / kv_heads;
  // [K, L, D]; queries of a kv head as [K, n * group, D].
  const at::Tensor k = at::cat(all_k, 0).transpose(0, 1).to(at::kFloat);
  const at::Tensor v = at::cat(all_v, 0).transpose(0, 1).to(at::kFloat);
  const at::Tensor queries = q.narrow(0, rows.begin, n)
                                 .to(at::kFloat)
                                 .reshape({n, kv_heads, group, dim})
                                 .transpose(0, 1)
                                 .reshape({kv_heads, n * group, dim});
  at::Tensor scores = at::matmul(queries, k.transpose(1, 2));
  scores.mul_(rule.scale > 0 ? rule.scale : 1.0 / std::sqrt(static_cast<double>(dim)));
  if (rule.soft_cap > 0) scores.div_(rule.soft_cap).tanh_().mul_(rule.soft_cap);
  const auto index = at::TensorOptions(at::kLong).device(q.device());
  const at::Tensor place =
      at::arange(n, index).add_(prefix + rows.own_offset).repeat_interleave(group).unsqueeze(1);
  const at::Tensor key = at::arange(k.size(1), index).unsqueeze(0);
  at::Tensor hidden = key > place;
  if (rule.window > 0) hidden = hidden.logical_or(key <= place - rule.window);
  scores.masked_fill_(hidden, -INFINITY);
  const at::Tensor row_lse = at::logsumexp(scores, -1);  // [K, n * group]
  const at::Tensor p = scores.sub_(row_lse.unsqueeze(-1)).exp_();
  const at::Tensor result = at::matmul(p, v).view({kv_heads, n, group * dim}).transpose(0, 1);
  out.narrow(0, rows.begin, n).copy_(result.reshape({n, heads * dim}));
  if (lse.defined()) {
    lse.narrow(0, rows.begin, n)
        .copy_(row_lse.view({kv_heads, n, group}).transpose(0, 1).reshape({n, heads}));
  }
}

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
           tiles->head_dim() == q.size(2) && tiles->keys().scalar_type() == q.scalar_type();
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

struct Block {
  attention_kernels::Forward forward;
  std::int64_t cost;  // products of a row and a tile
};

// Blocks of at most `block_rows` rows of every (sequence, kv head), and the runs of keys that they point at.
class Plan {
 public:
  Plan(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q,
       const std::vector<AttentionRows>& rows, const AttentionRule& rule, std::int64_t block_rows) {
    std::size_t runs = 0;
    for (const AttentionRows& r : rows) {
      runs += (r.before.size() + 1) * static_cast<std::size_t>(r.own->kv_heads());
    }
    runs_.reserve(runs);  // blocks keep pointers
    for (const AttentionRows& r : rows) {
      for (std::int64_t kv_head = 0; r.end > r.begin && kv_head < r.own->kv_heads(); ++kv_head) {
        add(out, lse, q, r, rule, block_rows, kv_head);
      }
    }
    // Long ones first: what is left at the end is small.
    std::stable_sort(blocks_.begin(), blocks_.end(),
                     [](const Block& a, const Block& b) { return a.cost > b.cost; });
  }

  const std::vector<Block>& blocks() const { return blocks_; }
  std::int64_t cost() const { return cost_; }

 private:
  void add(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q, const AttentionRows& r,
           const AttentionRule& rule, std::int64_t block_rows, std::int64_t kv_head) {
    const std::int64_t group = q.size(1) / r.own->kv_heads(), dim = q.size(2);
    attention_kernels::Forward f;
    f.runs = runs_.data() + runs_.size();
    std::int64_t place = 0;
    const auto add_run = [&](const KvTiles& tiles) {
      const auto head_of = [&](const at::Tensor& x) {
        return static_cast<const std::byte*>(x.const_data_ptr()) + kv_head * x.stride(0) * x.element_size();
      };
      runs_.push_back({head_of(tiles.keys()), head_of(tiles.values()), place, tiles.length()});
      place += tiles.length();
      ++f.run_count;
    };
    for (const KvTiles* tiles : r.before) add_run(*tiles);
    f.place = place + r.own_offset;
    add_run(*r.own);
    f.head_dim = dim;
    f.group = group;
    f.window = rule.window;
    f.scale = static_cast<float>(rule.scale);
    f.soft_cap = static_cast<float>(rule.soft_cap);
    const auto first = [&](const at::Tensor& x, std::int64_t column) {
      return static_cast<std::byte*>(x.data_ptr()) + (r.begin * x.stride(0) + column) * x.element_size();
    };
    f.q = first(q, kv_head * group * dim);
    f.q_stride = q.stride(0);
    f.out = first(out, kv_head * group * dim);
    f.out_stride = out.stride(0);
    if (lse.defined()) {
      f.lse = lse.data_ptr<float>() + r.begin * lse.stride(0) + kv_head * group;
      f.lse_stride = lse.stride(0);
    }
    const std::int64_t all = (r.end - r.begin) * group;
    for (std::int64_t row = 0; row < all; row += block_rows) {
      f.row_begin = row;
      f.row_end = std::min(row + block_rows, all);
      std::int64_t seen = f.place + (f.row_end - 1) / group + 1;
      if (rule.window > 0) seen = std::min(seen, rule.window + (f.row_end - row) / group);
      const std::int64_t cost = (f.row_end - row) * (seen / kKvTile + 1);
      blocks_.push_back({f, cost});
      cost_ += cost;
    }
  }

  std::vector<attention_kernels::KeyRun> runs_;
  std::vector<Block> blocks_;
  std::int64_t cost_ = 0;
};

attention_kernels::PortableLevel plain_level() {
  if (instructions() >= Instructions::kAvx512) return attention_kernels::PortableLevel::kAvx512;
  return instructions() == Instructions::kAvx2 ? attention_kernels::PortableLevel::kAvx2
                                               : attention_kernels::PortableLevel::kPortable;
}

void attend_cpu(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q,
                const std::vector<AttentionRows>& rows, const AttentionRule& rule) {
  const std::int64_t dim = q.size(2);
  const bool bf16 = q.scalar_type() == at::kBFloat16;
  const attention_kernels::Bf16Kernels* const kernels = attention_kernels::bf16_kernels();
  const bool fast = bf16 && dim % 16 == 0 && dim <= attention_kernels::kMaxHeadDim && kernels != nullptr;
  const std::int64_t block_rows =
      fast ? std::clamp<std::int64_t>(attention_kernels::kBlockElements / dim / 8 * 8, 8, 48) : 48;
  const Plan plan(out, lse, q, rows, rule, block_rows);
  const attention_kernels::PortableLevel level = plain_level();
  const auto work = [&](std::int64_t i, std::int64_t) {
    const attention_kernels::Forward& block = plan.blocks()[static_cast<std::size_t>(i)].forward;
    if (fast) {
      kernels->forward(block);
      return;
    }
    const auto scratch = std::make_unique_for_overwrite<float[]>(attention_kernels::portable_scratch(dim));
    attention_kernels::forward_portable(block, bf16, level, scratch.get());
  };
  // A row times a tile of D 64 is about 0.1 us.
  constexpr std::int64_t kWorthThreads = 48;
  const bool alone = plan.cost() * dim / 64 < kWorthThreads;
  in_team(static_cast<std::int64_t>(plan.blocks().size()), alone ? 1 : at::get_num_threads(), work);
}

}  // namespace

void attend_tiles(at::Tensor out, at::Tensor lse, const at::Tensor& q, const std::vector<AttentionRows>& rows,
                  const AttentionRule& rule) {
  check_tiles(out, lse, q, rows);
  announce("attention", q.size(0), q.size(1), q.size(2), q.scalar_type());
  if (q.device().is_cpu()) {
    attend_cpu(out, lse, q, rows, rule);
    return;
  }
  for (const AttentionRows& r : rows) {
    if (r.end > r.begin) attend_plain(out, lse, q, r, rule);
  }
}

}  // namespace hone::ops
