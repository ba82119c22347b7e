// A frozen matrix W [out, in] as the GEMM reads it: one plain copy, or one pack.
//
// The pack is for bf16 on a CPU with avx512_bf16: panels of 32 rows of W, each [in / 2][32][2] (pairs of
// neighbouring inputs side by side, as vdpbf16ps wants them), rows padded with zeros to a multiple of 32,
// inputs to a multiple of 2. Decode reads it at the speed of memory; forward, input gradient, embedding
// lookup and dense() all read the same copy. A plain matrix is packed panel by panel while it is multiplied,
// which costs a few percent of a large product and most of a small one.
//
// Or quantised (ops/quantised.h): the codes are the only copy. The bf16 GEMM dequantises a panel at a time
// into its scratch; other products dequantise the matrix for as long as they run.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "ops/quantised.h"

namespace hone::ops {

class Weight {
 public:
  Weight() = default;
  // Plain: [out, in], any float dtype; rows may be strided (a slice of a joined matrix), elements of a row
  // not.
  Weight(at::Tensor plain);  // NOLINT(google-explicit-constructor): a tensor is a plain weight
  // A pack of the same numbers. `plain` is bf16 on the CPU; can_pack() must hold.
  static Weight pack(const at::Tensor& plain);
  static bool can_pack(const at::Tensor& plain);
  static Weight packed_where_possible(const at::Tensor& plain);  // else plain
  // Multiplied as the matrix that dequantise(matrix, compute) gives, bit for bit; compute is bf16 or float32.
  static Weight quantised(std::shared_ptr<const Quantised> matrix, at::ScalarType compute);

  bool defined() const { return plain_.defined() || panels_.defined() || quantised_ != nullptr; }
  bool is_packed() const { return panels_.defined(); }
  bool is_quantised() const { return quantised_ != nullptr; }
  std::int64_t out() const { return out_; }
  std::int64_t in() const { return in_; }
  at::ScalarType dtype() const;
  at::Device device() const;
  std::int64_t bytes() const;  // held in memory, padding included

  const at::Tensor& plain() const;     // InternalError unless plain
  const at::Tensor& panels() const;    // flat bf16; InternalError unless packed
  const Quantised& quantised() const;  // InternalError unless quantised
  at::Tensor dense() const;  // [out, in]: itself when plain, a copy when packed (exact) or quantised
  // Rows begin..end without a copy: begin a multiple of kPanelRows, end one too or out(). Not of a quantised
  // one.
  Weight slice(std::int64_t begin, std::int64_t end) const;
  // Rows `ids` [n] int64 -> [n, in], contiguous: the embedding lookup. Not of a quantised one.
  at::Tensor rows(const at::Tensor& ids) const;

 private:
  at::Tensor plain_, panels_;
  std::shared_ptr<const Quantised> quantised_;
  at::ScalarType compute_ = at::kFloat;  // of a quantised one
  std::int64_t out_ = 0, in_ = 0;
};

constexpr std::int64_t kPanelRows = 32;

}  // namespace hone::ops
