// attend_tiles: the work cut into blocks of rows for the kernels.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>

#include "ops/backend/cpu/cpu_operators.h"
#include "ops/backend/cpu/level.h"
#include "ops/backend/kv_memory.h"
#include "ops/machine/team.h"

namespace hone::ops::cpu {
namespace {

struct Block {
  attention_kernels::Forward forward;
  std::int64_t cost;  // products of a row and a tile
};

// Blocks of at most `block_rows` rows of every (sequence, kv head), and the runs of keys that they point at.
class Plan {
 public:
  Plan(const Tensor& out, const Tensor& lse, const Tensor& q, const std::vector<AttentionRows>& rows,
       const AttentionRule& rule, std::int64_t block_rows) {
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
  void add(const Tensor& out, const Tensor& lse, const Tensor& q, const AttentionRows& r,
           const AttentionRule& rule, std::int64_t block_rows, std::int64_t kv_head) {
    const std::int64_t group = q.size(1) / r.own->kv_heads(), dim = q.size(2);
    attention_kernels::Forward f;
    f.runs = runs_.data() + runs_.size();
    std::int64_t place = 0;
    const auto add_run = [&](const KvTiles& tiles) {
      const auto head_of = [&](const Tensor& x) {
        return static_cast<const std::byte*>(x.const_data_ptr()) + kv_head * x.stride(0) * x.element_size();
      };
      runs_.push_back(
          {head_of(KvMemory::keys(tiles)), head_of(KvMemory::values(tiles)), place, tiles.length()});
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
    const auto first = [&](const Tensor& x, std::int64_t column) {
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

void attend(const Tensor& out, const Tensor& lse, const Tensor& q, const std::vector<AttentionRows>& rows,
            const AttentionRule& rule) {
  const std::int64_t dim = q.size(2);
  const bool bf16 = q.scalar_type() == at::kBFloat16;
  const LevelKernels& level = level_kernels();
  const attention_kernels::Bf16Kernels* const kernels = level.attention_bf16;
  const bool fast = bf16 && dim % 16 == 0 && dim <= attention_kernels::kMaxHeadDim && kernels != nullptr;
  const std::int64_t block_rows =
      fast ? std::clamp<std::int64_t>(attention_kernels::kBlockElements / dim / 8 * 8, 8, 48) : 48;
  const Plan plan(out, lse, q, rows, rule, block_rows);
  const auto work = [&](std::int64_t i, std::int64_t) {
    const attention_kernels::Forward& block = plan.blocks()[static_cast<std::size_t>(i)].forward;
    if (fast) {
      kernels->forward(block);
      return;
    }
    const auto scratch = std::make_unique_for_overwrite<float[]>(attention_kernels::portable_scratch(dim));
    level.attend(block, bf16, scratch.get());
  };
  // A row times a tile of D 64 is about 0.1 us.
  constexpr std::int64_t kWorthThreads = 48;
  const bool alone = plan.cost() * dim / 64 < kWorthThreads;
  in_team(static_cast<std::int64_t>(plan.blocks().size()), alone ? 1 : at::get_num_threads(), work);
}

bool are_pairs(const AttentionRows& rows) {
  return KvMemory::layout(*rows.own) == &kKvPairs &&
         std::all_of(rows.before.begin(), rows.before.end(),
                     [](const KvTiles* tiles) { return KvMemory::layout(*tiles) == &kKvPairs; });
}

}  // namespace

bool attend_tiles(const Tensor& out, const Tensor& lse, const Tensor& q,
                  const std::vector<AttentionRows>& rows, const AttentionRule& rule) {
  if (!std::all_of(rows.begin(), rows.end(), are_pairs)) return false;
  attend(out, lse, q, rows, rule);
  return true;
}

}  // namespace hone::ops::cpu
