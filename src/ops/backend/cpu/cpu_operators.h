// The functions of the CPU's table (ops/backend/operators.h) and its layouts. Each asks level.h for the kernels of the
// level in use.
#pragma once

#include "ops/backend/operators.h"

namespace hone::ops::cpu {

using at::Tensor;
using backend::Segments;

extern const backend::WeightLayout kPanels;
extern const backend::CodeLayout kPanelCodes;
extern const backend::KvLayout kKvPairs;

bool rms_norm(const Tensor& out, const Tensor& x, const Tensor& weight, double eps);
bool rms_norm_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& weight, double eps);
bool norm_rope(const Tensor& out, const Tensor& x, const Tensor& norm_weight, double eps,
               const RopeTable& table);
bool norm_rope_backward(const Tensor& d, const Tensor& x, const Tensor& norm_weight, double eps,
                        const RopeTable& table);
bool swiglu(const Tensor& out, const Tensor& gate, const Tensor& up, bool gelu_tanh);
bool swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& d, bool gelu_tanh);
bool sigmoid_gate(const Tensor& out, const Tensor& x, const Tensor& gate);
bool sigmoid_gate_backward(const Tensor& gate, const Tensor& d, const Tensor& x);
bool soft_cap(const Tensor& x, double cap);
bool soft_cap_backward(const Tensor& d, const Tensor& capped, double cap);
bool sum_routed_rows(const Tensor& out, const Tensor& rows, const Tensor& place, const Tensor& weights,
                     const Tensor& start);
bool weigh_rows(const Tensor& out, const Tensor& x, const Tensor& weights);
bool weigh_rows_backward(const Tensor& d, const Tensor& x, const Tensor& weights, const Tensor& sums);
bool draw_mask(const Tensor& out, const DropoutMask& mask);
bool dropout(const Tensor& out, const Tensor& x, const DropoutMask& mask);
bool dropout_backward_add(const Tensor& dx, const Tensor& d, const DropoutMask& mask);
bool short_conv(const Tensor& out, const Tensor& inputs, const Tensor& bcx, const Tensor& weight,
                const Tensor& bias, const std::vector<ConvRows>& rows);
bool short_conv_backward(const Tensor& bcx, const Tensor& d, const Tensor& weight, const Tensor& bias,
                         const Segments& segments, const Tensor& d_weight);
bool delta_rule(const Tensor& out, const Tensor& in, const DeltaWeights& weights, const DeltaShape& shape,
                const Segments& segments);
bool delta_rule_step(const Tensor& out, const Tensor& in, const DeltaWeights& weights,
                     const DeltaShape& shape, const std::vector<DeltaStep>& steps);
bool delta_rule_backward(const Tensor& in, const Tensor& d, const DeltaWeights& weights,
                         const DeltaShape& shape, const Segments& segments, const DeltaGradients& gradients);
std::int64_t delta_rule_backward_bytes(const DeltaShape& shape, std::int64_t longest, std::int64_t threads);
bool attend_tiles(const Tensor& out, const Tensor& lse, const Tensor& q,
                  const std::vector<AttentionRows>& rows, const AttentionRule& rule);
bool attention_backward(const AttentionBackward& x, const std::vector<Family>& families);
bool attention_backward_bytes(std::int64_t& bytes, const AttentionSizes& sizes);
bool gemms(std::span<const Gemm* const> products);
bool add_outers(std::span<const Outer* const> products);
bool add_weight_gradient(const Tensor& gradient, const Tensor& d_out, const Tensor& x);
bool dequantize(const Tensor& out, const Quantized& matrix);
bool take_tile(SoftmaxRows& rows, const Tensor& logits, std::int64_t first_column,
               const Tensor& probabilities, const Tensor& accumulator);
bool take_row(SoftmaxRows& rows, const Tensor& logits);
bool finish(TokenLogprobs& facts, const SoftmaxRows& rows);
bool tile_backward(const TileBackward& rows, const Tensor& logits, std::int64_t first_column,
                   const Tensor& narrow);
bool adamw(const AdamwStep& step);
bool block_sums_of_squares(const Tensor& sums, const Tensor& x);
bool scale(const Tensor& x, float factor);
const char* product_kernels(at::ScalarType dtype);
double product_limit(at::ScalarType dtype);

}  // namespace hone::ops::cpu
