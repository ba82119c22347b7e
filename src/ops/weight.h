// A frozen matrix W [out, in] as the GEMM reads it: plain (a tensor), packed, or quantized.
//
// The pack is for a CPU with kernels of ours (avx2 and above), with one layout for all of them: panels of 32 rows of
// W, of bf16 [in / 2][32][2] (pairs of neighboring inputs side by side), of float32 [in][32]; rows padded with zeros to
// a multiple of 32, inputs of bf16 to a multiple of 2. Decode reads it at the speed of memory; forward, input gradient, embedding
// lookup and dense() all read the same copy. A plain matrix is packed panel by panel during the product,
// which costs a few percent of a large product and most of the time of a small one.
//
// Quantized (ops/quantized.h): the codes are the only copy, put into the order of panels (ops/quantized_panels.h) where
// their shape allows it. Our GEMM multiplies few rows straight from them, and otherwise dequantizes a panel at a time into
// its scratch; other products dequantize the matrix for as long as they run.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "ops/quantized.h"

namespace hone::ops {

class Weight {
 public:
  Weight() = default;
  // Plain: [out, in], any float dtype; rows may be strided (a slice of a concatenated matrix), the elements
  // of a row are contiguous.
  Weight(at::Tensor plain);  // NOLINT(google-explicit-constructor): a tensor is a plain weight
  // A pack of the same numbers. `plain` is bf16 or float32 on the CPU; can_pack() must hold.
  static Weight pack(const at::Tensor& plain);
  static bool can_pack(const at::Tensor& plain);
  static Weight packed_where_possible(const at::Tensor& plain);  // else plain
  // The shape and dtype of a matrix whose numbers are not kept, because a trained one takes its place (ops/linear.h).
  static Weight without_numbers(std::int64_t out, std::int64_t in, at::ScalarType dtype, at::Device device);
  // Products are those of dequantize(matrix, compute), bit for bit; compute is bf16 or float32.
  static Weight quantized(std::shared_ptr<const Quantized> matrix, at::ScalarType compute);

  bool defined() const { return plain_.defined() || panels_.defined() || quantized_ != nullptr; }
  bool is_packed() const { return panels_.defined(); }
  bool is_quantized() const { return quantized_ != nullptr; }
  bool has_numbers() const { return defined(); }
  std::int64_t out() const { return out_; }
  std::int64_t in() const { return in_; }
  at::ScalarType dtype() const;
  at::Device device() const;
  std::int64_t bytes() const;  // held in memory, padding included

  const at::Tensor& plain() const;     // InternalError unless plain
  const at::Tensor& panels() const;    // flat, of dtype(); InternalError unless packed
  const Quantized& quantized() const;  // InternalError unless quantized
  at::Tensor dense() const;  // [out, in]: the tensor when plain, a copy when packed (exact) or quantized
  // Rows begin..end without a copy: begin a multiple of kPanelRows, end too, or out(). A quantized matrix has to lie in
  // panels; then quantized() is still the whole one, whose panel first_panel() has row 0.
  Weight slice(std::int64_t begin, std::int64_t end) const;
  std::int64_t first_panel() const { return first_panel_; }
  // Rows `ids` [n] int64 -> [n, in], contiguous: the embedding lookup. A quantized matrix has to lie in panels.
  at::Tensor rows(const at::Tensor& ids) const;

 private:
  at::Tensor plain_, panels_;
  std::shared_ptr<const Quantized> quantized_;
  at::ScalarType compute_ = at::kFloat;  // of a quantized one, and of one without numbers
  at::Device device_ = at::kCPU;         // of one without numbers
  std::int64_t out_ = 0, in_ = 0;
  std::int64_t first_panel_ = 0;  // of a quantized one
};

constexpr std::int64_t kPanelRows = 32;

}  // namespace hone::ops
