// The body of every instruction set's form of row_kernels.h. Included once by each row_kernels_*.cpp, after
// it has set HONE_NATIVE_LANES to the fp32 lanes of its widest register. Everything is in an anonymous
// namespace, and no template of the standard library is used: the linker could keep the copy that was
// compiled with wide instructions.
#pragma once

#include "ops/backend/cpu/bodies/row_vectors.h"
#include "ops/backend/cpu/row_kernels.h"

namespace hone::ops {
namespace {

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

template <class T>
void gate_rows(const GateArgs& s, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    const T *x = row_of<T>(s.x, t), *gate = row_of<T>(s.gate, t);
    T* out = row_of<T>(s.out, t);
    over(s.width, [&](std::int64_t i, auto mode) {
      const Float g = load(gate + i, mode), value = load(x + i, mode);
      const Float e = exp_of_negative(-magnitude(g));
      store(out + i, (g >= 0.0F ? value : value * e) / (1.0F + e), mode);
    });
  }
}

template <class T>
void gate_backward_rows(const GateBackwardArgs& s, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    const T* x = row_of<T>(s.x, t);
    T *gate = row_of<T>(s.gate, t), *d = row_of<T>(s.d, t);
    over(s.width, [&](std::int64_t i, auto mode) {
      const Float g = load(gate + i, mode), by_out = load(d + i, mode), value = load(x + i, mode);
      const Float e = exp_of_negative(-magnitude(g));
      const Float larger = 1.0F / (1.0F + e), smaller = e * larger;
      const Float sigmoid = g >= 0.0F ? larger : smaller, rest = g >= 0.0F ? smaller : larger;
      const Float by_x = by_out * sigmoid;
      store(gate + i, by_x * value * rest, mode);
      store(d + i, by_x, mode);
    });
  }
}

template <class T>
void weigh_rows(const WeighArgs& s, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    const T* x = row_of<T>(s.x, t);
    T* d = row_of<T>(s.d, t);
    const Sums sums = sums_over(s.width, [&](std::int64_t i, auto mode, Float& a, Float& /*b*/) {
      a = load(static_cast<const T*>(d) + i, mode) * load(x + i, mode);
    });
    s.sums[t] = sums.a;
    const float weight = s.weights[t];
    over(s.width, [&](std::int64_t i, auto mode) {
      store(d + i, load(static_cast<const T*>(d) + i, mode) * weight, mode);
    });
  }
}

float number(float v) {
  return v;
}
float number(Bf16 v) {
  const std::uint32_t bits = static_cast<std::uint32_t>(v.bits) << 16;
  float out;
  __builtin_memcpy(&out, &bits, sizeof out);
  return out;
}

template <class T, class W>
void gather_rows(const GatherArgs& g, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t* place = g.place + t * g.count;
    T* out = row_of<T>(g.out, t);
    over(g.width, [&](std::int64_t i, auto mode) {
      const auto term = [&](std::int64_t s) {
        const Float value = load(row_of<T>(g.rows, place[s]) + i, mode);
        if constexpr (sizeof(W) == sizeof(NoWeight)) {
          return value;
        } else {
          return as<typename Wider<T, W>::Type>(value * number(row_of<W>(g.weights, t)[s]));
        }
      };
      Float sum = term(0);
      if (g.start.data != nullptr) sum = load(row_of<T>(g.start, t) + i, mode) + sum;
      for (std::int64_t s = 1; s < g.count; ++s) sum += term(s);
      store(out + i, sum, mode);
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

int kind_of(const RowsIn& weight) {
  if (weight.data == nullptr) return 0;
  return weight.bf16 ? 2 : 1;
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
  kForms[r.out.bf16][kind_of(r.weight)][r.cos.bf16](r, begin, end);
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
  kForms[r.out.bf16][kind_of(r.weight)][r.cos.bf16](r, begin, end);
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

void gate(const GateArgs& s, std::int64_t begin, std::int64_t end) {
  (s.out.bf16 ? &gate_rows<Bf16> : &gate_rows<float>)(s, begin, end);
}

void gate_backward(const GateBackwardArgs& s, std::int64_t begin, std::int64_t end) {
  (s.d.bf16 ? &gate_backward_rows<Bf16> : &gate_backward_rows<float>)(s, begin, end);
}

void weigh(const WeighArgs& s, std::int64_t begin, std::int64_t end) {
  (s.d.bf16 ? &weigh_rows<Bf16> : &weigh_rows<float>)(s, begin, end);
}

void gather(const GatherArgs& g, std::int64_t begin, std::int64_t end) {
  using Form = void (*)(const GatherArgs&, std::int64_t, std::int64_t);
  constexpr Form kForms[2][3] = {
      {&gather_rows<float, NoWeight>, &gather_rows<float, float>, &gather_rows<float, Bf16>},
      {&gather_rows<Bf16, NoWeight>, &gather_rows<Bf16, float>, &gather_rows<Bf16, Bf16>}};
  kForms[g.out.bf16][kind_of(g.weights)](g, begin, end);
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
                                    &swiglu_forward, &swiglu_gradient, &gate,          &gate_backward,
                                    &weigh,          &gather,          &cap_rows,      &cap_backward,
                                    &mask,           &adamw,           &sum_of_squares};

}  // namespace
}  // namespace hone::ops
