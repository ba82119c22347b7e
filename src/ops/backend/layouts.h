// How a backend orders what it reads again and again: packed weights, codes of quantized weights, keys and values. A
// table of functions each, which the backend's Operators name; Weight, Quantized and KvTiles remember whose they are.
// Where a backend names none, weights stay plain, codes stay in the order of files, and keys and values are in rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>

namespace hone::ops {

struct Quantized;

namespace backend {

struct WeightLayout {
  bool (*fits)(const at::Tensor& plain);        // [out, in]
  at::Tensor (*pack)(const at::Tensor& plain);  // flat, of plain's dtype
  at::Tensor (*dense)(const at::Tensor& packed, std::int64_t out, std::int64_t in);
  at::Tensor (*rows)(const at::Tensor& packed, std::int64_t in,
                     std::span<const std::int64_t> ids);  // [n, in]
  // Rows begin..end, sharing the memory; begin and end are multiples of Weight::kSliceRows, or end is out.
  at::Tensor (*slice)(const at::Tensor& packed, std::int64_t out, std::int64_t begin, std::int64_t end);
};

struct CodeLayout {
  bool (*fits)(const Quantized& matrix, at::ScalarType compute);
  Quantized (*arrange)(const Quantized& matrix);  // from rows
  Quantized (*in_rows)(const Quantized& matrix);
  at::Tensor (*dense)(const Quantized& matrix, at::ScalarType dtype);  // float32 or bfloat16
  at::Tensor (*rows)(const Quantized& matrix, std::span<const std::int64_t> ids, at::ScalarType dtype);
};

// Keys and values [K, tiles, 64 * D]: what is where in the 64 * D numbers of a tile and head.
struct KvLayout {
  // Sequences of a sampler are runs of rows of one memory (kv_pool.h), and attend_tiles takes all of a step in a call.
  // What follows is of tiles that have their own memory; null then: they are rows.
  bool is_pooled = false;
  // k and v [n, K, D] become tokens begin .. begin + n.
  void (*append)(const at::Tensor& keys, const at::Tensor& values, std::int64_t head_dim, std::int64_t begin,
                 const at::Tensor& k, const at::Tensor& v) = nullptr;
  // The first `length` tokens, [K, length, D] each: what the reference reads.
  std::pair<at::Tensor, at::Tensor> (*rows)(const at::Tensor& keys, const at::Tensor& values,
                                            std::int64_t head_dim, std::int64_t length) = nullptr;
  // Tokens begin .. end of one tile become zero.
  void (*clear)(const at::Tensor& keys, const at::Tensor& values, std::int64_t head_dim, std::int64_t begin,
                std::int64_t end) = nullptr;
};

}  // namespace backend
}  // namespace hone::ops
