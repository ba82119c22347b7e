// A frozen matrix W [out, in] as products read it: plain (a tensor), packed, or quantized.
//
// A pack holds the same numbers in the order of a backend (ops/backend/layouts.h), so that decode reads it at the speed of
// memory; forward, input gradient, embedding lookup and dense() all read the same copy. A plain matrix is packed bit by
// bit during the product, which costs a few percent of a large product and most of the time of a small one.
//
// Quantized (ops/quantized.h): the codes are the only copy, put into the backend's order where their shape allows it. The
// CPU's products read few rows straight from them, and otherwise dequantize a part at a time into their scratch; other
// products dequantize the matrix for as long as they run.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/quantized.h"

namespace hone::ops {
namespace backend {
struct WeightLayout;
}

class Weight {
 public:
  Weight() = default;
  // Plain: [out, in], any float dtype; rows may be strided (a slice of a concatenated matrix), the elements
  // of a row are contiguous.
  Weight(at::Tensor plain);  // NOLINT(google-explicit-constructor): a tensor is a plain weight
  static Weight packed_where_possible(const at::Tensor& plain);  // else plain
  static bool can_pack(const at::Tensor& plain);                 // whether that is packed
  // The shape and dtype of a matrix whose numbers are not kept, because a trained one takes its place (ops/linear.h).
  static Weight without_numbers(std::int64_t out, std::int64_t in, at::ScalarType dtype, at::Device device);
  // Products are those of dequantize(matrix, compute), bit for bit; compute is bf16 or float32.
  static Weight quantized(std::shared_ptr<const Quantized> matrix, at::ScalarType compute);

  bool defined() const { return plain_.defined() || packed_.defined() || quantized_ != nullptr; }
  bool is_packed() const { return packed_.defined(); }
  bool is_quantized() const { return quantized_ != nullptr; }
  bool has_numbers() const { return defined(); }
  std::int64_t out() const { return out_; }
  std::int64_t in() const { return in_; }
  at::ScalarType dtype() const;
  at::Device device() const;
  std::int64_t bytes() const;  // held in memory, padding included

  const at::Tensor& plain() const;     // InternalError unless plain
  const Quantized& quantized() const;  // InternalError unless quantized
  at::Tensor dense() const;  // [out, in]: the tensor when plain, a copy when packed (exact) or quantized
  // Begins of slices are multiples of it, ends too, or out().
  static constexpr std::int64_t kSliceRows = 32;
  // Rows begin..end without a copy. A quantized matrix has to be in the order of its backend; then quantized() is still
  // the whole one, whose row first_row() is row 0.
  Weight slice(std::int64_t begin, std::int64_t end) const;
  std::int64_t first_row() const { return first_row_; }
  // Rows `ids` [n] int64 -> [n, in], contiguous: the embedding lookup. A quantized matrix has to be in its
  // backend's order.
  at::Tensor rows(const at::Tensor& ids) const;
  // Writes other numbers [out, in] into the same memory. Not of a quantized one.
  void assign(const at::Tensor& plain);
  // The memory that holds the numbers, in whatever order, padding with zeros included: "" alone, or the parts of a
  // quantized one ("'s codes", "'s scales"); none of one without numbers.
  std::vector<std::pair<std::string, at::Tensor>> memory() const;

 private:
  friend class WeightMemory;  // ops/backend/weight_memory.h
  at::Tensor plain_, packed_;
  const backend::WeightLayout* layout_ = nullptr;  // of a packed one
  std::shared_ptr<const Quantized> quantized_;
  at::ScalarType compute_ = at::kFloat;  // of a quantized one, and of one without numbers
  at::Device device_ = at::kCPU;         // of one without numbers
  std::int64_t out_ = 0, in_ = 0;
  std::int64_t first_row_ = 0;  // of a quantized one
};

}  // namespace hone::ops
