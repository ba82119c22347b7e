// Keys and values of many sequences in pages of one memory, and the attention of a sampler's step to them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/kv_tiles.h"
#include "ops/sampling/page_parts.h"

namespace hone::ops {

// Holds the keys and values of one layer: [pages, K, kPageTokens, D] each, dense, of one dtype.
struct PageMemory {
  at::Tensor keys, values;
  at::Tensor both;  // [2, pages, K, kPageTokens, D], of which they are halves; undefined: they are apart
};

PageMemory make_pages(std::int64_t pages, std::int64_t kv_heads, std::int64_t head_dim,
                      const at::TensorOptions& options);

// Tokens on a device: [n] int64 each, the page and the place in it.
struct PageSlots {
  at::Tensor page, place;
};
// Sends slots, each page * kPageTokens + place, in one staged copy.
PageSlots send_slots(const std::vector<std::int64_t>& slots, at::Device device);

// k and v [n, K, D] become the tokens at `slots`.
void write_pages(const PageMemory& memory, const at::Tensor& k, const at::Tensor& v, const PageSlots& slots);

// The whole of page from[i] becomes page to[i]; [n] int64 each. None of `to` is one of `from`.
void copy_pages(const PageMemory& memory, const at::Tensor& to, const at::Tensor& from);

// The lists of a step on a device, which all layers read; in one staged copy.
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

// Layers whose keys and values are in pages where the device attends to them.
struct KeyShape {
  std::int64_t heads = 1, kv_heads = 1, head_dim = 1;
  at::ScalarType dtype = at::kFloat;
  bool sees_all = true;  // neither a window nor a soft cap
};
bool attends_to_pages(const KeyShape& shape, at::Device device);

}  // namespace hone::ops
