// The fused form of the delta rule on the CPU (ops/delta_rule.h): what its forward and backward share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/backend/cpu/delta_rule_kernels.h"
#include "ops/delta_rule.h"

namespace hone::ops::delta {

// Returns whether the fused form takes these tensors: fp32 or bf16 of one dtype on the CPU.
bool fits(const at::Tensor& in, const at::Tensor& other, const DeltaWeights& weights);

// Floats to a row, so that rows of a power of two do not fall on the same lines of the cache.
constexpr std::int64_t row_stride(std::int64_t width) {
  return (width + kColumns - 1) / kColumns * kColumns + 16;
}

// The weights in fp32, as the kernels read them.
struct Prepared {
  Prepared(const at::Tensor& in, const DeltaWeights& weights, const DeltaShape& shape);

  const float* tap(std::int64_t channel) const { return taps.const_data_ptr<float>() + channel; }

  DeltaShape shape;
  bool bf16 = false, rounds_product = false;
  std::int64_t taps_count = 0;
  at::Tensor taps;  // [L, C], nearest first
  at::Tensor norm;
  std::vector<float> rates, biases;  // exp(a_log) and dt_bias of each value head
};

// Rows of x for a convolution: of a sequence, the rows before it and those of `in`.
struct Source {
  const char* in = nullptr;  // of the segment's first token
  std::int64_t row_bytes = 0;
  std::vector<const void*> before;  // the nearest first

  // Gives the rows that tokens [begin, end) read, as ConvArgs::rows.
  void rows_of(std::int64_t begin, std::int64_t end, std::int64_t taps, std::vector<const void*>& out) const;
};
// Of the rows of `last`, [., C], then of `earlier`; either may be undefined.
std::vector<const void*> rows_before(const at::Tensor& last, const at::Tensor& earlier, std::int64_t taps);

// Channels [first, first + width) of tokens whose rows `rows` has; `out` with rows row_stride(width) apart.
ConvArgs conv_args(const Prepared& p, const std::vector<const void*>& rows, std::int64_t count,
                   std::int64_t first, std::int64_t width, float* out);

float element(const void* row, std::int64_t column, bool bf16);
void set_element(void* row, std::int64_t column, bool bf16, float value);
float sigmoid_of(float x);

// q and k of a head, v of a value head, as unit vectors and u, for tokens [begin, end).
struct HeadInputs {
  std::int64_t key_head = 0, value_head = 0;
  float *q = nullptr, *k = nullptr, *v = nullptr;  // [., row_stride(D)], [., row_stride(E)]
  float *q_inverse = nullptr, *k_inverse = nullptr;
};
void read_queries(const Prepared& p, const std::vector<const void*>& rows, std::int64_t count,
                  const HeadInputs& to);
void read_values(const Prepared& p, const std::vector<const void*>& rows, std::int64_t count,
                 const HeadInputs& to);

// beta, rounded to in's dtype, and the log of the decay, of one token: `row` of in.
struct Gates {
  float beta = 0, log_decay = 0;
};
Gates gates_of(const Prepared& p, const void* row, std::int64_t value_head);

// S of each value head, as DeltaState keeps it.
struct Heads {
  float* values = nullptr;  // [V, blocks, D, 32]
  float* scales = nullptr;  // [V]
};
// Tokens of one sequence; S before them (null: 0), and where S after them goes (null: nowhere), which may be the same.
struct Rows {
  Source source;
  std::int64_t begin = 0, end = 0;  // rows of in and out
  Heads from, to;
};
void forward(const at::Tensor& out, const at::Tensor& in, const Prepared& p, const std::vector<Rows>& rows);

void backward(const at::Tensor& in, const at::Tensor& d, const Prepared& p,
              const std::vector<AttentionSegment>& segments, const DeltaGradients& gradients);
std::int64_t backward_bytes(const DeltaShape& shape, std::int64_t longest, std::int64_t threads);

}  // namespace hone::ops::delta
