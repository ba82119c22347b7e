// Flash attention's forward over tiles of 64 keys. For each tile a row's chain is: scores (over D),
// running maximum, probabilities, running sum in 16 lanes, accumulator times the factor plus probabilities
// times values. A masked key has p exactly 0 and a tile without a seen key the factor exactly 1, so skipping
// it changes no bit.
//
// Included once for each instruction set (attention_level_*.cpp); HONE_TILE_REGISTERS: the products are those of amx.
#pragma once

#include "ops/backend/cpu/attention_kernels.h"
#include "ops/backend/cpu/bodies/attention_vectors.h"
#if defined(HONE_TILE_REGISTERS)
#include "ops/backend/cpu/bodies/attention_products_tiles.h"
#else
#include "ops/backend/cpu/bodies/attention_products_vectors.h"
#endif

namespace hone::ops::attention_kernels {
namespace {

constexpr float kNothing = -1e30F;  // the running maximum before the first key

struct Softmax {
  alignas(64) float scores[kRows][64];
  alignas(64) Pair p[kRows][32];
  alignas(64) float factor[16];
};

struct State {     // of up to kRows rows
  float* highest;  // [kRows], times scale * log2(e)
  float* raw_highest;
  float* sum;  // [kRows][16]
  float* acc;  // [kRows][D]
};

struct Seen {
  std::int64_t low[kRows], high[kRows];  // slots of the tile that the row sees
  std::int64_t first, last;              // union over the rows
};

// A row's 64 products of queries and keys become capped scores. ratio: of the scores' scale and the cap.
void cap_scores(float* scores, float ratio, float cap) {
  for (int i = 0; i < 64; i += 16)
    store(scores + i, times(tanh_16(times(load(scores + i), all_of(ratio))), all_of(cap)));
}

void softmax(Softmax& w, const State& state, const Seen& seen, int rows, float to_log2) {
  alignas(64) float before[16] = {}, after[16] = {};
  for (int r = 0; r < rows; ++r) {
    const std::uint64_t mask = bits(seen.low[r], seen.high[r]);
    const Floats nothing = all_of(kNothing);
    const auto part = [&](int i) __attribute__((always_inline)) {
      return where(static_cast<Mask>(mask >> (16 * i)), load(w.scores[r] + 16 * i), nothing);
    };
    const float top = largest_of(larger(larger(part(0), part(1)), larger(part(2), part(3))));
    before[r] = state.highest[r];
    if (top > state.raw_highest[r]) state.raw_highest[r] = top;
    after[r] = state.raw_highest[r] * to_log2;
    state.highest[r] = after[r];
  }
  store(w.factor, exp2_16(subtract(load(before), load(after))));
  const Floats scale = all_of(to_log2);
  for (int r = 0; r < rows; ++r) {
    const std::uint64_t mask = bits(seen.low[r], seen.high[r]);
    const Floats highest = all_of(after[r]);
    Floats p[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Mask m = static_cast<Mask>(mask >> (16 * i));
      const Floats s = where(m, load(w.scores[r] + 16 * i));
      p[i] = where(m, exp2_16(multiply_subtract(s, scale, highest)));
    }
    const Floats added = add(add(p[0], p[1]), add(p[2], p[3]));
    float* const sum = state.sum + 16 * r;
    store(sum, multiply_add(load(sum), all_of(w.factor[r]), added));
    store_words(w.p[r], to_bf16(p[0], p[1]));
    store_words(w.p[r] + 16, to_bf16(p[2], p[3]));
  }
}

// Finds what rows [row, row + rows) see of the 64 keys from `tile_place`, of which `filled` exist; false:
// nothing.
bool seen_of(Seen& seen, const Forward& b, std::int64_t row, int rows, std::int64_t tile_place,
             std::int64_t filled) {
  seen.first = 64;
  seen.last = 0;
  std::int64_t place = b.place + row / b.group, head = row % b.group;
  for (int r = 0; r < rows; ++r) {
    const std::int64_t high = clamp(place + 1 - tile_place, 0, filled);
    const std::int64_t low = b.window > 0 ? clamp(place + 1 - b.window - tile_place, 0, 64) : 0;
    seen.low[r] = low;
    seen.high[r] = high;
    if (low < high) {
      if (low < seen.first) seen.first = low;
      if (high > seen.last) seen.last = high;
    }
    if (++head == b.group) {
      head = 0;
      ++place;
    }
  }
  return seen.first < seen.last;
}

void forward_bf16(const Forward& b) {
  constexpr std::int64_t kMaxRows = kBlockElements / 16;
  constexpr std::int64_t kElements = kBlockElements + (kRows - 1) * kMaxHeadDim;  // whole blocks of kRows
  alignas(64) Half q[kElements];
  alignas(64) float acc[kElements];
  alignas(64) float sum[16 * kMaxRows];
  float highest[kMaxRows], raw_highest[kMaxRows];
  Softmax w;
  const std::int64_t dim = b.head_dim, rows = b.row_end - b.row_begin;
  const float scaled = b.scale > 0 ? kLog2E * b.scale : kLog2E / __builtin_sqrtf(static_cast<float>(dim));
  const bool capped = b.soft_cap > 0;  // scores then have their scale when the softmax reads them
  const float to_log2 = capped ? kLog2E : scaled, ratio = capped ? scaled / (kLog2E * b.soft_cap) : 0;
  const auto element = [&](std::int64_t r, std::int64_t stride) {
    const std::int64_t row = b.row_begin + r;
    return row / b.group * stride + row % b.group * dim;
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    copy_row(q + r * dim, static_cast<const Half*>(b.q) + element(r, b.q_stride), dim);
    highest[r] = kNothing * to_log2;
    raw_highest[r] = kNothing;
    store(sum + 16 * r, zero());
    for (std::int64_t d = 0; d < dim; d += 16) store(acc + r * dim + d, zero());
  }
  for (std::int64_t r = rows; r % kRows != 0; ++r) {
    __builtin_memset(q + r * dim, 0, static_cast<std::size_t>(dim) * sizeof(Half));
    __builtin_memset(acc + r * dim, 0, static_cast<std::size_t>(dim) * sizeof(float));
  }
  if (rows < kRows) __builtin_memset(w.p, 0, sizeof w.p);  // of rows that do not exist, p is finite
  begin_products(dim);
  const std::int64_t last_place = b.place + (b.row_end - 1) / b.group;
  const std::int64_t first_seen = b.window > 0 ? b.place + b.row_begin / b.group - b.window + 1 : 0;
  for (std::int64_t i = 0; i < b.run_count; ++i) {
    const KeyRun& run = b.runs[i];
    const std::int64_t begin = clamp((first_seen - run.place) / 64, 0, run.length / 64);
    for (std::int64_t tile = begin; 64 * tile < run.length; ++tile) {
      const std::int64_t tile_place = run.place + 64 * tile;
      if (tile_place > last_place) break;
      const Pair* const keys = static_cast<const Pair*>(run.keys) + tile * 32 * dim;
      const Pair* const values = static_cast<const Pair*>(run.values) + tile * 32 * dim;
      const std::int64_t filled = clamp(run.length - 64 * tile, 0, 64);
      for (std::int64_t r = 0; r < rows; r += kRows) {
        const int n = static_cast<int>(rows - r < kRows ? rows - r : kRows);
        Seen seen;
        if (!seen_of(seen, b, b.row_begin + r, n, tile_place, filled)) continue;
        const State state{highest + r, raw_highest + r, sum + 16 * r, acc + r * dim};
        add_scores(w.scores[0], reinterpret_cast<const Pair*>(q + r * dim), n, keys, dim, seen.first,
                   seen.last);
        for (int row = 0; capped && row < n; ++row) cap_scores(w.scores[row], ratio, b.soft_cap);
        softmax(w, state, seen, n, to_log2);
        add_values(state.acc, w.factor, w.p[0], n, values, dim, seen.first, seen.last);
      }
    }
  }
  end_products();
  for (std::int64_t r = 0; r < rows; ++r) {
    const float total = sum_of(load(sum + 16 * r));
    const Floats share = all_of(1.0F / total);
    Half* const out = static_cast<Half*>(b.out) + element(r, b.out_stride);
    for (std::int64_t d = 0; d < dim; d += 16) {
      // + 0: a masked key may have turned -0 into 0.
      store_bf16(out + d, multiply_add(load(acc + r * dim + d), share, zero()));
    }
    if (b.lse != nullptr) {
      const std::int64_t row = b.row_begin + r;
      b.lse[row / b.group * b.lse_stride + row % b.group] = highest[r] * kLn2 + __builtin_logf(total);
    }
  }
}

}  // namespace
}  // namespace hone::ops::attention_kernels
