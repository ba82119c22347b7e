#include "ops/quantized.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "base/error.h"
#include "ops/backend/operators.h"
#include "ops/backend/reference/reference.h"
#include "ops/dynamic_codes.h"
#include "ops/kept_ggml.h"

namespace hone::ops {
namespace {

using std::int64_t;

constexpr int64_t kBlock = 64, kNestedBlock = 256;

// QLoRA (Dettmers et al. 2023), appendix E: quantiles of the normal distribution.
constexpr std::array<float, 16> kNf4 = {
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};

// A sign, two bits of exponent, one of mantissa, divided by the largest, 12.
constexpr std::array<float, 16> kFp4 = {
    0.0F / 12,  0.0625F / 12,  8.0F / 12,  12.0F / 12,  4.0F / 12,  6.0F / 12,  2.0F / 12,  3.0F / 12,
    -0.0F / 12, -0.0625F / 12, -8.0F / 12, -12.0F / 12, -4.0F / 12, -6.0F / 12, -2.0F / 12, -3.0F / 12,
};

const std::array<float, 16>& values_of(QuantType type) {
  return type == QuantType::kNf4 ? kNf4 : kFp4;
}

template <std::size_t N>
at::Tensor tensor_of(const std::array<float, N>& values) {
  at::Tensor out = at::empty({static_cast<int64_t>(N)}, at::kFloat);
  std::copy(values.begin(), values.end(), out.mutable_data_ptr<float>());
  return out;
}

}  // namespace

std::string describe(const QuantScheme& scheme) {
  switch (scheme.type) {
    case QuantType::kInt8:
      return "8-bit";
    case QuantType::kQ4_0:
      return "GGUF Q4_0";
    case QuantType::kQ5_0:
      return "GGUF Q5_0";
    case QuantType::kQ8_0:
      return "GGUF Q8_0";
    case QuantType::kQ4_K:
      return "GGUF Q4_K";
    case QuantType::kQ5_K:
      return "GGUF Q5_K";
    case QuantType::kQ6_K:
      return "GGUF Q6_K";
    case QuantType::kNf4:
    case QuantType::kFp4:
      break;
  }
  return std::string(scheme.type == QuantType::kNf4 ? "4-bit nf4" : "4-bit fp4") +
         (scheme.nested ? ", double quantized" : "");
}

at::Tensor code_table(QuantType type) {
  base::require(type == QuantType::kNf4 || type == QuantType::kFp4, "ops::code_table", "a 4-bit type");
  return tensor_of(values_of(type));
}

at::Tensor dynamic_table() {
  return tensor_of(DynamicCodes::with_sign().values());
}

Quantized Quantized::to(at::Device device) const {
  // Blocks of ggml's have one order on every device (ops/kept_ggml.h).
  const bool stays = device.type() == codes.device().type() || is_ggml(scheme.type);
  Quantized moved = stays ? *this : in_rows(*this);
  for (at::Tensor* part : {&moved.codes, &moved.scales, &moved.table, &moved.nested_scales,
                           &moved.nested_table, &moved.nested_offsets, &moved.row_scales}) {
    if (part->defined()) *part = part->to(device);
  }
  return moved;
}

int64_t Quantized::bytes() const {
  int64_t bytes = 0;
  for (const at::Tensor* part : {&codes, &scales, &nested_scales, &row_scales}) {
    if (part->defined()) bytes += static_cast<int64_t>(part->nbytes());
  }
  return bytes;
}

int64_t quantized_bytes(int64_t out, int64_t in, const QuantScheme& scheme) {
  const int64_t n = out * in, blocks = (n + kBlock - 1) / kBlock;
  if (is_ggml(scheme.type)) return kept_ggml_bytes(out, in, scheme);
  if (scheme.type == QuantType::kInt8) return n + 2 * 4 * out;
  const int64_t codes = (n + 1) / 2;
  return codes + (scheme.nested ? blocks + (blocks + kNestedBlock - 1) / kNestedBlock * 4 : blocks * 4);
}

Quantized complete(Quantized parts) {
  constexpr const char* kWhere = "ops::complete";
  const int64_t n = parts.out * parts.in;
  const bool int8 = parts.scheme.type == QuantType::kInt8;
  base::require(n > 0 && parts.block > 0 && parts.nested_block > 0, kWhere, "a matrix with numbers");
  base::require(parts.codes.defined() && parts.codes.is_contiguous() &&
                    parts.codes.numel() == (int8 ? n : (n + 1) / 2) &&
                    parts.codes.scalar_type() == (int8 ? at::kChar : at::kByte),
                kWhere, "one code a number");
  const int64_t blocks = int8 ? parts.out : (n + parts.block - 1) / parts.block;
  base::require(parts.scales.defined() && parts.scales.is_contiguous() && parts.scales.numel() == blocks &&
                    parts.scales.scalar_type() == (parts.scheme.nested ? at::kByte : at::kFloat),
                kWhere, "one scale a block");
  if (int8) {
    parts.block = parts.in;
    parts.codes = parts.codes.view({parts.out, parts.in});
    parts.row_scales = parts.scales * (1.0 / 127.0);
    return parts;
  }
  if (!parts.table.defined()) parts.table = code_table(parts.scheme.type);
  base::require(parts.table.numel() == 16, kWhere, "a table of 16 values");
  if (parts.scheme.nested) {
    if (!parts.nested_table.defined()) parts.nested_table = dynamic_table();
    base::require(parts.nested_table.numel() == 256 &&
                      parts.nested_scales.numel() == (blocks + parts.nested_block - 1) / parts.nested_block,
                  kWhere, "one nested scale a block of scales");
  }
  return parts;
}

Quantized in_rows(const Quantized& matrix) {
  return matrix.layout == nullptr ? matrix : matrix.layout->in_rows(matrix);
}

std::shared_ptr<const Quantized> one_below_another(std::vector<Quantized>& matrices) {
  const Quantized& first = matrices.front();
  const std::int64_t numbers = first.out * first.in, blocks = first.scales.numel();
  const bool whole =
      first.scheme.type == QuantType::kInt8 ||
      (numbers % first.block == 0 && (!first.scheme.nested || blocks % first.nested_block == 0));
  const auto alike = [&](const Quantized& one) {
    return one.scheme == first.scheme && one.out == first.out && one.in == first.in &&
           one.block == first.block && one.nested_block == first.nested_block && one.layout == nullptr &&
           one.source == first.source && !one.nested_offsets.defined();
  };
  if (!whole || !std::all_of(matrices.begin(), matrices.end(), alike)) return nullptr;
  Quantized all = first;
  all.out = first.out * static_cast<std::int64_t>(matrices.size());
  for (at::Tensor Quantized::* part :
       {&Quantized::codes, &Quantized::scales, &Quantized::nested_scales, &Quantized::row_scales}) {
    if (!(first.*part).defined()) continue;
    std::vector<at::Tensor> parts;
    for (const Quantized& one : matrices) parts.push_back(one.*part);
    all.*part = at::cat(parts);
    const std::int64_t length = parts.front().size(0);
    for (std::size_t i = 0; i < matrices.size(); ++i)
      matrices[i].*part = (all.*part).narrow(0, static_cast<std::int64_t>(i) * length, length);
  }
  if (first.scheme.nested) {
    std::vector<float> offsets;
    for (const Quantized& one : matrices) offsets.push_back(one.nested_offset);
    all.nested_offsets = at::tensor(offsets).to(first.codes.device());
  }
  return std::make_shared<const Quantized>(std::move(all));
}

at::Tensor dequantize(const Quantized& matrix, at::ScalarType dtype) {
  if (matrix.layout != nullptr && matrix.layout == backend::operators_of(matrix.codes.device()).codes) {
    const bool direct = dtype == at::kFloat || dtype == at::kBFloat16;
    return matrix.layout->dense(matrix, direct ? dtype : at::kFloat).to(dtype);
  }
  at::Tensor out = at::empty({matrix.out, matrix.in}, matrix.scales.options().dtype(dtype));
  backend::run(out.device(), &backend::Operators::dequantize, reference::dequantize, out, matrix);
  return out;
}

bool keeps_ggml(at::Device device) {
  return backend::operators_of(device).keeps_ggml;
}

}  // namespace hone::ops
