// The short convolution: blocks of channels, all computed in the same way.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "base/half.h"
#include "ops/backend/cpu/cpu_operators.h"
#include "ops/backend/cpu/row_call.h"

namespace hone::ops::cpu {
namespace {

constexpr std::int64_t kBlock = 64;
using Block = std::array<float, kBlock>;

float widened(float x) {
  return x;
}
float widened(std::uint16_t x) {
  return base::bf16_to_float(x);
}
template <typename T>
T rounded(float x) {
  if constexpr (sizeof(T) == 2) {
    return base::float_to_bf16(x);
  } else {
    return x;
  }
}

// Channels [first, first + width) of rows.
struct Channels {
  std::int64_t first = 0, width = 0;

  template <typename T>
  void load(const T* row, Block& out) const {
    if (width == kBlock) {
      for (std::int64_t i = 0; i < kBlock; ++i) out[static_cast<std::size_t>(i)] = widened(row[first + i]);
      return;
    }
    out.fill(0);
    for (std::int64_t i = 0; i < width; ++i) out[static_cast<std::size_t>(i)] = widened(row[first + i]);
  }
  template <typename T>
  void store(const Block& values, T* row) const {
    T* const to = row + first;
    if (width == kBlock) {  // a loop of known length has vector instructions
      for (std::int64_t i = 0; i < kBlock; ++i) to[i] = rounded<T>(values[static_cast<std::size_t>(i)]);
      return;
    }
    for (std::int64_t i = 0; i < width; ++i) to[i] = rounded<T>(values[static_cast<std::size_t>(i)]);
  }
};

template <typename Run>
void for_channels(std::int64_t channels, const Run& run) {
  for (std::int64_t first = 0; first < channels; first += kBlock)
    run(Channels{first, std::min(kBlock, channels - first)});
}

template <typename T>
struct Matrix {
  T* data = nullptr;
  std::int64_t stride = 0;
  T* row(std::int64_t i) const { return data + i * stride; }
};
template <typename T>
Matrix<const T> read(const at::Tensor& t) {
  return {static_cast<const T*>(t.const_data_ptr()), t.stride(0)};
}
template <typename T>
Matrix<T> write(const at::Tensor& t) {
  return {static_cast<T*>(t.mutable_data_ptr()), t.stride(0)};
}

// The taps as [L, H] fp32, the nearest first, then the bias.
struct Taps {
  Taps(const at::Tensor& weight, const at::Tensor& bias)
      : count(weight.size(2)),
        by_channel(weight.to(at::kFloat).view({weight.size(0), weight.size(2)}).flip(1).t().contiguous()),
        added(bias.defined() ? bias.to(at::kFloat).contiguous() : at::zeros({weight.size(0)}, at::kFloat)) {}
  const float* tap(std::int64_t back) const {
    return by_channel.const_data_ptr<float>() + back * by_channel.size(1);
  }
  const float* bias() const { return added.const_data_ptr<float>(); }

  std::int64_t count;
  at::Tensor by_channel, added;
};

// Which rows of inputs a token reads.
template <typename T>
class Sources {
 public:
  Sources(const at::Tensor& inputs, const std::vector<ConvRows>& rows) : inputs_(read<T>(inputs)) {
    for (const ConvRows& one : rows) {
      Place place{.begin = one.begin, .before = {}, .earlier = 0};
      if (one.before.defined() && one.before.size(0) > 0) {
        place.before = read<T>(one.before);
        place.earlier = one.before.size(0);
      }
      places_.push_back(place);
    }
  }
  // Token t - back; null before the sequence's first. `place` is place_of(t).
  const T* of(std::int64_t t, std::int64_t back, std::size_t place) const {
    const Place& p = places_[place];
    if (t - back >= p.begin) return inputs_.row(t - back);
    const std::int64_t row = p.earlier + (t - back - p.begin);
    return row < 0 ? nullptr : p.before.row(row);
  }
  std::size_t place_of(std::int64_t t) const {
    const auto after = std::upper_bound(places_.begin(), places_.end(), t,
                                        [](std::int64_t at, const Place& p) { return at < p.begin; });
    return static_cast<std::size_t>(after - places_.begin()) - 1;
  }

 private:
  struct Place {
    std::int64_t begin = 0;
    Matrix<const T> before;
    std::int64_t earlier = 0;
  };
  Matrix<const T> inputs_;
  std::vector<Place> places_;
};

// bias + the sum over taps, before it is rounded.
template <typename T>
void sum_taps(const Sources<T>& sources, const Taps& taps, std::int64_t t, std::size_t place,
              const Channels& channels, Block& sum) {
  Block z, w;
  channels.load(taps.bias(), sum);
  for (std::int64_t back = 0; back < taps.count; ++back) {
    const T* const row = sources.of(t, back, place);
    if (row == nullptr) break;
    channels.load(row, z);
    channels.load(taps.tap(back), w);
    for (std::size_t i = 0; i < kBlock; ++i) sum[i] += w[i] * z[i];
  }
}

// round(values) as the next product reads it.
template <typename T>
void round_all(Block& values) {
  if constexpr (sizeof(T) == 2) {
    for (float& x : values) x = base::bf16_to_float(base::float_to_bf16(x));
  }
}

template <typename T>
void forward_cpu(const at::Tensor& out, const at::Tensor& inputs, const at::Tensor& c,
                 const at::Tensor& weight, const at::Tensor& bias, const std::vector<ConvRows>& rows) {
  const Sources<T> sources(inputs, rows);
  const Taps taps(weight, bias);
  const Matrix<const T> gate = read<T>(c);
  const Matrix<T> to = write<T>(out);
  const std::int64_t channels = inputs.size(1);
  over_rows(inputs.size(0), channels * (taps.count + 2), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::size_t place = sources.place_of(t);
      for_channels(channels, [&](const Channels& block) {
        Block sum, g;
        sum_taps(sources, taps, t, place, block, sum);
        round_all<T>(sum);
        block.load(gate.row(t), g);
        for (std::size_t i = 0; i < kBlock; ++i) sum[i] *= g[i];
        block.store(sum, to.row(t));
      });
    }
  });
}

// c becomes its gradient, d that of the sum over taps.
template <typename T>
void gate_backward(const at::Tensor& c, const at::Tensor& d, const Sources<T>& sources, const Taps& taps) {
  const Matrix<T> gate = write<T>(c), gradient = write<T>(d);
  const std::int64_t channels = c.size(1);
  over_rows(c.size(0), channels * (taps.count + 3), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::size_t place = sources.place_of(t);
      for_channels(channels, [&](const Channels& block) {
        Block sum, g, dy;
        sum_taps(sources, taps, t, place, block, sum);
        round_all<T>(sum);
        block.load(gate.row(t), g);
        block.load(gradient.row(t), dy);
        for (std::size_t i = 0; i < kBlock; ++i) {
          sum[i] *= dy[i];
          g[i] *= dy[i];
        }
        block.store(sum, gate.row(t));
        block.store(g, gradient.row(t));
      });
    }
  });
}

// A token whose sum reads another one: its row, and how many tokens come between.
struct Reader {
  std::int64_t row = 0, back = 0;
};

// Those that read token t of segment `s`: of the segment itself, then of those that follow it.
class Readers {
 public:
  Readers(const std::vector<AttentionSegment>& segments, std::int64_t taps)
      : segments_(segments), taps_(taps), followers_(segments.size()) {
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const std::int64_t prefix = segments[i].prefix;
      if (prefix != kNoSegment) followers_[static_cast<std::size_t>(prefix)].push_back(i);
    }
  }
  void of(std::int64_t t, std::vector<Reader>& out) const {
    out.clear();
    const auto after =
        std::upper_bound(segments_.begin(), segments_.end(), t,
                         [](std::int64_t at, const AttentionSegment& s) { return at < s.begin; });
    const auto s = static_cast<std::size_t>(after - segments_.begin()) - 1;
    const std::int64_t end = segments_[s].end;
    for (std::int64_t back = 0; back < taps_ && t + back < end; ++back) out.push_back({t + back, back});
    for (const std::size_t f : followers_[s]) {
      const AttentionSegment& next = segments_[f];
      for (std::int64_t back = end - t; back < taps_; ++back) {
        const std::int64_t row = next.begin + back - (end - t);
        if (row < next.end) out.push_back({row, back});
      }
    }
  }

 private:
  const std::vector<AttentionSegment>& segments_;
  std::int64_t taps_;
  std::vector<std::vector<std::size_t>> followers_;
};

// b and x become their gradients.
template <typename T>
void input_backward(const at::Tensor& b, const at::Tensor& x, const at::Tensor& du, const Readers& readers,
                    const Taps& taps) {
  const Matrix<T> first = write<T>(b), second = write<T>(x);
  const Matrix<const T> gradient = read<T>(du);
  const std::int64_t channels = b.size(1);
  over_rows(b.size(0), channels * (taps.count + 4), [&](std::int64_t begin, std::int64_t end) {
    std::vector<Reader> all;
    for (std::int64_t t = begin; t < end; ++t) {
      readers.of(t, all);
      for_channels(channels, [&](const Channels& block) {
        Block dz{}, d, w, left, right;
        for (const Reader& reader : all) {
          block.load(gradient.row(reader.row), d);
          block.load(taps.tap(reader.back), w);
          for (std::size_t i = 0; i < kBlock; ++i) dz[i] += w[i] * d[i];
        }
        block.load(first.row(t), left);
        block.load(second.row(t), right);
        for (std::size_t i = 0; i < kBlock; ++i) {
          const float of_b = dz[i] * right[i];
          right[i] = dz[i] * left[i];
          left[i] = of_b;
        }
        block.store(left, first.row(t));
        block.store(right, second.row(t));
      });
    }
  });
}

template <typename T>
void weight_gradient(const at::Tensor& d_weight, const at::Tensor& du, const Sources<T>& sources) {
  const std::int64_t taps = d_weight.size(2), channels = du.size(1);
  const Matrix<const T> gradient = read<T>(du);
  float* const out = d_weight.data_ptr<float>();
  in_team((channels + kBlock - 1) / kBlock, at::get_num_threads(), [&](std::int64_t unit, std::int64_t) {
    const Channels block{unit * kBlock, std::min(kBlock, channels - unit * kBlock)};
    std::vector<Block> sums(static_cast<std::size_t>(taps), Block{});
    for (std::int64_t t = 0; t < du.size(0); ++t) {
      const std::size_t place = sources.place_of(t);
      Block d, z;
      block.load(gradient.row(t), d);
      for (std::int64_t back = 0; back < taps; ++back) {
        const T* const row = sources.of(t, back, place);
        if (row == nullptr) break;
        block.load(row, z);
        Block& sum = sums[static_cast<std::size_t>(back)];
        for (std::size_t i = 0; i < kBlock; ++i) sum[i] += d[i] * z[i];
      }
    }
    for (std::int64_t i = 0; i < block.width; ++i) {
      for (std::int64_t back = 0; back < taps; ++back) {
        out[(block.first + i) * taps + taps - 1 - back] +=
            sums[static_cast<std::size_t>(back)][static_cast<std::size_t>(i)];
      }
    }
  });
}

template <typename T>
void backward_cpu(const ConvGates& gates, const at::Tensor& d, const at::Tensor& inputs,
                  const at::Tensor& weight, const at::Tensor& bias,
                  const std::vector<AttentionSegment>& segments, const at::Tensor& d_weight) {
  const Taps taps(weight, bias);
  const Sources<T> sources(inputs, conv_rows(inputs, segments, taps.count));
  gate_backward<T>(gates.c, d, sources, taps);
  if (d_weight.defined()) weight_gradient<T>(d_weight, d, sources);
  input_backward<T>(gates.b, gates.x, d, Readers(segments, taps.count), taps);
}

bool are_rows_of(std::initializer_list<const Tensor*> tensors, at::ScalarType dtype) {
  return rows_fit(tensors) && std::all_of(tensors.begin(), tensors.end(),
                                          [dtype](const Tensor* one) { return one->scalar_type() == dtype; });
}

}  // namespace

bool short_conv(const Tensor& out, const Tensor& inputs, const Tensor& bcx, const Tensor& weight,
                const Tensor& bias, const std::vector<ConvRows>& rows) {
  const Tensor c = conv_gates(bcx).c;
  if (!are_rows_of({&out, &inputs, &c}, inputs.scalar_type())) return false;
  const bool bf16 = inputs.scalar_type() == at::kBFloat16;
  (bf16 ? forward_cpu<std::uint16_t> : forward_cpu<float>)(out, inputs, c, weight, bias, rows);
  return true;
}

bool short_conv_backward(const Tensor& bcx, const Tensor& d, const Tensor& weight, const Tensor& bias,
                         const Segments& segments, const Tensor& d_weight) {
  const ConvGates gates = conv_gates(bcx);
  if (!are_rows_of({&gates.b, &d}, bcx.scalar_type())) return false;
  const bool bf16 = bcx.scalar_type() == at::kBFloat16;
  (bf16 ? backward_cpu<std::uint16_t> : backward_cpu<float>)(gates, d, conv_inputs(bcx), weight, bias,
                                                             segments, d_weight);
  return true;
}

}  // namespace hone::ops::cpu
