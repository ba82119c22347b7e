#pragma once

// Panels of quantized_kernels.h for one instruction set. The including file is compiled for it as a whole, without
// contraction, and has declared, in an anonymous namespace:
//
//   Floats, Ints, kLanes        vectors of floats and of words, and how many a vector has
//   Table, table_of(p)          the values of 4 bits; lookup<Shift>(table, words): of bits Shift .. Shift + 3
//   load, load_words, store, store_words, broadcast, zero, plus, times, minus, prefetch (into L2)
//   multiply_add(a, b, c)       a * b + c rounded once; multiply_less(a, b, c): c - a * b rounded once
//   from_int8, from_uint8, from_halves(p)   kLanes numbers as floats
//   shifted_right(words, n); code_of<Bits, J>(table, low, high): what code J of 8 stands for; power_of(x)
//   pack_pair(x0, x1)           two floats to a word of two bf16, to nearest even
#include <cstddef>
#include <cstdint>

#include "ops/backend/cpu/quantized_kernels.h"

namespace hone::ops::kernels {
namespace {

using std::int64_t;

constexpr int64_t kMostGroups = 16;  // whose scales are decoded together
constexpr int64_t kChunk = 512;      // numbers of a row whose scales are, at most
constexpr int64_t kSuper = 256;      // numbers of a block of ggml's K types

// [group][32]
struct Scales {
  alignas(64) float scale[kMostGroups * kPanelWide];
  alignas(64) float minimum[kMostGroups * kPanelWide];
};

void decode_flat(const PanelView& m, int64_t row, int64_t groups, int64_t first, int64_t count, float* to) {
  const QuantizedView& of = m.of_rows;
  for (int64_t r = 0; r < kPanelWide; ++r) {
    const int64_t begin = (row + r) * groups + first;
    if (of.scales != nullptr) {
      for (int64_t g = 0; g < count; ++g) to[g * kPanelWide + r] = of.scales[begin + g];
      continue;
    }
    const bool is_power = (of.scale_block & (of.scale_block - 1)) == 0;
    const int shift = __builtin_ctzll(static_cast<unsigned long long>(of.scale_block));
    for (int64_t g = 0; g < count; ++g) {
      const int64_t nested = is_power ? (begin + g) >> shift : (begin + g) / of.scale_block;
      const float scaled = of.scale_table[of.scale_codes[begin + g]] * of.scale_scales[nested];
      to[g * kPanelWide + r] = scaled + of.scale_offset;
    }
  }
}

void decode_scales(const PanelView& m, int64_t panel, int64_t first, int64_t count, Scales& to) {
  const int64_t groups = m.in / m.group;
  if (m.scale_kind == PanelScales::kOfRows) {
    decode_flat(m, panel * kPanelWide, groups, first, count, to.scale);
    return;
  }
  for (int64_t g = 0; g < count; ++g) {
    const int64_t place = (panel * groups + first + g) * kPanelWide;
    const int64_t super = (panel * m.in + (first + g) * m.group) / kSuper * kPanelWide;
    for (int64_t lane = 0; lane < kPanelWide; lane += kLanes) {
      float* const scale = to.scale + g * kPanelWide + lane;
      if (m.scale_kind == PanelScales::kHalf) {
        store(scale, from_halves(m.halves + 2 * (place + lane)));
      } else if (m.scale_kind == PanelScales::kHalfTimes8) {
        store(scale, times(from_halves(m.halves + 2 * (super + lane)), from_int8(m.bytes + place + lane)));
      } else {
        const std::uint8_t* const halves = m.halves + 2 * (2 * super + lane);
        const std::uint8_t* const bytes = m.bytes + 2 * place + lane;
        store(scale, times(from_halves(halves), from_uint8(bytes)));
        store(to.minimum + g * kPanelWide + lane,
              times(from_halves(halves + 2 * kPanelWide), from_uint8(bytes + kPanelWide)));
      }
    }
  }
}

// Computes the numbers that 8 neighboring codes of kLanes rows stand for. `at` is panel * in + k, k a
// multiple of 8.
template <int Bits>
[[gnu::always_inline]] inline void values_at(const PanelView& m, const Table& table, int64_t at, int64_t lane,
                                             Floats (&x)[8]) {
  if constexpr (Bits == 8) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) x[j] = from_int8(m.low + (at + j) * kPanelWide + lane);
  } else {
    const Ints low = load_words(m.low + (at / 8 * kPanelWide + lane) * 4);
    if constexpr (Bits == 4) {
      x[0] = lookup<0>(table, low);
      x[1] = lookup<4>(table, low);
      x[2] = lookup<8>(table, low);
      x[3] = lookup<12>(table, low);
      x[4] = lookup<16>(table, low);
      x[5] = lookup<20>(table, low);
      x[6] = lookup<24>(table, low);
      x[7] = lookup<28>(table, low);
    } else {
      constexpr int kEach = Bits == 5 ? 32 : 16, kBits = 32 / kEach;
      const Ints words = load_words(m.high + (at / kEach * kPanelWide + lane) * 4);
      const Ints high = shifted_right(words, static_cast<int>(at % kEach) * kBits);
      x[0] = code_of<Bits, 0>(table, low, high);
      x[1] = code_of<Bits, 1>(table, low, high);
      x[2] = code_of<Bits, 2>(table, low, high);
      x[3] = code_of<Bits, 3>(table, low, high);
      x[4] = code_of<Bits, 4>(table, low, high);
      x[5] = code_of<Bits, 5>(table, low, high);
      x[6] = code_of<Bits, 6>(table, low, high);
      x[7] = code_of<Bits, 7>(table, low, high);
    }
  }
}

// 8 numbers of kLanes rows of the panel in fp32: codes times scale, less the minimum.
template <int Bits, bool HasMinimum>
[[gnu::always_inline]] inline void scaled_values_at(const PanelView& m, const Table& table, int64_t at,
                                                    int64_t lane, const float* scale, const float* minimum,
                                                    Floats (&x)[8]) {
  values_at<Bits>(m, table, at, lane, x);
  const Floats by = load(scale + lane);
#pragma GCC unroll 8
  for (Floats& w : x) {
    w = times(w, by);
    if constexpr (HasMinimum) w = minus(w, load(minimum + lane));
  }
}

// Calls step(scale, minimum, k) for each 8 numbers of [begin, begin + k), with the scales of their group.
template <typename Step>
[[gnu::always_inline]] inline void for_each_step(const PanelView& m, const Scales& scales, int64_t begin,
                                                 int64_t k, const Step& step) {
  const int64_t first = begin / m.group, end = begin + k;
  int64_t at = begin;
  for (int64_t g = first; at < end; ++g) {
    const int64_t stop = smaller((g + 1) * m.group, end);
    const float* const scale = scales.scale + (g - first) * kPanelWide;
    const float* const minimum = scales.minimum + (g - first) * kPanelWide;
    for (; at < stop; at += 8) step(scale, minimum, at);
  }
}

// Calls run(begin, k) for pieces of a row whose scales are decoded together.
template <typename Run>
[[gnu::always_inline]] inline void for_each_chunk(const PanelView& m, int64_t begin, int64_t k,
                                                  const Run& run) {
  const int64_t most = smaller(kChunk, kMostGroups * m.group);
  for (int64_t at = begin; at < begin + k;) {
    const int64_t stop = smaller((at / most + 1) * most, begin + k);
    run(at, stop - at);
    at = stop;
  }
}

int64_t groups_of(const PanelView& m, int64_t begin, int64_t k) {
  return (begin + k - 1) / m.group - begin / m.group + 1;
}

template <int Bits, bool HasMinimum, bool IsFloat>
void unpack(const PanelView& m, const Unpack& run) {
  const Table table = table_of(m.table);
  Scales scales;
  for_each_chunk(m, run.begin, run.k, [&](int64_t begin, int64_t k) {
    decode_scales(m, run.panel, begin / m.group, groups_of(m, begin, k), scales);
    for_each_step(m, scales, begin, k, [&](const float* scale, const float* minimum, int64_t at) {
      Word* const to = run.to + (at - run.begin) / (IsFloat ? 1 : 2) * kPanelWide;
      for (int64_t lane = 0; lane < kPanelWide; lane += kLanes) {
        Floats x[8];
        scaled_values_at<Bits, HasMinimum>(m, table, run.panel * m.in + at, lane, scale, minimum, x);
        if constexpr (IsFloat) {
#pragma GCC unroll 8
          for (int j = 0; j < 8; ++j) store(reinterpret_cast<float*>(to) + j * kPanelWide + lane, x[j]);
        } else {
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j)
            store_words(to + j * kPanelWide + lane, pack_pair(x[2 * j], x[2 * j + 1]));
        }
      }
    });
  });
}

// A tame number to bf16, as a float: power_of() is the power of 2 that begins its binade (with its sign), and a sum
// around 2^16 times that has the last bit of bf16 as its own.
[[gnu::always_inline]] inline Floats rounded_to_bf16(Floats x, Floats large) {
  const Floats power = power_of(x);
  return multiply_less(power, large, multiply_add(power, large, x));
}

// The codes come from memory: 8 numbers of 32 rows, ahead of the core's own prefetcher.
template <int Bits>
[[gnu::always_inline]] inline void fetch(const std::uint8_t* codes) {
  constexpr int64_t kAhead = 8 << 10;
#pragma GCC unroll 4
  for (int64_t line = 0; line < 32 * Bits; line += 64) prefetch(codes + kAhead + line);
}

// A sum is one chain in the order of k; or, of the amx form, takes groups of kTileDepth numbers: a chain over the even
// ones, one over the odd ones, and the sum of both.
enum class Chain { kOne, kGroups };

template <int Rows, int64_t Vectors>
[[gnu::always_inline]] inline void load_sums(const float* from, int64_t stride,
                                             Floats (&sum)[Rows][Vectors]) {
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v)
      sum[r][v] = from == nullptr ? zero() : load(from + r * stride + v * kLanes);
  }
}

template <int Rows, int64_t Vectors>
[[gnu::always_inline]] inline void store_sums(const Floats (&sum)[Rows][Vectors], float* to, int64_t stride) {
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) store(to + r * stride + v * kLanes, sum[r][v]);
  }
}

// The sums of a run: step(sum, first, scale, minimum, k) adds the products of 8 numbers k .. k + 7, of rows
// first .. first + Vectors * kLanes of the panel.
template <int Bits, int Rows, int64_t Vectors, typename Step>
[[gnu::always_inline]] inline void sum_codes(const CodedRun& run, const Step& step) {
  const PanelView& m = *run.matrix;
  const float* from = run.from;
  int64_t from_stride = run.from_stride;
  Scales scales;
  for_each_chunk(m, run.begin, run.k, [&](int64_t begin, int64_t k) {
    decode_scales(m, run.panel, begin / m.group, groups_of(m, begin, k), scales);
    for (int64_t first = 0; first < kPanelWide; first += Vectors * kLanes) {
      Floats sum[Rows][Vectors];
      load_sums(from == nullptr ? nullptr : from + first, from_stride, sum);
      for_each_step(m, scales, begin, k,
                    [&](const float* scale, const float* minimum, int64_t at) __attribute__((always_inline)) {
                      if (first == 0) {
                        constexpr int64_t kBytes =
                            Bits == 8 ? kPanelWide : kPanelWide / 2;  // of the lower bits
                        fetch<Bits == 8 ? 8 : 4>(m.low + (run.panel * m.in + at) * kBytes);
                      }
                      step(sum, first, scale, minimum, at);
                    });
      store_sums(sum, run.to + first, run.to_stride);
    }
    from = run.to;
    from_stride = run.to_stride;
  });
}

template <int Bits, bool HasMinimum, bool IsFloat, Chain Form, int Rows>
void multiply(const CodedRun& run) {
  constexpr bool kGroups = Form == Chain::kGroups;
  // A row has so many vectors of sums: more leave no registers for the numbers.
  constexpr int64_t kVectors = Rows > (kGroups ? 2 : 4) ? 1 : 2;
  const PanelView& m = *run.matrix;
  const Table table = table_of(m.table);
  const float two16 = 65536;
  const Floats large = broadcast(&two16);
  Floats part[kGroups ? 2 : 1][Rows][kVectors];  // even, odd
  using Sums = Floats[Rows][kVectors];
  sum_codes<Bits, Rows, kVectors>(run, [&](Sums& sum, int64_t first, const float* scale, const float* minimum,
                                           int64_t at) __attribute__((always_inline)) {
    const float* const a = static_cast<const float*>(run.a) + (at - run.begin);
    if (kGroups && at % kTileDepth == 0) {
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          for (auto& parity : part) parity[r][v] = zero();
        }
      }
    }
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      Floats x[8];
      scaled_values_at<Bits, HasMinimum>(m, table, run.panel * m.in + at, first + v * kLanes, scale, minimum,
                                         x);
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) {
        const Floats w = IsFloat ? x[j] : rounded_to_bf16(x[j], large);
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r) {
          Floats& chain = kGroups ? part[j % 2 * kGroups][r][v] : sum[r][v];
          chain = multiply_add(broadcast(a + r * run.a_stride + j), w, chain);
        }
      }
    }
    if (kGroups && at % kTileDepth == kTileDepth - 8) {
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v)
          sum[r][v] = plus(sum[r][v], plus(part[0][r][v], part[kGroups][r][v]));
      }
    }
  });
}

// The six kinds of codes, for T<Bits, HasMinimum>.
template <template <int, bool> typename T, typename... Arguments>
[[gnu::always_inline]] inline void for_kind(const PanelView& m, const Arguments&... arguments) {
  const bool has_minimum = m.scale_kind == PanelScales::kWithMinimum;
  if (m.bits == 8) {
    T<8, false>::call(arguments...);
  } else if (m.bits == 6) {
    T<6, false>::call(arguments...);
  } else if (m.bits == 5) {
    has_minimum ? T<5, true>::call(arguments...) : T<5, false>::call(arguments...);
  } else {
    has_minimum ? T<4, true>::call(arguments...) : T<4, false>::call(arguments...);
  }
}

template <int Bits, bool HasMinimum>
struct UnpackKind {
  static void call(const PanelView& m, const Unpack& run) {
    (run.is_float ? unpack<Bits, HasMinimum, true> : unpack<Bits, HasMinimum, false>)(m, run);
  }
};

template <int Bits, bool HasMinimum, Chain Form>
struct MultiplyRows {
  template <bool IsFloat>
  static constexpr void (*kOfRows[])(const CodedRun&) = {
      nullptr,
      multiply<Bits, HasMinimum, IsFloat, Form, 1>,
      multiply<Bits, HasMinimum, IsFloat, Form, 2>,
      multiply<Bits, HasMinimum, IsFloat, Form, 3>,
      multiply<Bits, HasMinimum, IsFloat, Form, 4>,
      multiply<Bits, HasMinimum, IsFloat, Form, 5>,
      multiply<Bits, HasMinimum, IsFloat, Form, 6>,
      multiply<Bits, HasMinimum, IsFloat, Form, 7>,
      multiply<Bits, HasMinimum, IsFloat, Form, 8>,
  };
  static_assert(sizeof kOfRows<true> / sizeof *kOfRows<true> == kCodedRows + 1);
};

template <int Bits, bool HasMinimum>
struct MultiplyKind {
  using Rows = MultiplyRows<Bits, HasMinimum, Chain::kOne>;
  static void call(const CodedRun& run) {
    (run.is_float ? Rows::template kOfRows<true> : Rows::template kOfRows<false>)[run.rows](run);
  }
};

// bf16's only.
template <int Bits, bool HasMinimum>
struct MultiplyGroups {
  static void call(const CodedRun& run) {
    MultiplyRows<Bits, HasMinimum, Chain::kGroups>::template kOfRows<false>[run.rows](run);
  }
};

}  // namespace
}  // namespace hone::ops::kernels
