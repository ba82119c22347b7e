// The inner loops of the fused forms (norm, rotation, SwiGLU, dropout), row by row, on raw pointers. Files
// that are compiled for wide instructions include it, so it declares only these types.
//
// One body (row_kernels_body.h), compiled for each instruction set without contraction of a * b + c: every
// instruction set gives the same bits. Inputs and outputs are fp32 or bf16, computation is fp32, rounding to
// bf16 is to nearest even and keeps NaN. A sum over a row has 32 lanes, element i in lane i % 32, folded by
// halves.
#pragma once

#include <cstdint>

#include "ops/backend/gelu_constants.h"

namespace hone::ops {

// Rows of a matrix, each contiguous: `stride` elements from one row to the next.
struct RowsIn {
  const void* data = nullptr;
  std::int64_t stride = 0;
  bool bf16 = false;
};
struct RowsOut {
  void* data = nullptr;
  std::int64_t stride = 0;
  bool bf16 = false;
};

struct NormArgs {
  RowsIn x, weight;  // weight: one row
  RowsOut out;
  std::int64_t width;
  float eps;
};

// dx += the gradient of the norm's input; dx is of x's dtype.
struct NormBackwardArgs {
  RowsIn x, weight, dy;
  RowsOut dx;
  std::int64_t width;
  float eps;
};

// limit of the rotation, whose backward keeps a head on the stack
constexpr std::int64_t kHeadDimMost = 1024;

// x and out of one dtype; a row holds `heads` vectors of head_dim, *_head elements apart. weight.data null:
// no norm. Forward: norm, then rotation of the first `rotated` of a vector (even, at most head_dim). Backward: out holds the
// gradient, in place; x is read with a norm only.
struct RotateArgs {
  RowsIn x, weight, cos, sin;  // cos and sin of one dtype
  RowsOut out;
  std::int64_t x_head, out_head, heads, head_dim, rotated;
  float eps;
};

// All of one dtype. gelu: of the gate instead of silu.
struct SwigluArgs {
  RowsIn gate, up;
  RowsOut out;
  std::int64_t width;
  bool gelu = false;
};
struct SwigluBackwardArgs {
  RowsOut gate, up;
  RowsIn d;
  std::int64_t width;
  bool gelu = false;
};

// out = x sigmoid(gate). Backward, in place: gate becomes its gradient, d that of x. All of one dtype.
struct GateArgs {
  RowsIn x, gate;
  RowsOut out;
  std::int64_t width;
};
struct GateBackwardArgs {
  RowsIn x;
  RowsOut gate, d;
  std::int64_t width;
};

// sums [rows] fp32 = the sum of d x over each row; then, in place, d *= weights [rows] fp32. d and x of one dtype.
struct WeighArgs {
  RowsIn x;
  RowsOut d;
  const float* weights;
  float* sums;
  std::int64_t width;
};

// out = start + the sum over s of weights[t, s] rows[place[t, s]], added in this order. rows, start and out of one dtype; a
// product is rounded to the wider dtype of rows and weights. start.data null: none; weights.data null: 1 each.
struct GatherArgs {
  RowsIn rows, start, weights;
  const std::int64_t* place;  // [T, count]
  std::int64_t count;
  RowsOut out;
  std::int64_t width;
};

// A range of one row: out = x * mask, or out += x * mask.
struct MaskArgs {
  const void* x;
  const float* mask;
  void* out;
  bool x_bf16, out_bf16, add;
};

// AdamW's step on fp32 buffers; the constants and their names are those of learn/adamw.cpp.
struct AdamwArgs {
  float* p;
  const float* g;
  float *m, *v;
  float decay, lerp, beta2, one_minus_beta2, root_correction2, epsilon, minus_step_size;
};

// In place: x = cap tanh(x / cap), rows of fp32. Backward: out *= 1 - (x / cap)^2, x as the forward left it.
struct CapArgs {
  RowsIn x;     // backward only
  RowsOut out;  // fp32; backward: fp32 or bf16
  std::int64_t width;
  float cap;
};

// Rows [begin, end), on the calling thread; adamw: elements. sum_of_squares: fp64, element i in lane i % 16.
struct RowKernels {
  void (*norm)(const NormArgs&, std::int64_t begin, std::int64_t end);
  void (*norm_backward)(const NormBackwardArgs&, std::int64_t begin, std::int64_t end);
  void (*rotate)(const RotateArgs&, std::int64_t begin, std::int64_t end);
  void (*rotate_backward)(const RotateArgs&, std::int64_t begin, std::int64_t end);
  void (*swiglu)(const SwigluArgs&, std::int64_t begin, std::int64_t end);
  void (*swiglu_backward)(const SwigluBackwardArgs&, std::int64_t begin, std::int64_t end);
  void (*gate)(const GateArgs&, std::int64_t begin, std::int64_t end);
  void (*gate_backward)(const GateBackwardArgs&, std::int64_t begin, std::int64_t end);
  void (*weigh)(const WeighArgs&, std::int64_t begin, std::int64_t end);
  void (*gather)(const GatherArgs&, std::int64_t begin, std::int64_t end);
  void (*cap)(const CapArgs&, std::int64_t begin, std::int64_t end);
  void (*cap_backward)(const CapArgs&, std::int64_t begin, std::int64_t end);
  void (*mask)(const MaskArgs&, std::int64_t width);
  void (*adamw)(const AdamwArgs&, std::int64_t begin, std::int64_t end);
  double (*sum_of_squares)(const float* x, std::int64_t size);
};

// The forms; null where the compiler does not make one for this processor.
const RowKernels* row_kernels_portable();
const RowKernels* row_kernels_avx2();
const RowKernels* row_kernels_avx512();

}  // namespace hone::ops
