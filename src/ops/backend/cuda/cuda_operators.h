// The rows of the table of NVIDIA GPUs: libtorch's operators for CUDA, as few calls as a row needs. Each computes what
// ops/backend/reference defines, with fp32 sums inside products and attention; what is rounded once more than there is
// said at its function. All of them are plain ATen calls, so this folder needs no CUDA headers and runs on every device
// that has the operators.
#pragma once

#include "ops/backend/operators.h"

namespace hone::ops::cuda {

using at::Tensor;
using Segments = std::vector<AttentionSegment>;

// ---- rows (rows.cpp)
bool rms_norm(const Tensor& out, const Tensor& x, const Tensor& weight, double eps);
bool rms_norm_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& weight, double eps);
bool rms_norm_backward_cast(const Tensor& cast, const Tensor& dx, const Tensor& dy, const Tensor& x,
                            const Tensor& weight, double eps);
bool swiglu(const Tensor& out, const Tensor& gate, const Tensor& up, bool gelu_tanh);
bool swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& d, bool gelu_tanh);

// ---- blocks of matrices (blocks.cpp)
bool copy_blocks(std::span<const BlockCopy> all);

// ---- norms of heads, rotations (rotation.cpp)
bool norm_rope(const Tensor& out, const Tensor& x, const Tensor& norm_weight, double eps,
               const RopeTable& table);
bool norm_rope_backward(const Tensor& d, const Tensor& x, const Tensor& norm_weight, double eps,
                        const RopeTable& table);

// ---- dropout (dropout.cpp)
bool dropout(const Tensor& out, const Tensor& x, const DropoutMask& mask);
bool dropout_backward_add(const Tensor& dx, const Tensor& d, const DropoutMask& mask);

// ---- the head (head.cpp); false without our own kernels
bool take_tile(SoftmaxRows& rows, const Tensor& logits, std::int64_t first_column,
               const Tensor& probabilities, const Tensor& accumulator);
bool take_row(SoftmaxRows& rows, const Tensor& logits);
bool tile_backward(const TileBackward& rows, const Tensor& logits, std::int64_t first_column,
                   const Tensor& narrow);

// ---- products (products.cpp)
bool gemms(std::span<const Gemm* const> products);
bool add_outers(std::span<const Outer* const> products);

// ---- rows that are added to others, or looked up (scattered_rows.cpp); false without our own kernels
bool add_rows(const Tensor& out, const Tensor& d, std::span<const std::int64_t> rows,
              std::span<const std::int64_t> from);
bool gather_rows(const Tensor& out, const Tensor& table, const Tensor& ids);

// ---- attention of two parts of the keys (join.cpp); false without our own kernels
bool join_attention(const backend::AttentionParts& x);

// ---- the optimizer (optimizer.cpp); false without our own kernels
bool adamw(const AdamwStep& step);
bool adamw_codes(const AdamwCodesStep& step);
bool lion(const LionStep& step);
bool lion_codes(const LionCodesStep& step);
bool block_sums_of_squares(const Tensor& sums, const Tensor& x);
bool scale(const Tensor& x, float factor);

// ---- matrices of 4 and 8 bits (quantized.cpp)
bool dequantize(const Tensor& out, const Quantized& matrix);

// ---- rows by expert (experts.cpp)
std::int64_t group_multiple(at::Device device, at::ScalarType dtype);
bool grouped_products(Tensor& out, const Tensor& a, const Tensor& right, const Tensor& ends);
bool grouped_outers(Tensor& out, const Tensor& left, const Tensor& right, const Tensor& ends);
bool sum_routed_rows(const Tensor& out, const Tensor& rows, const Tensor& place, const Tensor& weights,
                     const Tensor& start);
bool weigh_rows(const Tensor& out, const Tensor& x, const Tensor& weights);
bool weigh_rows_backward(const Tensor& d, const Tensor& x, const Tensor& weights, const Tensor& sums);

// ---- attention of packed rows (packed_attention.cpp)
bool attend_packed(const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Segments& segments, const AttentionRule& rule);
bool attention_backward(const AttentionBackward& x, const std::vector<Family>& families);
bool attention_backward_bytes(std::int64_t& bytes, const AttentionSizes& sizes);

// ---- attention of a sampler's step (pool_attention.cpp)
bool attend_tiles(const Tensor& out, const Tensor& lse, const Tensor& q,
                  const std::vector<AttentionRows>& rows, const AttentionRule& rule);

}  // namespace hone::ops::cuda
