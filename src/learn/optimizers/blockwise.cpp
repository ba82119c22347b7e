#include "learn/optimizers/blockwise.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <span>

namespace hone::learn {

bool is_8bit(const FlatTensor& tensor) {
  return tensor.size >= kLeast8bit && !tensor.is_embedding;
}

std::int64_t state_blocks(std::int64_t size) {
  return (size + kStateBlock - 1) / kStateBlock;
}

at::Tensor from_codes(const ops::DynamicCodes& map, const at::Tensor& codes, const at::Tensor& scales,
                      const at::Tensor& like) {
  const at::Tensor from = codes.cpu(), by = scales.to(at::kCPU, at::kFloat);
  const std::int64_t n = from.numel();
  at::Tensor out = at::empty({n}, at::kFloat);
  const auto* code = from.const_data_ptr<std::uint8_t>();
  const auto* scale = by.const_data_ptr<float>();
  auto* value = out.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < n; ++i) value[i] = map.values()[code[i]] * scale[i / kStateBlock];
  return out.to(like.device(), like.scalar_type()).view(like.sizes());
}

void to_codes(const ops::DynamicCodes& map, const at::Tensor& value, at::Tensor codes, at::Tensor scales) {
  if (value.scalar_type() != at::kFloat) return;
  const at::Tensor from = value.cpu();
  const std::int64_t n = from.numel();
  at::Tensor made = at::empty({n}, at::kByte), largest = at::empty({state_blocks(n)}, at::kFloat);
  const auto* x = from.const_data_ptr<float>();
  auto* code = made.mutable_data_ptr<std::uint8_t>();
  auto* scale = largest.mutable_data_ptr<float>();
  for (std::int64_t begin = 0; begin < n; begin += kStateBlock) {
    const auto length = static_cast<std::size_t>(std::min(kStateBlock, n - begin));
    scale[begin / kStateBlock] = map.quantize(std::span(x + begin, length), code + begin);
  }
  codes.copy_(made);
  scales.copy_(largest);
}

}  // namespace hone::learn
