#include "model/files/gguf_tensors.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/error.h"
#include "base/gguf/quantize.h"

namespace hone::model {

using base::GgmlType;

namespace {
constexpr std::int64_t kSlab = 1 << 22;  // elements quantized between two writes
}  // namespace

at::Tensor interleave_rows(const at::Tensor& w, std::int64_t heads) {
  const std::int64_t half = w.size(0) / heads / 2;
  return w.reshape({heads, 2, half, -1}).transpose(1, 2).reshape(w.sizes()).contiguous();
}

at::Tensor order_value_heads(const at::Tensor& w, const ValueHeads& heads, bool to_gguf) {
  if (heads.key_heads == 0 || heads.per_key == 1) return w;
  const std::int64_t dim = heads.columns ? 1 : 0, outer = to_gguf ? heads.key_heads : heads.per_key,
                     inner = to_gguf ? heads.per_key : heads.key_heads, count = outer * inner * heads.width;
  const at::Tensor part = w.narrow(dim, heads.first, count);
  const at::Tensor other = part.unflatten(dim, {outer, inner, heads.width}).transpose(dim, dim + 1);
  at::Tensor out = w.clone();
  out.narrow(dim, heads.first, count).copy_(other.flatten(dim, dim + 2));
  return out;
}

void require_finite(const at::Tensor& values, GgmlType type, const std::string& where) {
  constexpr double kMaxHalf = 65504;
  const double peak = values.abs().max().item<double>();
  const bool too_large = type == GgmlType::kF16 && peak > kMaxHalf;
  if (std::isfinite(peak) && !too_large) return;
  throw base::UserError({where,
                         too_large ? "weights of at most 65504, the largest F16 value" : "finite weights",
                         too_large ? std::to_string(peak) : "infinite or not-a-number values",
                         too_large ? "the model was trained in bfloat16 and uses its range"
                                   : "training diverged, or the file is damaged",
                         too_large ? "write --outtype bf16 or q8_0" : "use an earlier checkpoint"});
}

// In slabs, each shared out among the threads in whole blocks.
void append_tensor(base::GgufWriter& writer, const at::Tensor& tensor, GgmlType type) {
  const float* const values = tensor.const_data_ptr<float>();
  const auto block =
      static_cast<std::int64_t>(base::find_ggml_type(static_cast<std::uint32_t>(type))->elements);
  const auto bytes_of = [type](std::int64_t elements) {
    return static_cast<std::size_t>(base::ggml_bytes(type, static_cast<std::uint64_t>(elements)));
  };
  std::vector<std::byte> buffer;
  for (std::int64_t begin = 0; begin < tensor.numel(); begin += kSlab) {
    const std::int64_t count = std::min(kSlab, tensor.numel() - begin);
    buffer.resize(bytes_of(count));
    at::parallel_for(0, count / block, 64, [&](std::int64_t from, std::int64_t to) {
      base::quantize(type, {values + begin + from * block, static_cast<std::size_t>((to - from) * block)},
                     {buffer.data() + bytes_of(from * block), bytes_of((to - from) * block)});
    });
    writer.append(buffer);
  }
}

}  // namespace hone::model
