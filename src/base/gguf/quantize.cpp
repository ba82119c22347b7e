#include "base/gguf/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/gguf/ggml_types.h"
#include "base/gguf/k_blocks.h"
#include "base/half.h"

namespace hone::base {

namespace {

constexpr std::size_t kSmallBlock = 32;

void put_u16(std::byte* at, std::uint16_t bits) {
  std::memcpy(at, &bits, 2);
}

// scale fp16, then 32 signed bytes; halves round away from zero.
void quantize_q8_0(const float* x, std::byte* block) {
  float peak = 0;
  for (std::size_t i = 0; i < kSmallBlock; ++i) peak = std::max(peak, std::fabs(x[i]));
  const float scale = peak / 127;
  const float inverse = scale == 0 ? 0 : 1 / scale;
  put_u16(block, float_to_half(scale));
  for (std::size_t i = 0; i < kSmallBlock; ++i) {
    block[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(std::round(x[i] * inverse)));
  }
}

// scale fp16 that takes the value of largest magnitude to -16, 32 fifth bits, 32 nibbles (i and i + 16 share
// a byte).
void quantize_q5_0(const float* x, std::byte* block) {
  float peak = 0;
  for (std::size_t i = 0; i < kSmallBlock; ++i) {
    if (std::fabs(x[i]) > std::fabs(peak)) peak = x[i];
  }
  const float scale = peak / -16;
  const float inverse = scale == 0 ? 0 : 1 / scale;
  put_u16(block, float_to_half(scale));
  std::uint32_t fifth = 0;
  std::byte* const nibbles = block + 6;
  std::fill(nibbles, nibbles + 16, std::byte{0});
  for (std::size_t i = 0; i < kSmallBlock; ++i) {
    const auto level = std::min(31U, static_cast<unsigned>(x[i] * inverse + 16.5F));
    fifth |= (level >> 4) << i;
    nibbles[i % 16] |= static_cast<std::byte>((level & 0x0FU) << (i < 16 ? 0 : 4));
  }
  std::memcpy(block + 2, &fifth, 4);
}

template <typename Block>
void each_block(const GgmlTypeInfo& info, std::span<const float> values, std::byte* out, Block block) {
  for (std::size_t i = 0; i < values.size(); i += info.elements, out += info.bytes) block(&values[i], out);
}

}  // namespace

std::uint64_t ggml_bytes(GgmlType type, std::uint64_t elements) {
  const GgmlTypeInfo* info = find_ggml_type(static_cast<std::uint32_t>(type));
  require(info != nullptr && elements % info->elements == 0, "ggml_bytes", "whole blocks of a known type");
  return elements / info->elements * info->bytes;
}

void quantize(GgmlType type, std::span<const float> values, std::span<std::byte> out) {
  require(out.size() == ggml_bytes(type, values.size()), "quantize", "room for every block");
  const GgmlTypeInfo& info = *find_ggml_type(static_cast<std::uint32_t>(type));
  switch (type) {
    case GgmlType::kF32:
      if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
      return;
    case GgmlType::kF16:
      return each_block(info, values, out.data(),
                        [](const float* x, std::byte* to) { put_u16(to, float_to_half(*x)); });
    case GgmlType::kBF16:
      return each_block(info, values, out.data(),
                        [](const float* x, std::byte* to) { put_u16(to, float_to_bf16(*x)); });
    case GgmlType::kQ8_0:
      return each_block(info, values, out.data(), quantize_q8_0);
    case GgmlType::kQ5_0:
      return each_block(info, values, out.data(), quantize_q5_0);
    case GgmlType::kQ4_K:
      return each_block(info, values, out.data(), quantize_q4_k);
    case GgmlType::kQ5_K:
      return each_block(info, values, out.data(), quantize_q5_k);
    case GgmlType::kQ6_K:
      return each_block(info, values, out.data(), quantize_q6_k);
    case GgmlType::kQ4_0:
    case GgmlType::kQ4_1:
      break;
  }
  require(false, "quantize", "a type that hone writes");
}

}  // namespace hone::base
