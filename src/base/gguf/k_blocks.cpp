#include "base/gguf/k_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/half.h"

namespace hone::base {

namespace {

// To the nearest whole number, ties to even; for |value| below 2^22. A call of nearbyint() in the innermost
// loop would be most of the time.
float rounded(float value) {
  constexpr float kShift = 0x1.8p23F;
  return (value + kShift) - kShift;
}

int level_of(float value, int least, int most) {
  return static_cast<int>(rounded(std::clamp(value, static_cast<float>(least), static_cast<float>(most))));
}

void put_half(std::byte* at, std::uint16_t bits) {
  std::memcpy(at, &bits, 2);
}

std::byte byte_of(unsigned value) {
  return static_cast<std::byte>(value & 0xFFU);
}

// ---- Q4_K and Q5_K: value = scale * q + minimum, minimum at most 0

constexpr std::size_t kSubs = 8, kSub = 32;
constexpr std::size_t kScaleBytes = 12;

using Levels = std::array<std::uint8_t, kKBlock>;

// How a bit width is searched: candidate steps (levels + first + i * kGridStep) / range for i in 0..tries.
struct Search {
  int levels;
  float first;
  int tries;
};
constexpr Search kFourBits{15, -1.0F, 20}, kFiveBits{31, -0.5F, 15};
constexpr float kGridStep = 0.1F;

struct Line {
  float scale = 0, minimum = 0;
};

// The line through 32 values that lies best on levels 0..n, and those levels: weighted squared errors, large
// values counting more.
Line fit_line(const float* x, const Search& search, std::uint8_t* levels) {
  float square = 0;
  for (std::size_t i = 0; i < kSub; ++i) square += x[i] * x[i];
  const float rms = std::sqrt(square / static_cast<float>(kSub));
  std::array<float, kSub> weight{};
  float low = x[0], high = x[0], sum_w = 0, sum_x = 0;
  for (std::size_t i = 0; i < kSub; ++i) {
    weight[i] = rms + std::fabs(x[i]);
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
    sum_w += weight[i];
    sum_x += weight[i] * x[i];
  }
  low = std::min(low, 0.0F);
  std::fill(levels, levels + kSub, std::uint8_t{0});
  if (high == low) return {0, low};
  const auto top = static_cast<float>(search.levels);
  std::array<float, kSub> level{};
  const auto put_on_levels = [&](float step, float minimum) {
    for (std::size_t i = 0; i < kSub; ++i) level[i] = std::clamp(rounded(step * (x[i] - minimum)), 0.0F, top);
  };
  const auto keep_levels = [&] {
    for (std::size_t i = 0; i < kSub; ++i) levels[i] = static_cast<std::uint8_t>(level[i]);
  };
  const auto error_of = [&](const Line& line) {
    float error = 0;
    for (std::size_t i = 0; i < kSub; ++i) {
      const float off = line.scale * level[i] + line.minimum - x[i];
      error += weight[i] * (off * off);
    }
    return error;
  };
  const float plain_step = top / (high - low);
  Line best{1 / plain_step, low};
  put_on_levels(plain_step, low);
  keep_levels();
  float least = error_of(best);
  for (int i = 0; i <= search.tries; ++i) {
    // A better line's minimum is where the next candidates begin.
    const float range = high - best.minimum;
    put_on_levels((search.first + kGridStep * static_cast<float>(i) + top) / range, best.minimum);
    float sum_l = 0, sum_ll = 0, sum_lx = 0;
    for (std::size_t k = 0; k < kSub; ++k) {
      const float wl = weight[k] * level[k];
      sum_l += wl;
      sum_ll += wl * level[k];
      sum_lx += wl * x[k];
    }
    const float determinant = sum_w * sum_ll - sum_l * sum_l;
    if (!(determinant > 0)) continue;
    Line line{(sum_w * sum_lx - sum_x * sum_l) / determinant,
              (sum_ll * sum_x - sum_l * sum_lx) / determinant};
    if (line.minimum > 0) line = {sum_lx / sum_ll, 0};
    const float error = error_of(line);
    if (error < least) {
      least = error;
      best = line;
      keep_levels();
    }
  }
  return best;
}

// 6-bit scales and minima of 8 sub-blocks in 12 bytes: the first four plain in bytes 0..7, the low nibbles of
// the last four in bytes 8..11, their upper two bits above the first four's.
void put_scale(std::byte* packed, std::size_t sub, unsigned scale, unsigned minimum) {
  if (sub < 4) {
    packed[sub] = byte_of(scale);
    packed[sub + 4] = byte_of(minimum);
    return;
  }
  packed[sub + 4] = byte_of((scale & 0x0FU) | (minimum & 0x0FU) << 4);
  packed[sub - 4] |= byte_of((scale >> 4) << 6);
  packed[sub] |= byte_of((minimum >> 4) << 6);
}

struct SubScale {
  unsigned scale, minimum;
};
SubScale scale_at(const std::byte* packed, std::size_t sub) {
  const auto at = [packed](std::size_t i) { return std::to_integer<unsigned>(packed[i]); };
  if (sub < 4) return {at(sub) & 63U, at(sub + 4) & 63U};
  return {(at(sub + 4) & 0x0FU) | (at(sub - 4) >> 6) << 4, at(sub + 4) >> 4 | (at(sub) >> 6) << 4};
}

// Writes d, m and the 12 bytes; returns each element's level.
Levels put_lines(const float* values, const Search& search, std::byte* block) {
  std::array<Line, kSubs> lines;
  Levels levels{};
  float most_scale = 0, most_depth = 0;
  for (std::size_t s = 0; s < kSubs; ++s) {
    lines[s] = fit_line(values + s * kSub, search, &levels[s * kSub]);
    most_scale = std::max(most_scale, lines[s].scale);
    most_depth = std::max(most_depth, -lines[s].minimum);
  }
  constexpr float kMost = 63;
  const float per_scale = most_scale > 0 ? kMost / most_scale : 0;
  const float per_depth = most_depth > 0 ? kMost / most_depth : 0;
  const std::uint16_t d_bits = float_to_half(most_scale / kMost), m_bits = float_to_half(most_depth / kMost);
  put_half(block, d_bits);
  put_half(block + 2, m_bits);
  std::byte* const packed = block + 4;
  std::fill(packed, packed + kScaleBytes, std::byte{0});
  for (std::size_t s = 0; s < kSubs; ++s) {
    const auto scale = static_cast<unsigned>(level_of(per_scale * lines[s].scale, 0, 63));
    const auto minimum = static_cast<unsigned>(level_of(per_depth * -lines[s].minimum, 0, 63));
    put_scale(packed, s, scale, minimum);
    const float step = half_to_float(d_bits) * static_cast<float>(scale);
    const float depth = half_to_float(m_bits) * static_cast<float>(minimum);
    if (step == 0) continue;  // the levels mean nothing, and stay as ggml leaves them
    for (std::size_t i = s * kSub; i < (s + 1) * kSub; ++i) {
      levels[i] = static_cast<std::uint8_t>(level_of((values[i] + depth) / step, 0, search.levels));
    }
  }
  return levels;
}

// Sub-blocks 2g and 2g + 1 share the bytes of group g: low nibble and high nibble.
void put_nibbles(const Levels& levels, std::byte* out) {
  for (std::size_t group = 0; group < kSubs / 2; ++group) {
    for (std::size_t i = 0; i < kSub; ++i) {
      const std::uint8_t* const pair = &levels[2 * group * kSub + i];
      out[group * kSub + i] = byte_of((pair[0] & 0x0FU) | (pair[kSub] & 0x0FU) << 4);
    }
  }
}

// `fifth`: 32 bytes whose bit s is the fifth bit of sub-block s; null: none.
void dequantize_lines(const std::byte* block, const std::byte* fifth, const std::byte* nibbles, float* out) {
  const float d = half_to_float(half_at(block)), m = half_to_float(half_at(block + 2));
  for (std::size_t s = 0; s < kSubs; ++s) {
    const SubScale sub = scale_at(block + 4, s);
    const float step = d * static_cast<float>(sub.scale), depth = m * static_cast<float>(sub.minimum);
    for (std::size_t i = 0; i < kSub; ++i) {
      unsigned level = std::to_integer<unsigned>(nibbles[s / 2 * kSub + i]) >> (s % 2 == 0 ? 0 : 4) & 0x0FU;
      if (fifth != nullptr) level |= (std::to_integer<unsigned>(fifth[i]) >> s & 1U) << 4;
      out[s * kSub + i] = step * static_cast<float>(level) - depth;
    }
  }
}

// ---- Q6_K: value = scale * q, q from -32 to 31

constexpr std::size_t kSixSubs = 16, kSixSub = 16;
constexpr int kSixHalf = 32;
constexpr float kNothing = 1e-15F;  // below it a sub-block is zero

// The scale that brings 16 values closest to whole numbers from -32 to 31, squares weighing each; and those
// numbers, counted from 0.
float fit_scale(const float* x, std::uint8_t* levels) {
  float peak = 0;
  for (std::size_t i = 0; i < kSixSub; ++i) {
    if (std::fabs(x[i]) > std::fabs(peak)) peak = x[i];
  }
  std::fill(levels, levels + kSixSub, std::uint8_t{0});
  if (std::fabs(peak) < kNothing) return 0;
  float scale = 0, best = 0;
  std::array<float, kSixSub> level{};
  const auto attempt = [&](float step, bool first) {
    float sum_lx = 0, sum_ll = 0;
    for (std::size_t i = 0; i < kSixSub; ++i) {
      level[i] = std::clamp(rounded(step * x[i]), -32.0F, 31.0F);
      const float w = x[i] * x[i];
      sum_lx += w * x[i] * level[i];
      sum_ll += w * level[i] * level[i];
    }
    if (!first && !(sum_ll > 0 && sum_lx * sum_lx > best * sum_ll)) return;
    scale = sum_ll > 0 ? sum_lx / sum_ll : 0;
    best = scale * sum_lx;
    for (std::size_t i = 0; i < kSixSub; ++i)
      levels[i] = static_cast<std::uint8_t>(static_cast<int>(level[i]) + kSixHalf);
  };
  attempt(-static_cast<float>(kSixHalf) / peak, true);
  for (int i = -9; i <= 9; ++i) {
    if (i != 0) attempt(-(static_cast<float>(kSixHalf) + kGridStep * static_cast<float>(i)) / peak, false);
  }
  return scale;
}

}  // namespace

void quantize_q4_k(const float* values, std::byte* block) {
  put_nibbles(put_lines(values, kFourBits, block), block + 4 + kScaleBytes);
}

void quantize_q5_k(const float* values, std::byte* block) {
  const Levels levels = put_lines(values, kFiveBits, block);
  std::byte* const fifth = block + 4 + kScaleBytes;
  for (std::size_t i = 0; i < kSub; ++i) {
    unsigned bits = 0;
    for (std::size_t s = 0; s < kSubs; ++s) bits |= (static_cast<unsigned>(levels[s * kSub + i]) >> 4) << s;
    fifth[i] = byte_of(bits);
  }
  put_nibbles(levels, fifth + kSub);
}

void quantize_q6_k(const float* values, std::byte* block) {
  std::byte* const low = block;
  std::byte* const high = block + 128;
  std::byte* const scales = block + 192;
  std::array<float, kSixSubs> found{};
  Levels levels{};
  float peak = 0;
  for (std::size_t s = 0; s < kSixSubs; ++s) {
    found[s] = fit_scale(values + s * kSixSub, &levels[s * kSixSub]);
    if (std::fabs(found[s]) > std::fabs(peak)) peak = found[s];
  }
  std::fill(block, block + 210, std::byte{0});
  if (std::fabs(peak) < kNothing) return;
  const float per_scale = -128.0F / peak;
  const std::uint16_t d_bits = float_to_half(1 / per_scale);
  put_half(block + 208, d_bits);
  for (std::size_t s = 0; s < kSixSubs; ++s) {
    const int scale = level_of(per_scale * found[s], -128, 127);
    scales[s] = byte_of(static_cast<unsigned>(scale));
    const float step = half_to_float(d_bits) * static_cast<float>(scale);
    if (step == 0) continue;
    for (std::size_t i = s * kSixSub; i < (s + 1) * kSixSub; ++i)
      levels[i] = static_cast<std::uint8_t>(level_of(values[i] / step, -kSixHalf, kSixHalf - 1) + kSixHalf);
  }
  for (std::size_t half = 0; half < 2; ++half) {  // each 128 elements: four runs of 32
    const std::uint8_t* const q = &levels[128 * half];
    for (std::size_t i = 0; i < 32; ++i) {
      low[64 * half + i] = byte_of((q[i] & 0x0FU) | (q[i + 64] & 0x0FU) << 4);
      low[64 * half + 32 + i] = byte_of((q[i + 32] & 0x0FU) | (q[i + 96] & 0x0FU) << 4);
      unsigned top = 0;
      for (std::size_t run = 0; run < 4; ++run)
        top |= (static_cast<unsigned>(q[i + 32 * run]) >> 4) << (2 * run);
      high[32 * half + i] = byte_of(top);
    }
  }
}

void dequantize_q4_k(const std::byte* block, float* out) {
  dequantize_lines(block, nullptr, block + 4 + kScaleBytes, out);
}

void dequantize_q5_k(const std::byte* block, float* out) {
  const std::byte* const fifth = block + 4 + kScaleBytes;
  dequantize_lines(block, fifth, fifth + kSub, out);
}

void dequantize_q6_k(const std::byte* block, float* out) {
  const float d = half_to_float(half_at(block + 208));
  for (std::size_t e = 0; e < kKBlock; ++e) {
    const std::size_t half = e / 128, run = e % 128 / 32, i = e % 32;
    const auto low = std::to_integer<unsigned>(block[64 * half + 32 * (run % 2) + i]) >> (run < 2 ? 0 : 4);
    const auto high = std::to_integer<unsigned>(block[128 + 32 * half + i]) >> (2 * run);
    const int level = static_cast<int>((low & 0x0FU) | (high & 3U) << 4) - kSixHalf;
    const auto scale = std::to_integer<std::int8_t>(block[192 + e / kSixSub]);
    out[e] = d * static_cast<float>(scale) * static_cast<float>(level);
  }
}

}  // namespace hone::base
