// The definition of every operator of ops/backend/operators.h in ATen, on any device. A backend's kernel computes the
// same within the bounds that src/ops/cases promises. The arguments are those of the public operators, which have
// checked them. Where the definition is differentiable, the public header of the operator says so.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ops/adamw.h"
#include "ops/attention.h"
#include "ops/backend/attention_backward.h"
#include "ops/backend/join_attention.h"
#include "ops/backend/layouts.h"
#include "ops/delta_rule.h"
#include "ops/dropout.h"
#include "ops/gemm.h"
#include "ops/head/logprob_tile.h"
#include "ops/lion.h"
#include "ops/quantized.h"
#include "ops/rope.h"
#include "ops/routed_rows.h"
#include "ops/short_conv.h"

namespace hone::ops::reference {

using at::Tensor;
using Segments = std::vector<AttentionSegment>;

// The layout of keys and values where a backend has none of its own.
extern const backend::KvLayout kKvRows;
// [K, length, D] each, of tiles in any layout.
std::pair<Tensor, Tensor> keys_and_values(const KvTiles& tiles);

// ---- rows
void rms_norm(const Tensor& out, const Tensor& x, const Tensor& weight, double eps);
void rms_norm_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& weight, double eps);
void norm_rope(const Tensor& out, const Tensor& x, const Tensor& norm_weight, double eps,
               const RopeTable& table);
void norm_rope_backward(const Tensor& d, const Tensor& x, const Tensor& norm_weight, double eps,
                        const RopeTable& table);
void swiglu(const Tensor& out, const Tensor& gate, const Tensor& up, bool gelu_tanh);
void swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& d, bool gelu_tanh);
void sigmoid_gate(const Tensor& out, const Tensor& x, const Tensor& gate);
void sigmoid_gate_backward(const Tensor& gate, const Tensor& d, const Tensor& x);
void soft_cap(const Tensor& x, double cap);
void soft_cap_backward(const Tensor& d, const Tensor& capped, double cap);
void sum_routed_rows(const Tensor& out, const Tensor& rows, const Tensor& place, const Tensor& weights,
                     const Tensor& start);
void weigh_rows(const Tensor& out, const Tensor& x, const Tensor& weights);
void weigh_rows_backward(const Tensor& d, const Tensor& x, const Tensor& weights, const Tensor& sums);
void add_rows(const Tensor& out, const Tensor& d, std::span<const std::int64_t> rows,
              std::span<const std::int64_t> from);
void gather_rows(const Tensor& out, const Tensor& table, const Tensor& ids);
void copy_blocks(std::span<const BlockCopy> all);
void draw_mask(const Tensor& out, const DropoutMask& mask);
void dropout(const Tensor& out, const Tensor& x, const DropoutMask& mask);
void dropout_backward_add(const Tensor& dx, const Tensor& d, const DropoutMask& mask);

// ---- sequences
void short_conv(const Tensor& out, const Tensor& inputs, const Tensor& bcx, const Tensor& weight,
                const Tensor& bias, const std::vector<ConvRows>& rows);
void short_conv_backward(const Tensor& bcx, const Tensor& d, const Tensor& weight, const Tensor& bias,
                         const Segments& segments, const Tensor& d_weight);
// The public short_conv(): differentiable.
Tensor short_conv_packed(const Tensor& bcx, const Tensor& weight, const Tensor& bias,
                         const std::vector<std::pair<std::int64_t, std::int64_t>>& segments);
void delta_rule(const Tensor& out, const Tensor& in, const DeltaWeights& weights, const DeltaShape& shape,
                const Segments& segments);
void delta_rule_step(const Tensor& out, const Tensor& in, const DeltaWeights& weights,
                     const DeltaShape& shape, const std::vector<DeltaStep>& steps);
void delta_rule_backward(const Tensor& in, const Tensor& d, const DeltaWeights& weights,
                         const DeltaShape& shape, const Segments& segments, const DeltaGradients& gradients);
// The public delta_rule(): differentiable.
Tensor delta_rule_packed(const Tensor& in, const DeltaWeights& weights, const DeltaShape& shape,
                         const std::vector<std::pair<std::int64_t, std::int64_t>>& segments);
void attend_tiles(const Tensor& out, const Tensor& lse, const Tensor& q,
                  const std::vector<AttentionRows>& rows, const AttentionRule& rule);
void join_attention(const backend::AttentionParts& x);
void attention_backward(const AttentionBackward& x, const std::vector<Family>& families);
void attention_backward_bytes(std::int64_t& bytes, const AttentionSizes& sizes);

// ---- products
void gemms(std::span<const Gemm* const> products);
void add_outers(std::span<const Outer* const> products);
void grouped_products(Tensor& out, const Tensor& a, const Tensor& right, const Tensor& ends);
void grouped_outers(Tensor& out, const Tensor& left, const Tensor& right, const Tensor& ends);
// A matrix in rows (ops/quantized.h); of one in a backend's own order its layout's dense().
void dequantize(const Tensor& out, const Quantized& matrix);

// ---- the head and the loss
void take_tile(SoftmaxRows& rows, const Tensor& logits, std::int64_t first_column,
               const Tensor& probabilities, const Tensor& accumulator);
void take_row(SoftmaxRows& rows, const Tensor& logits);
void finish(TokenLogprobs& facts, const SoftmaxRows& rows);
void tile_backward(const TileBackward& rows, const Tensor& logits, std::int64_t first_column,
                   const Tensor& narrow);

// ---- the optimizer
void adamw(const AdamwStep& step);
void adamw_codes(const AdamwCodesStep& step);
void lion(const LionStep& step);
void lion_codes(const LionCodesStep& step);
void block_sums_of_squares(const Tensor& sums, const Tensor& x);
void scale(const Tensor& x, float factor);

}  // namespace hone::ops::reference
