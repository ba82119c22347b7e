#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "ops/dynamic_codes.h"
#include "ops/index_tensor.h"

namespace hone::ops {
namespace {

// `call` on the whole blocks of x [n] and their scales, [b, 256] and [b, 1]; then on what is left, [1, rest] and [1, 1].
template <typename Call>
void by_blocks(const at::Tensor& x, const at::Tensor& scales, const Call& call) {
  const std::int64_t whole = x.numel() / kCodeBlock, rest = x.numel() - whole * kCodeBlock;
  if (whole > 0)
    call(x.narrow(0, 0, whole * kCodeBlock).view({whole, kCodeBlock}),
         scales.narrow(0, 0, whole).unsqueeze(1));
  if (rest > 0)
    call(x.narrow(0, whole * kCodeBlock, rest).unsqueeze(0), scales.narrow(0, whole, 1).unsqueeze(1));
}

// from_codes in libtorch's operators, with its bits. [n] fp32.
at::Tensor values_on_device(const CodeTables& tables, const at::Tensor& codes, const at::Tensor& scales) {
  at::Tensor out = tables.values.index_select(0, codes.to(at::kInt));
  by_blocks(out, scales.to(at::kFloat),
            [](const at::Tensor& block, const at::Tensor& scale) { block.mul_(scale); });
  return out;
}

// DynamicCodes::quantize in libtorch's operators, with its bits.
void codes_on_device(const CodeTables& tables, const at::Tensor& value, const at::Tensor& codes,
                     const at::Tensor& scales) {
  constexpr float kNoShare = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor x = value.flatten(), share = at::empty_like(x);
  share.copy_(x);
  by_blocks(share, scales, [](const at::Tensor& block, at::Tensor scale) {
    scale.copy_(block.abs().amax(1, /*keepdim=*/true));
    block.mul_(scale.reciprocal().masked_fill_(scale.lt(DynamicCodes::kLeastScale), kNoShare));
  });
  // Blocks without a scale, and what is not a number: -1, which has code 0.
  share.nan_to_num_(-1.0, 1.0, -1.0).clamp_(-1.0, 1.0);
  const at::Tensor place = share.add_(1.0).mul_(0.5 * 65535).add_(0.5).to(at::kInt);
  at::Tensor(codes).copy_(tables.places.index_select(0, place));
}

}  // namespace

// Never freed: a device may be gone before this program's statics.
const CodeTables& tables_on(const DynamicCodes& map, at::Device device) {
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::map<std::pair<const DynamicCodes*, std::string>, CodeTables>;
  const std::lock_guard lock(mutex);
  CodeTables& out = all[{&map, device.str()}];
  if (out.values.defined()) return out;
  const auto values = at::tensor(at::ArrayRef<float>(map.values().data(), map.values().size()), at::kFloat);
  out.values = staged(values, device);
  out.places = staged(at::tensor(map.places(), at::kByte), device);
  return out;
}

at::Tensor from_codes(const DynamicCodes& map, const at::Tensor& codes, const at::Tensor& scales,
                      const at::Tensor& like) {
  const std::int64_t n = codes.numel();
  if (!codes.device().is_cpu())
    return values_on_device(tables_on(map, codes.device()), codes, scales)
        .to(like.scalar_type())
        .view(like.sizes());
  const at::Tensor by = scales.to(at::kFloat);
  at::Tensor out = at::empty({n}, at::kFloat);
  const auto* code = codes.const_data_ptr<std::uint8_t>();
  const auto* scale = by.const_data_ptr<float>();
  auto* value = out.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < n; ++i) value[i] = map.values()[code[i]] * scale[i / kCodeBlock];
  return out.to(like.scalar_type()).view(like.sizes());
}

void to_codes(const DynamicCodes& map, const at::Tensor& value, at::Tensor codes, at::Tensor scales) {
  if (value.scalar_type() != at::kFloat) return;
  if (!value.device().is_cpu()) return codes_on_device(tables_on(map, value.device()), value, codes, scales);
  const at::Tensor from = value.contiguous();
  const std::int64_t n = from.numel();
  const auto* x = from.const_data_ptr<float>();
  auto* code = codes.mutable_data_ptr<std::uint8_t>();
  auto* scale = scales.mutable_data_ptr<float>();
  for (std::int64_t begin = 0; begin < n; begin += kCodeBlock) {
    const auto length = static_cast<std::size_t>(std::min(kCodeBlock, n - begin));
    scale[begin / kCodeBlock] = map.quantize(std::span(x + begin, length), code + begin);
  }
}

}  // namespace hone::ops
