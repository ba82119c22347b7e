// The inner loops of the delta rule (ops/delta_rule.h) on raw pointers, for one head. Files that are compiled for wide
// instructions include it, so it declares only these types.
//
// One body (delta_rule_body.h), compiled for each instruction set. Sums over columns of a head are as in row_kernels.h, those of
// products go over the depth in order. Products use fma where there is one: AVX2 and AVX-512 give the same bits, the portable
// form others.
#pragma once

#include <cstdint>

#include "ops/backend/cpu/row_kernels.h"

namespace hone::ops::delta {

constexpr std::int64_t kTokens = 64;   // most of a call
constexpr std::int64_t kColumns = 32;  // of a block of S; widths of products are rounded up to them
constexpr std::int64_t kTapsMost = 16;

// Channels of a convolution in fp32: row t of `out` is silu(sum over back of taps[back] x[t - back]); sum and silu are rounded
// to x's dtype. rows[i]: row i - (L - 1) of x; null: before the first token. taps: [L, .], nearest first.
struct ConvArgs {
  const void* const* rows;
  bool bf16;
  std::int64_t count, first, width;  // tokens; channels of a row
  std::int64_t taps_count;
  const float* taps;  // those of channel `first`
  std::int64_t taps_stride;
  float* out;
  std::int64_t stride;
};
// `out` holds the gradient of u and gets that of the sum.
// dx of the row t of `to` is the sum over back of taps[back] out[t + back], `out` having L - 1 rows more than `count`.
// d_taps, like taps, gets the sum over tokens; null: not wanted.
struct ConvBackwardArgs {
  ConvArgs conv;
  RowsOut to;  // of the first token; channel 0 of a row
  float* d_taps;
};

// A token of a head. total: what S decays by since it was last multiplied; after: what remains of it after this token, total
// itself or 1, when S is multiplied by it.
struct DeltaToken {
  float beta, total, after, inverse;  // inverse: 1 / after
};
// Tokens of a head, for `blocks` blocks of 32 columns, each [D, 32] in state. q, k [count, D]; v [count, 32 blocks] becomes o.
struct RecurArgs {
  float* state;
  std::int64_t blocks, dim, count;
  const float *q, *k;
  std::int64_t qk_stride;
  float* v;
  std::int64_t v_stride;
  float query_scale;  // of q
  const DeltaToken* tokens;
};

// The norm of o with its gate: o [count, E] fp32, rounded to z's dtype first. rounds_product: weight times norm too.
struct GatedNormArgs {
  const float* o;
  std::int64_t stride, count, width;
  RowsIn z;
  RowsOut out;
  const float* weight;
  bool rounds_product;
  float eps;
};
// o becomes its gradient, z too; d_weight [E] gets the sum over tokens; null: not wanted.
struct GatedNormBackwardArgs {
  float* o;
  std::int64_t stride, count, width;
  RowsOut z;
  RowsIn d;
  const float* weight;
  bool rounds_product;
  float eps;
  float* d_weight;
};

// c = a b, or c += a b. Element (i, k) of a at a[i * a_row + k * a_depth]; b [depth, columns], c [rows, columns]; columns are
// rounded up to kColumns, so b and c are as wide. Parts that are known to be zero are skipped. kLowerC: only
// the lower part of c is wanted; above it c may stay as it was, so that it has to be finite where it is multiplied by 0.
enum class Zeros { kNone, kLowerA, kUpperA, kLowerB, kUpperB, kLowerC };  // lower: a(i, k) = 0 where k > i
struct ProductArgs {
  const float* a;
  std::int64_t a_row, a_depth;
  const float* b;
  std::int64_t b_row;
  float* c;
  std::int64_t c_row;
  std::int64_t rows, columns, depth;
  Zeros zeros;
  bool add;
};

struct Kernels {
  void (*conv)(const ConvArgs&);
  void (*conv_backward)(const ConvBackwardArgs&);
  // Rows [count, width] become unit vectors; inverse [count]: of their lengths.
  void (*unit)(float* rows, std::int64_t stride, std::int64_t count, std::int64_t width, float* inverse);
  // d of the unit vectors becomes that of the rows.
  void (*unit_backward)(float* d, const float* unit, std::int64_t stride, std::int64_t count,
                        std::int64_t width, const float* inverse);
  void (*recur)(const RecurArgs&);
  void (*gate)(const GatedNormArgs&);
  void (*gate_backward)(const GatedNormBackwardArgs&);
  void (*product)(const ProductArgs&);
  // to [columns, rows] of from [rows, columns]
  void (*transpose)(const float* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns,
                    float* to, std::int64_t to_row);
  // row i of to = scale[i] * row i of from; in place too
  void (*scale_rows)(const float* from, float* to, std::int64_t stride, std::int64_t rows,
                     std::int64_t columns, const float* scale);
  // exp(sums[i] - sums[j]) for j <= i, else 0
  void (*decays)(const double* sums, std::int64_t count, float* out, std::int64_t stride);
  // out(i) = sum over columns of a(i, j) b(i, j)
  void (*dot_rows)(const float* a, const float* b, std::int64_t stride, std::int64_t rows,
                   std::int64_t columns, float* out);
  // out(j) = sum over rows of a(i, j) b(i, j)
  void (*dot_columns)(const float* a, const float* b, std::int64_t stride, std::int64_t rows,
                      std::int64_t columns, float* out);
  // c = a * b, or c += a * b; to += from; column j of to *= scale[j]
  void (*multiply)(const float* a, const float* b, float* c, std::int64_t stride, std::int64_t rows,
                   std::int64_t columns, bool add);
  void (*add)(const float* from, float* to, std::int64_t stride, std::int64_t rows, std::int64_t columns);
  void (*scale_columns)(float* to, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                        const float* scale);
};

// The forms; null where the compiler does not make one for this processor.
const Kernels* kernels_portable();
const Kernels* kernels_avx2();
const Kernels* kernels_avx512();
const Kernels& kernels();  // of the level in use

}  // namespace hone::ops::delta
