// Keys and values of many sequences in pages of one memory, and the attention of a sampler's step to them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/sampling/page_parts.h"

namespace hone::ops {

// Of one layer: [pages, K, kPageTokens, D] each, dense, of one dtype.
struct PageMemory {
  at::Tensor keys, values;
};

PageMemory make_pages(std::int64_t pages, std::int64_t kv_heads, std::int64_t head_dim,
                      const at::TensorOptions& options);

// k and v [n, K, D] become the tokens at `slots` [n] int64: page * kPageTokens + place in the page.
void write_pages(const PageMemory& memory, const at::Tensor& k, const at::Tensor& v, const at::Tensor& slots);

// The whole of page from[i] becomes page to[i]; [n] int64 each. None of `to` is one of `from`.
void copy_pages(const PageMemory& memory, const at::Tensor& to, const at::Tensor& from);

// The lists of a step on a device, which all layers read.
struct SentParts {
  at::Tensor parts, rows, pages, results_of;  // int32
  std::int64_t wide = 0, narrow = 0, results = 0;
};
SentParts send(const PageParts& parts, at::Device device);

// q [T, N, D], a row of `parts` each, attends to the row's tokens -> out [T, N, D] and lse [T, N] fp32 (undefined: not wanted), the
// natural log-sum-exp of the scores, which are products of queries and keys times `scale`. fp32 and bf16, sums in fp32, one
// rounding; D a multiple of 8 and at most 256. A row's bits do not depend on the other rows. False: the device has no
// kernel for this, and nothing was written.
bool attend_pages(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q, const PageMemory& memory,
                  const SentParts& parts, double scale);

}  // namespace hone::ops
