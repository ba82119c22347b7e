// The rows of a layer whose tokens go through some experts each, sorted by expert.
//
// Shapes: T tokens, k experts of each, S = T k rows, E experts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hone::ops {

class ExpertRows {
 public:
  // chosen [T, k] int64: the experts of each token. Rows of one expert are in the order of tokens.
  ExpertRows(const at::Tensor& chosen, std::int64_t experts);

  std::int64_t experts() const { return experts_; }
  std::int64_t size() const { return token_.size(0); }  // S
  const at::Tensor& token() const { return token_; }    // [S] int64: the token of each row
  const at::Tensor& place() const { return place_; }    // [T, k] int64: where token t's s-th row is
  // [E] int32: expert e has the rows before ends[e] that no expert before it has. On chosen's device, without a wait.
  const at::Tensor& ends() const;
  // [E + 1], the same for the host: expert e has rows begins[e] to begins[e + 1]. The first call waits for the device.
  const std::vector<std::int64_t>& begins() const;
  std::int64_t rows_of(std::size_t expert) const { return begins()[expert + 1] - begins()[expert]; }
  // The rows of one expert, of x [S, ...].
  at::Tensor of(const at::Tensor& x, std::size_t expert) const;

 private:
  std::int64_t experts_;
  at::Tensor sorted_, token_, place_;  // sorted_ [S] int64: the expert of each row
  mutable at::Tensor ends_;
  mutable std::vector<std::int64_t> begins_;
};

// [E] int64: how often each of `experts` is in chosen [T, k]; without a wait for its device.
at::Tensor count_experts(const at::Tensor& chosen, std::int64_t experts);

}  // namespace hone::ops
