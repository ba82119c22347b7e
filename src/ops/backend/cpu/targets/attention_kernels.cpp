// The portable form of attend_tiles: the tile order of the bf16 kernel in fp32, one row at a time, in loops
// that the compiler turns into vectors for each instruction set. bf16 tiles are widened tile by tile.
#include "ops/backend/cpu/attention_kernels.h"

#include <bit>
#include <cmath>

namespace hone::ops::attention_kernels {
namespace {

constexpr std::int64_t kRows = 16;  // of a widened tile
constexpr std::size_t kTile = 64;
constexpr std::size_t kLanes = 16;
constexpr float kNothing = -1e30F;
constexpr float kLog2E = 1.44269504088896341F;
constexpr float kLn2 = 0.693147180559945309F;

[[gnu::always_inline]] inline float widen(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

[[gnu::always_inline]] inline std::uint16_t round_to_bf16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if (x != x) return 0x7FC0;
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// 2^x as in attention_vectors.h; below 2^-126 it is 0, above 2^127 infinite.
[[gnu::always_inline]] inline float exp2_of(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
  const float within = x < -127.0F ? -127.0F : (x > 128.0F ? 128.0F : x);
  const float n = (within + kRound) - kRound;
  const float r = within - n;
  float p = 1.545316294e-4F;
  p = p * r + 1.3390863365e-3F;
  p = p * r + 9.6180825573e-3F;
  p = p * r + 5.5503571142e-2F;
  p = p * r + 2.4022650761e-1F;
  p = p * r + 6.9314718803e-1F;
  p = p * r + 1.0F;
  const std::uint32_t exponent = static_cast<std::uint32_t>(static_cast<std::int32_t>(n) + 127) << 23;
  const float power = p * std::bit_cast<float>(exponent);
  return x == x ? power : x;
}

// As in row_kernels_body.h.
[[gnu::always_inline]] inline float tanh_of(float x) {
  constexpr float kMost = 7.90531110763549805F;
  x = x > kMost ? kMost : x;
  x = x < -kMost ? -kMost : x;
  const float z = x * x;
  float p = z * -2.76076847742355e-16F + 2.00018790482477e-13F;
  p = p * z - 8.60467152213735e-11F;
  p = p * z + 5.12229709037114e-08F;
  p = p * z + 1.48572235717979e-05F;
  p = p * z + 6.37261928875436e-04F;
  p = p * z + 4.89352455891786e-03F;
  float q = z * 1.19825839466702e-06F + 1.18534705686654e-04F;
  q = q * z + 2.26843463243900e-03F;
  q = q * z + 4.89352518554385e-03F;
  return x * p / q;
}

[[gnu::always_inline]] inline std::int64_t clamp(std::int64_t x, std::int64_t low, std::int64_t high) {
  return x < low ? low : (x > high ? high : x);
}

struct Row {
  float *q, *acc, *lanes;  // [D], [D], [16]: the running sum
  float highest, raw_highest;
};

// From products to capped scores; cap 0: they stay as they are, and the softmax has their scale.
struct Cap {
  float ratio = 0, cap = 0;
};

// keys [D][64], values [64][D]; the row sees slots [low, high).
[[gnu::always_inline]] inline void attend_row(Row& row, const float* keys, const float* values,
                                              std::size_t dim, std::size_t low, std::size_t high,
                                              float to_log2, Cap cap) {
  alignas(64) float s[kTile], p[kTile];
  for (float& one : s) one = 0;
  for (std::size_t d = 0; d < dim; ++d) {
    const float q = row.q[d];
    for (std::size_t j = 0; j < kTile; ++j) s[j] += q * keys[d * kTile + j];
  }
  if (cap.cap > 0) {
    for (float& one : s) one = tanh_of(one * cap.ratio) * cap.cap;
  }
  float top = row.raw_highest;
  for (std::size_t j = low; j < high; ++j) top = s[j] > top ? s[j] : top;
  const float highest = top * to_log2, factor = exp2_of(row.highest - highest);
  row.raw_highest = top;
  row.highest = highest;
  for (std::size_t j = 0; j < kTile; ++j) {
    const float e = exp2_of(s[j] * to_log2 - highest);
    p[j] = j >= low && j < high ? e : 0.0F;
  }
  for (std::size_t i = 0; i < kLanes; ++i) {
    const float added = (p[i] + p[i + 16]) + (p[i + 32] + p[i + 48]);
    row.lanes[i] = row.lanes[i] * factor + added;
  }
  for (std::size_t d = 0; d < dim; ++d) row.acc[d] *= factor;
  for (std::size_t j = low; j < high; ++j) {
    for (std::size_t d = 0; d < dim; ++d) row.acc[d] += p[j] * values[j * dim + d];
  }
}

[[gnu::always_inline]] inline void widen_tile(const std::uint16_t* keys, const std::uint16_t* values,
                                              std::size_t dim, float* to_keys, float* to_values) {
  for (std::size_t d = 0; d < dim; d += 2) {
    for (std::size_t j = 0; j < kTile; ++j) {
      to_keys[d * kTile + j] = widen(keys[d * kTile + 2 * j]);
      to_keys[(d + 1) * kTile + j] = widen(keys[d * kTile + 2 * j + 1]);
    }
  }
  for (std::size_t j = 0; j < kTile; j += 2) {
    for (std::size_t d = 0; d < dim; ++d) {
      to_values[j * dim + d] = widen(values[j * dim + 2 * d]);
      to_values[(j + 1) * dim + d] = widen(values[j * dim + 2 * d + 1]);
    }
  }
}

[[gnu::always_inline]] inline void forward_rows(const Forward& b, bool bf16, float* scratch) {
  const std::size_t dim = static_cast<std::size_t>(b.head_dim);
  const float scaled = b.scale > 0 ? kLog2E * b.scale : kLog2E / std::sqrt(static_cast<float>(b.head_dim));
  const Cap cap = b.soft_cap > 0 ? Cap{scaled / (kLog2E * b.soft_cap), b.soft_cap} : Cap{};
  const float to_log2 = b.soft_cap > 0 ? kLog2E : scaled;
  const std::int64_t rows = b.row_end - b.row_begin;
  const auto element = [&](std::int64_t row, std::int64_t stride) {
    return row / b.group * stride + row % b.group * b.head_dim;
  };
  float *const wide_keys = scratch, *const wide_values = scratch + kTile * dim;
  float* at = wide_values + kTile * dim;
  Row row[kRows];
  for (std::int64_t r = 0; r < rows; ++r) {
    row[r] = {at, at + dim, at + 2 * dim, kNothing * to_log2, kNothing};
    const std::int64_t from = element(b.row_begin + r, b.q_stride);
    for (std::size_t d = 0; d < dim; ++d) {
      row[r].q[d] = bf16 ? widen(static_cast<const std::uint16_t*>(b.q)[from + static_cast<std::int64_t>(d)])
                         : static_cast<const float*>(b.q)[from + static_cast<std::int64_t>(d)];
      row[r].acc[d] = 0;
    }
    for (std::size_t i = 0; i < kLanes; ++i) row[r].lanes[i] = 0;
    at += 2 * dim + kLanes;
  }
  const std::int64_t first_place = b.place + b.row_begin / b.group,
                     last_place = b.place + (b.row_end - 1) / b.group;
  for (std::int64_t i = 0; i < b.run_count; ++i) {
    const KeyRun& run = b.runs[i];
    for (std::int64_t tile = 0; 64 * tile < run.length; ++tile) {
      const std::int64_t tile_place = run.place + 64 * tile, filled = clamp(run.length - 64 * tile, 0, 64);
      if (tile_place > last_place) break;
      if (b.window > 0 && tile_place + 64 <= first_place + 1 - b.window) continue;
      const std::size_t offset = static_cast<std::size_t>(tile) * kTile * dim;
      const float *keys = wide_keys, *values = wide_values;
      if (bf16) {
        widen_tile(static_cast<const std::uint16_t*>(run.keys) + offset,
                   static_cast<const std::uint16_t*>(run.values) + offset, dim, wide_keys, wide_values);
      } else {
        keys = static_cast<const float*>(run.keys) + offset;
        values = static_cast<const float*>(run.values) + offset;
      }
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t place = b.place + (b.row_begin + r) / b.group;
        const std::int64_t high = clamp(place + 1 - tile_place, 0, filled);
        const std::int64_t low = b.window > 0 ? clamp(place + 1 - b.window - tile_place, 0, 64) : 0;
        if (low >= high) continue;
        attend_row(row[r], keys, values, dim, static_cast<std::size_t>(low), static_cast<std::size_t>(high),
                   to_log2, cap);
      }
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    float total = 0;
    for (std::size_t i = 0; i < kLanes; ++i) total += row[r].lanes[i];
    const float share = 1.0F / total;
    const std::int64_t to = element(b.row_begin + r, b.out_stride);
    for (std::size_t d = 0; d < dim; ++d) {
      const float x = row[r].acc[d] * share;
      if (bf16) {
        static_cast<std::uint16_t*>(b.out)[to + static_cast<std::int64_t>(d)] = round_to_bf16(x);
      } else {
        static_cast<float*>(b.out)[to + static_cast<std::int64_t>(d)] = x;
      }
    }
    if (b.lse != nullptr) {
      const std::int64_t i = b.row_begin + r;
      b.lse[i / b.group * b.lse_stride + i % b.group] = row[r].highest * kLn2 + std::log(total);
    }
  }
}

// `rows`: forward_rows for the instructions of its caller.
template <typename Rows>
[[gnu::always_inline]] inline void in_parts(const Forward& b, bool bf16, float* scratch, const Rows& rows) {
  for (Forward part = b; part.row_begin < b.row_end; part.row_begin = part.row_end) {
    part.row_end = part.row_begin + kRows < b.row_end ? part.row_begin + kRows : b.row_end;
    rows(part, bf16, scratch);
  }
}

#if defined(__x86_64__)
// clang has no such word, and uses the whole width without being told.
#ifdef __clang__
#define HONE_WIDTH ""
#else
#define HONE_WIDTH ",prefer-vector-width=512"
#endif

[[gnu::target("avx2,fma")]] void rows_avx2(const Forward& b, bool bf16, float* scratch) {
  forward_rows(b, bf16, scratch);
}
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,fma" HONE_WIDTH)]] void rows_avx512(const Forward& b,
                                                                                      bool bf16,
                                                                                      float* scratch) {
  forward_rows(b, bf16, scratch);
}
#endif
void rows_portable(const Forward& b, bool bf16, float* scratch) {
  forward_rows(b, bf16, scratch);
}

}  // namespace

std::size_t portable_scratch(std::int64_t head_dim) {
  const std::size_t dim = static_cast<std::size_t>(head_dim);
  return 2 * kTile * dim + kRows * (2 * dim + kLanes);
}

void forward_portable(const Forward& b, bool bf16, float* scratch) {
  in_parts(b, bf16, scratch, rows_portable);
}
#if defined(__x86_64__)
void forward_avx2(const Forward& b, bool bf16, float* scratch) {
  in_parts(b, bf16, scratch, rows_avx2);
}
void forward_avx512(const Forward& b, bool bf16, float* scratch) {
  in_parts(b, bf16, scratch, rows_avx512);
}
#endif

}  // namespace hone::ops::attention_kernels
