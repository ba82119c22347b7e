#include "ops/short_conv.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/half.h"
#include "ops/cpu/row_call.h"

namespace hone::ops {
namespace {

constexpr const char* kWhere = "ops::short_conv";

struct Gates {
  at::Tensor b, c, x;  // [T, H], rows strided
};

Gates gates_of(const at::Tensor& bcx) {
  base::require(bcx.dim() == 2 && bcx.size(1) % 3 == 0, kWhere, "b, c and x side by side");
  const std::int64_t h = bcx.size(1) / 3;
  return {bcx.narrow(1, 0, h), bcx.narrow(1, h, h), bcx.narrow(1, 2 * h, h)};
}

void require_weights(const at::Tensor& weight, const at::Tensor& bias, std::int64_t channels) {
  base::require(weight.dim() == 3 && weight.size(0) == channels && weight.size(1) == 1, kWhere,
                "weights [channels, 1, taps]");
  base::require(!bias.defined() || bias.numel() == channels, kWhere, "a bias for each channel");
}

// ---- in ATen, for any device

// [n, H] in fp32: the sum over taps of the last n rows of z.
at::Tensor taps_summed(const at::Tensor& z, std::int64_t n, const at::Tensor& weight,
                       const at::Tensor& bias) {
  const std::int64_t taps = weight.size(2), h = weight.size(0), earlier = z.size(0) - n;
  const at::Tensor wide = z.to(at::kFloat), w = weight.to(at::kFloat);
  at::Tensor padded = wide;
  if (earlier < taps - 1) padded = at::cat({at::zeros({taps - 1 - earlier, h}, wide.options()), wide});
  if (earlier > taps - 1) padded = wide.narrow(0, earlier - (taps - 1), n + taps - 1);
  at::Tensor sum = bias.defined() ? bias.to(at::kFloat).expand({n, h}) : at::zeros({n, h}, wide.options());
  for (std::int64_t j = 0; j < taps; ++j) sum = sum + w.select(2, j).view({h}) * padded.narrow(0, j, n);
  return sum;
}

at::Tensor with_before(const at::Tensor& inputs, const ConvRows& rows) {
  const at::Tensor own = inputs.narrow(0, rows.begin, rows.end - rows.begin);
  return rows.before.defined() && rows.before.size(0) > 0 ? at::cat({rows.before, own}) : own;
}

void forward_aten(const at::Tensor& out, const at::Tensor& inputs, const at::Tensor& c,
                  const at::Tensor& weight, const at::Tensor& bias, const std::vector<ConvRows>& rows) {
  for (const ConvRows& one : rows) {
    const std::int64_t n = one.end - one.begin;
    const at::Tensor sum = taps_summed(with_before(inputs, one), n, weight, bias).to(inputs.scalar_type());
    out.narrow(0, one.begin, n).copy_(c.narrow(0, one.begin, n) * sum);
  }
}

// dz [T, H] fp32 of du, and the weights' gradients.
at::Tensor backward_aten(const at::Tensor& du, const at::Tensor& z, const at::Tensor& weight,
                         const std::vector<AttentionSegment>& segments, const at::Tensor& d_weight) {
  const std::int64_t taps = weight.size(2), h = weight.size(0);
  const at::Tensor wide = du.to(at::kFloat), w = weight.to(at::kFloat), inputs = z.to(at::kFloat);
  at::Tensor dz = at::zeros(du.sizes(), wide.options());
  // the n rows at `to` read those at `from`, `back` tokens before them
  const auto pass = [&](std::int64_t to, std::int64_t from, std::int64_t n, std::int64_t back) {
    const std::int64_t j = taps - 1 - back;
    const at::Tensor d = wide.narrow(0, to, n);
    dz.narrow(0, from, n).add_(d * w.select(2, j).view({h}));
    if (d_weight.defined()) d_weight.select(2, j).view({h}).add_((d * inputs.narrow(0, from, n)).sum(0));
  };
  for (const AttentionSegment& s : segments) {
    for (std::int64_t back = 0; back < taps; ++back) {
      const std::int64_t length = s.end - s.begin;
      if (back < length) pass(s.begin + back, s.begin, length - back, back);
      if (s.prefix == kNoSegment || back == 0) continue;
      const AttentionSegment& prefix = segments[static_cast<std::size_t>(s.prefix)];
      // row m of the segment reads the prefix's row end - back + m
      const std::int64_t first = std::max<std::int64_t>(0, back - (prefix.end - prefix.begin));
      const std::int64_t n = std::min(back, length) - first;
      if (n > 0) pass(s.begin + first, prefix.end - back + first, n, back);
    }
  }
  return dz;
}

// ---- on the CPU: blocks of channels, all computed in the same way

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
void backward_cpu(const Gates& gates, const at::Tensor& d, const at::Tensor& inputs, const at::Tensor& weight,
                  const at::Tensor& bias, const std::vector<AttentionSegment>& segments,
                  const at::Tensor& d_weight) {
  const Taps taps(weight, bias);
  const Sources<T> sources(inputs, conv_rows(inputs, segments, taps.count));
  gate_backward<T>(gates.c, d, sources, taps);
  if (d_weight.defined()) weight_gradient<T>(d_weight, d, sources);
  input_backward<T>(gates.b, gates.x, d, Readers(segments, taps.count), taps);
}

bool fits(std::initializer_list<const at::Tensor*> tensors, at::ScalarType dtype) {
  return rows_fit(tensors) && std::all_of(tensors.begin(), tensors.end(), [dtype](const at::Tensor* one) {
           return one->scalar_type() == dtype;
         });
}

}  // namespace

at::Tensor short_conv(const at::Tensor& bcx, const at::Tensor& weight, const at::Tensor& bias,
                      const std::vector<std::pair<std::int64_t, std::int64_t>>& segments) {
  const Gates gates = gates_of(bcx);
  require_weights(weight, bias, gates.b.size(1));
  const at::Tensor z = gates.b * gates.x;
  std::vector<at::Tensor> sums;
  for (const auto& [begin, end] : segments)
    sums.push_back(taps_summed(z.narrow(0, begin, end - begin), end - begin, weight, bias));
  return gates.c * at::cat(sums).to(bcx.scalar_type());
}

at::Tensor conv_inputs(const at::Tensor& bcx) {
  const Gates gates = gates_of(bcx);
  return gates.b * gates.x;
}

std::vector<ConvRows> conv_rows(const at::Tensor& inputs, const std::vector<AttentionSegment>& segments,
                                std::int64_t taps) {
  std::vector<ConvRows> rows;
  for (const AttentionSegment& s : segments) {
    ConvRows& one = rows.emplace_back();
    one.begin = s.begin;
    one.end = s.end;
    if (s.prefix == kNoSegment) continue;
    const AttentionSegment& prefix = segments[static_cast<std::size_t>(s.prefix)];
    const std::int64_t n = std::min(taps - 1, prefix.end - prefix.begin);
    one.before = inputs.narrow(0, prefix.end - n, n);
  }
  return rows;
}

void short_conv_into(at::Tensor out, const at::Tensor& inputs, const at::Tensor& bcx,
                     const at::Tensor& weight, const at::Tensor& bias, const std::vector<ConvRows>& rows) {
  const Gates gates = gates_of(bcx);
  require_weights(weight, bias, gates.b.size(1));
  base::require(out.sizes() == inputs.sizes() && inputs.sizes() == gates.b.sizes() && !rows.empty(), kWhere,
                "out and inputs of [T, H]");
  if (!fits({&out, &inputs, &gates.c}, inputs.scalar_type())) {
    forward_aten(out, inputs, gates.c, weight, bias, rows);
  } else if (inputs.scalar_type() == at::kBFloat16) {
    forward_cpu<std::uint16_t>(out, inputs, gates.c, weight, bias, rows);
  } else {
    forward_cpu<float>(out, inputs, gates.c, weight, bias, rows);
  }
}

void short_conv_backward(at::Tensor bcx, at::Tensor d, const at::Tensor& weight, const at::Tensor& bias,
                         const std::vector<AttentionSegment>& segments, const at::Tensor& d_weight,
                         const at::Tensor& d_bias) {
  const Gates gates = gates_of(bcx);
  require_weights(weight, bias, gates.b.size(1));
  base::require(d.sizes() == gates.b.sizes(), kWhere, "a gradient of [T, H]");
  const at::Tensor z = conv_inputs(bcx);
  if (fits({&gates.b, &d}, bcx.scalar_type())) {
    if (bcx.scalar_type() == at::kBFloat16) {
      backward_cpu<std::uint16_t>(gates, d, z, weight, bias, segments, d_weight);
    } else {
      backward_cpu<float>(gates, d, z, weight, bias, segments, d_weight);
    }
  } else {
    std::vector<at::Tensor> sums;
    for (const ConvRows& one : conv_rows(z, segments, weight.size(2)))
      sums.push_back(taps_summed(with_before(z, one), one.end - one.begin, weight, bias));
    const at::Tensor d_gate = d * at::cat(sums).to(d.scalar_type());
    d.mul_(gates.c);
    gates.c.copy_(d_gate);
    const at::Tensor dz = backward_aten(d, z, weight, segments, d_weight);
    const at::Tensor of_b = dz * gates.x;
    gates.x.copy_(dz * gates.b);
    gates.b.copy_(of_b);
  }
  if (d_bias.defined()) d_bias.add_(d.to(at::kFloat).sum(0));
}

ConvInputs::ConvInputs(std::int64_t channels, std::int64_t taps, at::ScalarType dtype, at::Device device)
    : rows_(at::empty({taps - 1 + 2 * kTakenBack, channels}, at::TensorOptions(dtype).device(device))),
      taps_(taps) {}

void ConvInputs::append(const at::Tensor& inputs) {
  base::require(inputs.dim() == 2 && inputs.size(1) == rows_.size(1), "ops::ConvInputs",
                "inputs of [n, channels]");
  const std::int64_t n = inputs.size(0), least = taps_ - 1 + kTakenBack;
  if (held_ + n > rows_.size(0)) {
    const std::int64_t kept = std::min(held_, std::max<std::int64_t>(0, least - n));
    if (kept > 0) rows_.narrow(0, 0, kept).copy_(rows_.narrow(0, held_ - kept, kept).clone());
    held_ = kept;
  }
  const std::int64_t taken = std::min(n, rows_.size(0) - held_);
  rows_.narrow(0, held_, taken).copy_(inputs.narrow(0, n - taken, taken));
  held_ += taken;
  length_ += n;
}

at::Tensor ConvInputs::last(std::int64_t most) const {
  const std::int64_t n = std::min(most, held_);
  return rows_.narrow(0, held_ - n, n);
}

bool ConvInputs::can_truncate(std::int64_t length) const {
  if (length == 0 || held_ == length_) return length <= length_;
  return length <= length_ && length - (taps_ - 1) >= length_ - held_;
}

void ConvInputs::truncate(std::int64_t length) {
  base::require(length >= 0 && can_truncate(length), "ops::ConvInputs", "a length whose inputs are held");
  held_ = length == 0 ? 0 : held_ - (length_ - length);
  length_ = length;
}

ConvInputs ConvInputs::clone() const {
  ConvInputs out = *this;
  if (rows_.defined()) out.rows_ = rows_.clone();
  return out;
}

std::int64_t ConvInputs::bytes(std::int64_t channels, std::int64_t taps, at::ScalarType dtype) {
  return (taps - 1 + 2 * kTakenBack) * channels * static_cast<std::int64_t>(at::elementSize(dtype));
}

}  // namespace hone::ops
