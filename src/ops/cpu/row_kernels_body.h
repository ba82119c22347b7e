// The body of every instruction set's form of row_kernels.h. Included once by each row_kernels_*.cpp, after
// it has set HONE_NATIVE_LANES to the fp32 lanes of its widest register. Everything is in an anonymous
// namespace, and no template of the standard library is used: the linker could keep the copy that was
// compiled with wide instructions.
#pragma once

#include "ops/cpu/row_kernels.h"

namespace hone::ops {
namespace {

constexpr std::int64_t kNative = HONE_NATIVE_LANES;
constexpr std::int64_t kLanes = 32;  // of a sum
constexpr std::int64_t kParts = kLanes / kNative;

using Float = float __attribute__((vector_size(kNative * 4)));
using Word = std::uint32_t __attribute__((vector_size(kNative * 4)));
using Half = std::uint16_t __attribute__((vector_size(kNative * 2)));

struct Bf16 {
  std::uint16_t bits;
};

Word bits_of(Float v) {
  return reinterpret_cast<Word>(v);
}

Float float_of(Word v) {
  return reinterpret_cast<Float>(v);
}

Float widen(Half half) {
  return float_of(__builtin_convertvector(half, Word) << 16);
}

Word rounded_bits(Float v) {  // in the upper half; the lower half is unspecified
  const Word u = bits_of(v);
  const Word nearest_even = u + 0x7fffU + ((u >> 16) & 1U);
  return (u & 0x7fffffffU) > 0x7f800000U ? (u | 0x400000U) : nearest_even;  // NaN stays NaN
}

// A whole vector, or the rest of the row.
struct Whole {};
struct Rest {
  std::int64_t count;
};

Float load(const float* p, Whole /*all*/) {
  Float v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
Float load(const Bf16* p, Whole /*all*/) {
  Half v;
  __builtin_memcpy(&v, p, sizeof v);
  return widen(v);
}
template <class T>
Float load(const T* p, Rest rest) {
  T padded[kNative] = {};
  for (std::int64_t i = 0; i < rest.count; ++i) padded[i] = p[i];
  return load(padded, Whole{});
}

void store(float* p, Float v, Whole /*all*/) {
  __builtin_memcpy(p, &v, sizeof v);
}
void store(Bf16* p, Float v, Whole /*all*/) {
  const Half half = __builtin_convertvector(rounded_bits(v) >> 16, Half);
  __builtin_memcpy(p, &half, sizeof half);
}
template <class T>
void store(T* p, Float v, Rest rest) {
  T padded[kNative];
  store(padded, v, Whole{});
  for (std::int64_t i = 0; i < rest.count; ++i) p[i] = padded[i];
}

// The value of v after storing it as a T and loading it again.
template <class T>
Float as(Float v) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return v;
  } else {
    return float_of(rounded_bits(v) & 0xffff0000U);
  }
}

template <class T>
const T* row_of(const RowsIn& rows, std::int64_t t) {
  return static_cast<const T*>(rows.data) + t * rows.stride;
}
template <class T>
T* row_of(const RowsOut& rows, std::int64_t t) {
  return static_cast<T*>(rows.data) + t * rows.stride;
}

template <class Step>
void over(std::int64_t width, Step step) {
  std::int64_t i = 0;
  for (; i + kNative <= width; i += kNative) step(i, Whole{});
  if (i < width) step(i, Rest{width - i});
}

float folded(const Float (&part)[kParts]) {
  Float half[kParts];
  for (std::int64_t p = 0; p < kParts; ++p) half[p] = part[p];
#pragma GCC unroll 8
  for (std::int64_t n = kParts / 2; n >= 1; n /= 2) {
#pragma GCC unroll 8
    for (std::int64_t p = 0; p < n; ++p) half[p] = half[p] + half[p + n];
  }
  float lane[kNative];
  __builtin_memcpy(lane, &half[0], sizeof lane);
#pragma GCC unroll 8
  for (std::int64_t n = kNative / 2; n >= 1; n /= 2) {
#pragma GCC unroll 8
    for (std::int64_t p = 0; p < n; ++p) lane[p] = lane[p] + lane[p + n];
  }
  return lane[0];
}

// Sums over a row of a and b as set by term(i, mode, a, b).
struct Sums {
  float a, b;
};
template <class Term>
Sums sums_over(std::int64_t width, Term term) {
  Float a[kParts] = {}, b[kParts] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
#pragma GCC unroll 8
    for (std::int64_t p = 0; p < kParts; ++p) {
      Float more_a = {}, more_b = {};
      term(i + p * kNative, Whole{}, more_a, more_b);
      a[p] += more_a;
      b[p] += more_b;
    }
  }
#pragma GCC unroll 8
  for (std::int64_t p = 0; p < kParts; ++p) {
    const std::int64_t at = i + p * kNative;
    Float more_a = {}, more_b = {};
    if (at + kNative <= width) {
      term(at, Whole{}, more_a, more_b);
    } else if (at < width) {
      term(at, Rest{width - at}, more_a, more_b);
    }
    a[p] += more_a;
    b[p] += more_b;
  }
  return {folded(a), folded(b)};
}

float inverse_rms(float sum_of_squares, std::int64_t width, float eps) {
  return 1.0F / __builtin_sqrtf(sum_of_squares / static_cast<float>(width) + eps);
}

template <class X>
float inverse_rms_of(const X* x, std::int64_t width, float eps) {
  const Sums sums = sums_over(width, [&](std::int64_t i, auto mode, Float& a, Float& /*b*/) {
    const Float v = load(x + i, mode);
    a = v * v;
  });
  return inverse_rms(sums.a, width, eps);
}

// The wider of two dtypes: the dtype of their product in the autograd form.
template <class A, class B>
struct Wider {
  using Type = float;
};
template <>
struct Wider<Bf16, Bf16> {
  using Type = Bf16;
};

template <class X, class W, class Out>
void norm_rows(const NormArgs& n, std::int64_t begin, std::int64_t end) {
  const W* weight = row_of<W>(n.weight, 0);
  for (std::int64_t t = begin; t < end; ++t) {
    const X* x = row_of<X>(n.x, t);
    Out* out = row_of<Out>(n.out, t);
    const float inverse = inverse_rms_of(x, n.width, n.eps);
    over(n.width, [&](std::int64_t i, auto mode) {
      const Float normed = as<X>(load(x + i, mode) * inverse);
      Float product = load(weight + i, mode) * normed;
      if constexpr (sizeof(Out) == sizeof(float)) product = as<typename Wider<X, W>::Type>(product);
      store(out + i, product, mode);
    });
  }
}

// d(norm) by x for g = dy * weight: inverse * (g - normed * mean(g * normed)).
struct NormGradient {
  float inverse, mean;
  Float operator()(Float x, Float g) const { return inverse * (g - x * inverse * mean); }
};

template <class X, class W, class D>
NormGradient norm_gradient(const X* x, const W* weight, const D* dy, std::int64_t width, float eps) {
  const Sums sums = sums_over(width, [&](std::int64_t i, auto mode, Float& a, Float& b) {
    const Float v = load(x + i, mode);
    a = v * v;
    b = load(dy + i, mode) * load(weight + i, mode) * v;
  });
  const float inverse = inverse_rms(sums.a, width, eps);
  return {inverse, sums.b * inverse / static_cast<float>(width)};
}

template <class X, class W, class D>
void norm_backward_rows(const NormBackwardArgs& n, std::int64_t begin, std::int64_t end) {
  const W* weight = row_of<W>(n.weight, 0);
  for (std::int64_t t = begin; t < end; ++t) {
    const X* x = row_of<X>(n.x, t);
    const D* dy = row_of<D>(n.dy, t);
    X* dx = row_of<X>(n.dx, t);
    const NormGradient gradient = norm_gradient(x, weight, dy, n.width, n.eps);
    over(n.width, [&](std::int64_t i, auto mode) {
      const Float g = load(dy + i, mode) * load(weight + i, mode);
      store(dx + i, load(dx + i, mode) + gradient(load(x + i, mode), g), mode);
    });
  }
}

struct NoWeight {};

template <class X, class W, class Table>
void rotate_rows(const RotateArgs& r, std::int64_t begin, std::int64_t end) {
  const std::int64_t half = r.rotated / 2, rest = r.head_dim - r.rotated;
  for (std::int64_t t = begin; t < end; ++t) {
    const Table *cos = row_of<Table>(r.cos, t), *sin = row_of<Table>(r.sin, t);
    for (std::int64_t head = 0; head < r.heads; ++head) {
      const X* x = row_of<X>(r.x, t) + head * r.x_head;
      X* out = row_of<X>(r.out, t) + head * r.out_head;
      const auto turn = [&](auto normed) {
        over(half, [&](std::int64_t i, auto mode) {
          const Float low = normed(i, mode), high = normed(i + half, mode);
          store(out + i, low * load(cos + i, mode) - high * load(sin + i, mode), mode);
          store(out + i + half, high * load(cos + i + half, mode) + low * load(sin + i + half, mode), mode);
        });
        over(rest, [&](std::int64_t i, auto mode) {
          store(out + i + r.rotated, normed(i + r.rotated, mode), mode);
        });
      };
      if constexpr (sizeof(W) == sizeof(NoWeight)) {
        turn([&](std::int64_t i, auto mode) { return load(x + i, mode); });
      } else {
        const W* weight = row_of<W>(r.weight, 0);
        const float inverse = inverse_rms_of(x, r.head_dim, r.eps);
        turn([&](std::int64_t i, auto mode) {
          const Float normed = as<X>(load(x + i, mode) * inverse);
          return as<typename Wider<X, W>::Type>(load(weight + i, mode) * normed);
        });
      }
    }
  }
}

// The rotation's transpose goes through fp32 memory, because the norm's gradient needs the whole head twice.
template <class X, class W, class Table>
void rotate_backward_rows(const RotateArgs& r, std::int64_t begin, std::int64_t end) {
  const std::int64_t half = r.rotated / 2;
  float turned[kHeadDimMost];
  for (std::int64_t t = begin; t < end; ++t) {
    const Table *cos = row_of<Table>(r.cos, t), *sin = row_of<Table>(r.sin, t);
    for (std::int64_t head = 0; head < r.heads; ++head) {
      X* d = row_of<X>(r.out, t) + head * r.out_head;
      const auto turn = [&](auto* to) {
        over(half, [&](std::int64_t i, auto mode) {
          const Float low = load(d + i, mode), high = load(d + i + half, mode);
          store(to + i, low * load(cos + i, mode) + high * load(sin + i + half, mode), mode);
          store(to + i + half, high * load(cos + i + half, mode) - low * load(sin + i, mode), mode);
        });
      };
      if constexpr (sizeof(W) == sizeof(NoWeight)) {
        turn(d);
      } else {
        turn(static_cast<float*>(turned));
        over(r.head_dim - r.rotated, [&](std::int64_t i, auto mode) {
          store(static_cast<float*>(turned) + i + r.rotated, load(d + i + r.rotated, mode), mode);
        });
        const W* weight = row_of<W>(r.weight, 0);
        const X* x = row_of<X>(r.x, t) + head * r.x_head;
        const NormGradient gradient =
            norm_gradient(x, weight, static_cast<const float*>(turned), r.head_dim, r.eps);
        over(r.head_dim, [&](std::int64_t i, auto mode) {
          const Float g = load(static_cast<const float*>(turned) + i, mode) * load(weight + i, mode);
          store(d + i, gradient(load(x + i, mode), g), mode);
        });
      }
    }
  }
}

// tanh as a quotient of polynomials, to 4e-7 relative; beyond 7.9 it is 1. NaN stays NaN.
Float tanh_of(Float x) {
  const Float most = Float{} + 7.90531110763549805F;
  x = x > most ? most : x;
  x = x < -most ? -most : x;
  const Float z = x * x;
  Float p = z * -2.76076847742355e-16F + 2.00018790482477e-13F;
  p = p * z - 8.60467152213735e-11F;
  p = p * z + 5.12229709037114e-08F;
  p = p * z + 1.48572235717979e-05F;
  p = p * z + 6.37261928875436e-04F;
  p = p * z + 4.89352455891786e-03F;
  Float q = z * 1.19825839466702e-06F + 1.18534705686654e-04F;
  q = q * z + 2.26843463243900e-03F;
  q = q * z + 4.89352518554385e-03F;
  return x * p / q;
}

void cap_rows(const CapArgs& c, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    float* x = row_of<float>(c.out, t);
    over(c.width, [&](std::int64_t i, auto mode) {
      store(x + i, tanh_of(load(static_cast<const float*>(x) + i, mode) / c.cap) * c.cap, mode);
    });
  }
}

template <class X>
void cap_backward_rows(const CapArgs& c, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    const float* x = row_of<float>(c.x, t);
    X* d = row_of<X>(c.out, t);
    over(c.width, [&](std::int64_t i, auto mode) {
      const Float share = load(x + i, mode) / c.cap;
      store(d + i, load(static_cast<const X*>(d) + i, mode) * (1.0F - share * share), mode);
    });
  }
}

// exp(z) for z <= 0, relative error below 2e-7; 0 below -87.7; NaN stays NaN. z = n ln 2 + r with |r| <= ln 2
// / 2, and exp(r) = 1 + r + r^2 q(r) with q the interpolation of its series at Chebyshev's points (error
// 1e-8).
Float exp_of_negative(Float z) {
  // 1.5 * 2^23: adding it leaves the nearest whole number in the low bits
  constexpr float kRound = 12582912.0F;
  const Float floor = Float{} - 88.0F;
  z = z < floor ? floor : z;
  const Float shifted = z * 1.44269504F + kRound;
  const Float n = shifted - kRound;
  // ln 2 in two parts; the first product is exact
  const Float r = z - n * 0.693145751953125F - n * 1.42860682e-6F;
  Float q = r * 0.0013926213F + 0.008363203F;
  q = q * r + 0.041666554F;
  q = q * r + 0.16666577F;
  q = q * r + 0.5F;
  const Float mantissa = q * (r * r) + r + 1.0F;
  return mantissa * float_of((bits_of(shifted) + 127U) << 23);  // n = -127 gives 0
}

Float magnitude(Float v) {
  return float_of(bits_of(v) & 0x7fffffffU);
}

// g sigmoid(z), where z has g's sign, through exp(-|z|), which cannot overflow. silu: z = g.
Float gated(Float g, Float z) {
  const Float e = exp_of_negative(-magnitude(z));
  return (g >= 0.0F ? g : g * e) / (1.0F + e);
}

Float gelu_argument(Float g) {
  return (g * g * kGeluCubic + 1.0F) * (g * kGeluScale);
}

template <class T, bool kGelu>
void swiglu_rows(const SwigluArgs& s, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    const T *gate = row_of<T>(s.gate, t), *up = row_of<T>(s.up, t);
    T* out = row_of<T>(s.out, t);
    over(s.width, [&](std::int64_t i, auto mode) {
      const Float g = load(gate + i, mode);
      store(out + i, gated(g, kGelu ? gelu_argument(g) : g) * load(up + i, mode), mode);
    });
  }
}

template <class T, bool kGelu>
void swiglu_backward_rows(const SwigluBackwardArgs& s, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    T *gate = row_of<T>(s.gate, t), *up = row_of<T>(s.up, t);
    const T* d = row_of<T>(s.d, t);
    over(s.width, [&](std::int64_t i, auto mode) {
      const Float g = load(gate + i, mode), u = load(up + i, mode), by_out = load(d + i, mode);
      const Float e = exp_of_negative(-magnitude(kGelu ? gelu_argument(g) : g));
      const Float larger = 1.0F / (1.0F + e), smaller = e * larger;
      const Float sigmoid = g >= 0.0F ? larger : smaller, rest = g >= 0.0F ? smaller : larger;
      const Float d_sigmoid = by_out * sigmoid;
      const Float slope = kGelu ? (g * g * (3.0F * kGeluCubic) + 1.0F) * (g * kGeluScale) : g;  // g dz/dg
      store(gate + i, d_sigmoid * u * (1.0F + slope * rest), mode);
      store(up + i, d_sigmoid * g, mode);
    });
  }
}

template <class X, class Out, bool kAdd>
void mask_row(const MaskArgs& m, std::int64_t width) {
  const X* x = static_cast<const X*>(m.x);
  Out* out = static_cast<Out*>(m.out);
  over(width, [&](std::int64_t i, auto mode) {
    const Float masked = load(x + i, mode) * load(m.mask + i, mode);
    if constexpr (kAdd) {
      store(out + i, load(out + i, mode) + masked, mode);
    } else {
      store(out + i, masked, mode);
    }
  });
}

// The order of torch.optim.AdamW (single tensor form): p *= 1 - lr wd; m = lerp(m, g); v = beta2 v + (1 -
// beta2) g g; p += -lr/c1 * m / (sqrt(v)/sqrt(c2) + eps).
template <bool kNearZero>  // at::lerp's two forms
void adamw_elements(const AdamwArgs& c, std::int64_t begin, std::int64_t end) {
  float* __restrict p = c.p;
  const float* __restrict g = c.g;
  float* __restrict m = c.m;
  float* __restrict v = c.v;
  for (std::int64_t i = begin; i < end; ++i) {
    const float delta = g[i] - m[i];
    m[i] = kNearZero ? m[i] + c.lerp * delta : g[i] - delta * (1.0F - c.lerp);
    v[i] = v[i] * c.beta2 + c.one_minus_beta2 * g[i] * g[i];
    const float denominator = __builtin_sqrtf(v[i]) / c.root_correction2 + c.epsilon;
    p[i] = p[i] * c.decay + c.minus_step_size * m[i] / denominator;
  }
}

void adamw(const AdamwArgs& args, std::int64_t begin, std::int64_t end) {
  const AdamwArgs c = args;  // its constants cannot change under the loop's stores
  c.lerp < 0.5F ? adamw_elements<true>(c, begin, end) : adamw_elements<false>(c, begin, end);
}

// Folded by halves: a single running sum would be a chain of dependent additions.
double sum_of_squares(const float* x, std::int64_t size) {
  constexpr std::int64_t kSquareLanes = 16;
  double lane[kSquareLanes] = {};
  std::int64_t i = 0;
  for (; i + kSquareLanes <= size; i += kSquareLanes) {
    for (std::int64_t j = 0; j < kSquareLanes; ++j) {
      const auto value = static_cast<double>(x[i + j]);
      lane[j] += value * value;
    }
  }
  for (std::int64_t j = 0; j < size - i; ++j) {
    const auto value = static_cast<double>(x[i + j]);
    lane[j] += value * value;
  }
  for (std::int64_t half = kSquareLanes / 2; half >= 1; half /= 2) {
    for (std::int64_t j = 0; j < half; ++j) lane[j] += lane[j + half];
  }
  return lane[0];
}

// ---- dispatch on dtypes, once per call

void norm(const NormArgs& n, std::int64_t begin, std::int64_t end) {
  using Form = void (*)(const NormArgs&, std::int64_t, std::int64_t);
  constexpr Form kForms[2][2][2] = {
      {{&norm_rows<float, float, float>, &norm_rows<float, float, Bf16>},
       {&norm_rows<float, Bf16, float>, &norm_rows<float, Bf16, Bf16>}},
      {{&norm_rows<Bf16, float, float>, &norm_rows<Bf16, float, Bf16>},
       {&norm_rows<Bf16, Bf16, float>, &norm_rows<Bf16, Bf16, Bf16>}},
  };
  kForms[n.x.bf16][n.weight.bf16][n.out.bf16](n, begin, end);
}

void norm_backward(const NormBackwardArgs& n, std::int64_t begin, std::int64_t end) {
  using Form = void (*)(const NormBackwardArgs&, std::int64_t, std::int64_t);
  constexpr Form kForms[2][2][2] = {
      {{&norm_backward_rows<float, float, float>, &norm_backward_rows<float, float, Bf16>},
       {&norm_backward_rows<float, Bf16, float>, &norm_backward_rows<float, Bf16, Bf16>}},
      {{&norm_backward_rows<Bf16, float, float>, &norm_backward_rows<Bf16, float, Bf16>},
       {&norm_backward_rows<Bf16, Bf16, float>, &norm_backward_rows<Bf16, Bf16, Bf16>}},
  };
  kForms[n.x.bf16][n.weight.bf16][n.dy.bf16](n, begin, end);
}

int weight_kind(const RotateArgs& r) {
  if (r.weight.data == nullptr) return 0;
  return r.weight.bf16 ? 2 : 1;
}

using RotateForm = void (*)(const RotateArgs&, std::int64_t, std::int64_t);

void rotate(const RotateArgs& r, std::int64_t begin, std::int64_t end) {
  constexpr RotateForm kForms[2][3][2] = {
      {{&rotate_rows<float, NoWeight, float>, &rotate_rows<float, NoWeight, Bf16>},
       {&rotate_rows<float, float, float>, &rotate_rows<float, float, Bf16>},
       {&rotate_rows<float, Bf16, float>, &rotate_rows<float, Bf16, Bf16>}},
      {{&rotate_rows<Bf16, NoWeight, float>, &rotate_rows<Bf16, NoWeight, Bf16>},
       {&rotate_rows<Bf16, float, float>, &rotate_rows<Bf16, float, Bf16>},
       {&rotate_rows<Bf16, Bf16, float>, &rotate_rows<Bf16, Bf16, Bf16>}},
  };
  kForms[r.out.bf16][weight_kind(r)][r.cos.bf16](r, begin, end);
}

void rotate_backward(const RotateArgs& r, std::int64_t begin, std::int64_t end) {
  constexpr RotateForm kForms[2][3][2] = {
      {{&rotate_backward_rows<float, NoWeight, float>, &rotate_backward_rows<float, NoWeight, Bf16>},
       {&rotate_backward_rows<float, float, float>, &rotate_backward_rows<float, float, Bf16>},
       {&rotate_backward_rows<float, Bf16, float>, &rotate_backward_rows<float, Bf16, Bf16>}},
      {{&rotate_backward_rows<Bf16, NoWeight, float>, &rotate_backward_rows<Bf16, NoWeight, Bf16>},
       {&rotate_backward_rows<Bf16, float, float>, &rotate_backward_rows<Bf16, float, Bf16>},
       {&rotate_backward_rows<Bf16, Bf16, float>, &rotate_backward_rows<Bf16, Bf16, Bf16>}},
  };
  kForms[r.out.bf16][weight_kind(r)][r.cos.bf16](r, begin, end);
}

void swiglu_forward(const SwigluArgs& s, std::int64_t begin, std::int64_t end) {
  using Form = void (*)(const SwigluArgs&, std::int64_t, std::int64_t);
  constexpr Form kForms[2][2] = {{&swiglu_rows<float, false>, &swiglu_rows<Bf16, false>},
                                 {&swiglu_rows<float, true>, &swiglu_rows<Bf16, true>}};
  kForms[s.gelu][s.out.bf16](s, begin, end);
}

void swiglu_gradient(const SwigluBackwardArgs& s, std::int64_t begin, std::int64_t end) {
  using Form = void (*)(const SwigluBackwardArgs&, std::int64_t, std::int64_t);
  constexpr Form kForms[2][2] = {{&swiglu_backward_rows<float, false>, &swiglu_backward_rows<Bf16, false>},
                                 {&swiglu_backward_rows<float, true>, &swiglu_backward_rows<Bf16, true>}};
  kForms[s.gelu][s.d.bf16](s, begin, end);
}

void cap_backward(const CapArgs& c, std::int64_t begin, std::int64_t end) {
  (c.out.bf16 ? &cap_backward_rows<Bf16> : &cap_backward_rows<float>)(c, begin, end);
}

void mask(const MaskArgs& m, std::int64_t width) {
  using Form = void (*)(const MaskArgs&, std::int64_t);
  constexpr Form kForms[2][2][2] = {
      {{&mask_row<float, float, false>, &mask_row<float, float, true>},
       {&mask_row<float, Bf16, false>, &mask_row<float, Bf16, true>}},
      {{&mask_row<Bf16, float, false>, &mask_row<Bf16, float, true>},
       {&mask_row<Bf16, Bf16, false>, &mask_row<Bf16, Bf16, true>}},
  };
  kForms[m.x_bf16][m.out_bf16][m.add](m, width);
}

constexpr RowKernels kRowKernels = {&norm,           &norm_backward,   &rotate,        &rotate_backward,
                                    &swiglu_forward, &swiglu_gradient, &cap_rows,      &cap_backward,
                                    &mask,           &adamw,           &sum_of_squares};

}  // namespace
}  // namespace hone::ops
