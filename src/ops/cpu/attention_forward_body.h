// Flash attention's forward over tiles of 64 keys. For each tile a row's chain is: scores (over D),
// running maximum, probabilities, running sum in 16 lanes, accumulator times the factor plus probabilities
// times values. A masked key has p exactly 0 and a tile without a seen key the factor exactly 1, so skipping
// it changes no bit.
//
// Included once for each instruction set (attention_level_*.cpp).
#pragma once

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/attention_vectors.h"

namespace hone::ops::attention_kernels {
namespace {

constexpr int kSub = 8;             // rows in registers at once
constexpr float kNothing = -1e30F;  // the running maximum before the first key

struct Softmax {
  alignas(64) float scores[kSub][64];
  alignas(64) Pair p[kSub][32];
  alignas(64) float factor[16];
};

struct State {     // of up to kSub rows
  float* highest;  // [kSub], times scale * log2(e)
  float* raw_highest;
  float* sum;  // [kSub][16]
  float* acc;  // [kSub][D]
};

struct Seen {
  std::int64_t low[kSub], high[kSub];  // slots of the tile that the row sees
  std::int64_t first, last;            // union over the rows
};

template <int R>
void add_scores(Softmax& w, const Pair* q, const Pair* keys, std::int64_t half_dim, const Seen& seen) {
  for (int half = 0; half < 2; ++half) {
    if (seen.last <= 32 * half || seen.first >= 32 * half + 32) continue;
    Floats c[R][2];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) c[r][0] = c[r][1] = zero();
    multiply<R, 2>(c, q, half_dim, 1, keys + 32 * half, 64, half_dim);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      store(w.scores[r] + 32 * half, c[r][0]);
      store(w.scores[r] + 32 * half + 16, c[r][1]);
    }
  }
}

template <int R, int C>
[[gnu::always_inline]] inline void add_panel(Softmax& w, float* acc, const Pair* values, std::int64_t dim,
                                             std::int64_t pair_begin, std::int64_t pair_end) {
  Floats c[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const Floats factor = all_of(w.factor[r]);
#pragma GCC unroll 2
    for (int i = 0; i < C; ++i) c[r][i] = times(load(acc + r * dim + 16 * i), factor);
  }
  multiply<R, C>(c, w.p[0] + pair_begin, 32, 1, values + pair_begin * dim, dim, pair_end - pair_begin);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < C; ++i) store(acc + r * dim + 16 * i, c[r][i]);
  }
}

template <int R>
void add_values(Softmax& w, float* acc, const Pair* values, std::int64_t dim, const Seen& seen) {
  const std::int64_t begin = seen.first / 2, end = (seen.last + 1) / 2;
  std::int64_t d = 0;
  for (; d + 32 <= dim; d += 32) add_panel<R, 2>(w, acc + d, values + d, dim, begin, end);
  if (d < dim) add_panel<R, 1>(w, acc + d, values + d, dim, begin, end);
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

using AddScores = void (*)(Softmax&, const Pair*, const Pair*, std::int64_t, const Seen&);
using AddValues = void (*)(Softmax&, float*, const Pair*, std::int64_t, const Seen&);
constexpr AddScores kAddScores[] = {add_scores<1>, add_scores<2>, add_scores<3>, add_scores<4>,
                                    add_scores<5>, add_scores<6>, add_scores<7>, add_scores<8>};
constexpr AddValues kAddValues[] = {add_values<1>, add_values<2>, add_values<3>, add_values<4>,
                                    add_values<5>, add_values<6>, add_values<7>, add_values<8>};

// What rows [row, row + rows) see of the 64 keys from `tile_place`, of which `filled` exist; false: nothing.
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
  alignas(64) Half q[kBlockElements];
  alignas(64) float acc[kBlockElements];
  alignas(64) float sum[16 * kMaxRows];
  float highest[kMaxRows], raw_highest[kMaxRows];
  Softmax w;
  const std::int64_t dim = b.head_dim, rows = b.row_end - b.row_begin;
  const float to_log2 = kLog2E / __builtin_sqrtf(static_cast<float>(dim));
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
      for (std::int64_t r = 0; r < rows; r += kSub) {
        const int n = static_cast<int>(rows - r < kSub ? rows - r : kSub);
        Seen seen;
        if (!seen_of(seen, b, b.row_begin + r, n, tile_place, filled)) continue;
        const State state{highest + r, raw_highest + r, sum + 16 * r, acc + r * dim};
        kAddScores[n - 1](w, reinterpret_cast<const Pair*>(q + r * dim), keys, dim / 2, seen);
        softmax(w, state, seen, n, to_log2);
        kAddValues[n - 1](w, state.acc, values, dim, seen);
      }
    }
  }
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
