// Rows of which some occur more than once, such as the last token of a prompt that several completions share.
// Each is computed once, copied to all its places, and gets the sum of their gradients.
//
// Shapes: n places, u distinct tokens.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

namespace hone::model {

class RepeatedRows {
 public:
  RepeatedRows() = default;
  // rows [n] int64 on the CPU, each of 0..tokens-1; InternalError otherwise. Results are on `device`.
  RepeatedRows(const at::Tensor& rows, std::int64_t tokens, at::Device device = at::kCPU);

  std::int64_t count() const { return count_; }               // n
  const at::Tensor& different() const { return different_; }  // [u] int64; `rows` itself where u = n
  at::Tensor spread(const at::Tensor& x) const;               // [u, ..] -> [n, ..]
  // [n, H] -> [u, H], sums in fp32 in the order of the places; itself where u = n.
  at::Tensor gather(const at::Tensor& d) const;

 private:
  std::int64_t count_ = 0;
  at::Tensor different_;
  at::Tensor index_;  // [n] into different_; undefined where u = n
  at::Tensor first_;  // [u] first place of each
  // The second, third, ... occurrences of tokens. No addition has a token twice, so that the order is fixed
  // on any device.
  struct Again {
    at::Tensor place, token;
  };
  std::vector<Again> again_;
};

}  // namespace hone::model
