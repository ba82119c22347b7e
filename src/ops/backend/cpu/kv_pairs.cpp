// Keys and values as the attention kernels read them. For bf16: keys of a tile and head as [D / 2][64][2], values as
// [32][D][2] (pairs side by side, for vdpbf16ps). For fp32: keys [D][64], values [64][D].
#include <ATen/ATen.h>

#include "ops/backend/cpu/cpu_operators.h"
#include "ops/kv_tiles.h"

namespace hone::ops::cpu {
namespace {

// The part [from, from + n) of tile `tile`, as [n, K, D / 2, 2] (bf16) or [n, K, D] (fp32): what a row of k
// looks like.
Tensor key_rows(const Tensor& keys, std::int64_t head_dim, std::int64_t tile, std::int64_t from,
                std::int64_t n) {
  const Tensor one = keys.select(1, tile);
  if (keys.scalar_type() == at::kFloat) {
    return one.view({-1, head_dim, kKvTile}).narrow(2, from, n).permute({2, 0, 1});
  }
  return one.view({-1, head_dim / 2, kKvTile, 2}).narrow(2, from, n).permute({2, 0, 1, 3});
}

// Calls part(first, count, places) for the values of tokens [from, from + n) of a tile: `places` is shaped as
// a [count, K, D] of rows, or as [pairs, 2, K, D]. In bf16 only whole pairs of tokens can be sliced, so that
// a token at either end may be a part of its own.
template <typename Part>
void for_value_rows(const Tensor& values, std::int64_t head_dim, std::int64_t tile, std::int64_t from,
                    std::int64_t n, const Part& part) {
  const Tensor one = values.select(1, tile);
  if (values.scalar_type() == at::kFloat) {
    part(std::int64_t{0}, n, one.view({-1, kKvTile, head_dim}).narrow(1, from, n).transpose(0, 1));
    return;
  }
  const Tensor pairs = one.view({-1, kKvTile / 2, head_dim, 2}).permute({1, 3, 0, 2});  // [32, 2, K, D]
  const auto single = [&](std::int64_t slot) {
    part(slot - from, std::int64_t{1}, pairs.select(0, slot / 2).narrow(0, slot % 2, 1));
  };
  const std::int64_t end = from + n, begin_pairs = from + from % 2, end_pairs = end - end % 2;
  if (begin_pairs > from) single(from);
  if (end_pairs > begin_pairs) {
    part(begin_pairs - from, end_pairs - begin_pairs,
         pairs.narrow(0, begin_pairs / 2, (end_pairs - begin_pairs) / 2));
  }
  if (end > end_pairs) single(end_pairs);
}

// Element by element: T is a 16 or 32 bit integer, Pair 2 or 1.
template <typename T, std::int64_t Pair>
void append_as(const Tensor& keys, const Tensor& values, std::int64_t head_dim, std::int64_t begin,
               const Tensor& k, const Tensor& v) {
  const std::int64_t head_stride = keys.stride(0), tile_size = keys.stride(1);
  for (std::int64_t h = 0; h < k.size(1); ++h) {
    T* const head_keys = static_cast<T*>(keys.data_ptr()) + h * head_stride;
    T* const head_values = static_cast<T*>(values.data_ptr()) + h * head_stride;
    for (std::int64_t i = 0; i < k.size(0); ++i) {
      const T* const from_k = static_cast<const T*>(k.const_data_ptr()) + i * k.stride(0) + h * head_dim;
      const T* const from_v = static_cast<const T*>(v.const_data_ptr()) + i * v.stride(0) + h * head_dim;
      const std::int64_t tile = (begin + i) / kKvTile, slot = (begin + i) % kKvTile;
      T* const to_k = head_keys + tile * tile_size + slot * Pair;
      T* const to_v = head_values + tile * tile_size + slot / Pair * head_dim * Pair + slot % Pair;
      for (std::int64_t d = 0; d < head_dim; ++d) {
        to_k[d / Pair * kKvTile * Pair + d % Pair] = from_k[d];
        to_v[d * Pair] = from_v[d];
      }
    }
  }
}

void append(const Tensor& keys, const Tensor& values, std::int64_t head_dim, std::int64_t begin,
            const Tensor& k, const Tensor& v) {
  const bool bf16 = keys.scalar_type() == at::kBFloat16;
  (bf16 ? append_as<std::uint16_t, 2> : append_as<std::uint32_t, 1>)(keys, values, head_dim, begin, k, v);
}

std::pair<Tensor, Tensor> rows(const Tensor& keys, const Tensor& values, std::int64_t head_dim,
                               std::int64_t length) {
  const std::int64_t heads = keys.size(0), n = keys.size(1);
  Tensor k, v;
  if (keys.scalar_type() == at::kFloat) {
    k = keys.view({heads, n, head_dim, kKvTile}).permute({0, 1, 3, 2});
    v = values;
  } else {
    k = keys.view({heads, n, head_dim / 2, kKvTile, 2}).permute({0, 1, 3, 2, 4});
    v = values.view({heads, n, kKvTile / 2, head_dim, 2}).permute({0, 1, 2, 4, 3});
  }
  const auto first = [&](const Tensor& x) {
    return x.reshape({heads, n * kKvTile, head_dim}).narrow(1, 0, length);
  };
  return {first(k), first(v)};
}

void clear(const Tensor& keys, const Tensor& values, std::int64_t head_dim, std::int64_t begin,
           std::int64_t end) {
  const std::int64_t tile = begin / kKvTile, from = begin % kKvTile, n = end - begin;
  key_rows(keys, head_dim, tile, from, n).zero_();
  for_value_rows(values, head_dim, tile, from, n,
                 [](std::int64_t, std::int64_t, const Tensor& places) { places.zero_(); });
}

}  // namespace

const backend::KvLayout kKvPairs = {.append = append, .rows = rows, .clear = clear};

}  // namespace hone::ops::cpu
