#include "ops/backend/layouts.h"
#include "ops/cases/case.h"
#include "ops/gemm.h"
#include "ops/kept_ggml.h"
#include "ops/quantized.h"
#include "ops/weight.h"

namespace hone::ops::cases {
namespace quantized_cases {

struct Matrix {
  std::int64_t out, in;
  QuantScheme scheme;
};

Quantized made(const Matrix& m) {
  return quantize(noise({m.out, m.in}, 1) * 0.1, m.scheme, "w");
}

// Codes and scales, as ops/quantized.h says how they are kept.
at::Tensor defined_by(const Quantized& q) {
  if (q.scheme.type == QuantType::kInt8)
    return wide(q.codes.to(at::kFloat)) * wide(q.scales).unsqueeze(1) / 127;
  const at::Tensor codes = q.codes.to(at::kLong);
  const at::Tensor pairs = at::stack({codes.floor_divide(16), codes.remainder(16)}, 1).reshape({-1});
  const std::int64_t numbers = q.out * q.in;
  at::Tensor scales = q.scales;
  if (q.scheme.nested) {
    const at::Tensor outer =
        wide(q.nested_scales).repeat_interleave(q.nested_block).narrow(0, 0, scales.numel());
    scales = wide(q.nested_table).index_select(0, scales.to(at::kLong)) * outer +
             static_cast<double>(q.nested_offset);
  }
  const at::Tensor factors = wide(scales).repeat_interleave(q.block).narrow(0, 0, numbers);
  return (wide(q.table).index_select(0, pairs.narrow(0, 0, numbers)) * factors).view({q.out, q.in});
}

Case dequantize_of(const Matrix& m, at::ScalarType dtype) {
  Case one{.op = "dequantize",
           .what = std::to_string(m.out) + " x " + std::to_string(m.in) + ", " + describe(m.scheme) + ", " +
                   c10::toString(dtype),
           .bounds = {dtype == at::kFloat ? 3e-7 : kOneRounding}};
  one.run = [=](at::Device device) { return Tensors{dequantize(made(m).to(device), dtype).cpu()}; };
  one.exact = [=] { return Tensors{defined_by(made(m))}; };
  one.own_bits_from = base::InstructionLevel::kPlain;
  one.levels = SameBits::kAllLevels;
  if (dtype == at::kHalf) return one;       // no weight's
  one.otherwise = [=](at::Device device) {  // in the backend's own layout
    const auto matrix = std::make_shared<const Quantized>(made(m).to(device));
    return Tensors{Weight::quantized(matrix, dtype).dense().cpu()};
  };
  return one;
}

// Of a GGUF: where the device keeps none, the CPU's own, which tests/ops hold against the blocks.
Case dequantize_kept(QuantType type, std::int64_t out, std::int64_t in, at::ScalarType dtype) {
  const auto kept = [=] { return sample_ggml(noise({out, in}, 1) * 0.1, type); };
  Case one{.op = "dequantize",
           .what = std::to_string(out) + " x " + std::to_string(in) + ", " +
                   describe(QuantScheme{.type = type}) + ", " + c10::toString(dtype),
           .bounds = {dtype == at::kFloat ? 0 : kOneRounding}};
  one.run = [=](at::Device device) {
    const Quantized matrix = kept();
    return Tensors{dequantize(keeps_ggml(device) ? matrix.to(device) : matrix, dtype).cpu()};
  };
  one.exact = [=] {
    const Quantized matrix = kept();
    return Tensors{wide(matrix.layout->dense(matrix, at::kFloat))};
  };
  one.own_bits_from = base::InstructionLevel::kPlain;
  one.levels = SameBits::kAllLevels;
  return one;
}

// Three matrices that became one, on the device.
Case dequantize_together(const QuantScheme& scheme, at::ScalarType dtype) {
  const auto matrices = [=] {
    std::vector<Quantized> out;
    for (std::uint64_t i = 0; i < 3; ++i) out.push_back(quantize(noise({64, 256}, i) * 0.1, scheme, "w"));
    return out;
  };
  Case one{.op = "dequantize",
           .what = "3 x 64 x 256, " + describe(scheme) + ", " + c10::toString(dtype),
           .bounds = {dtype == at::kFloat ? 3e-7 : kOneRounding}};
  one.run = [=](at::Device device) {
    std::vector<Quantized> moved;
    for (const Quantized& matrix : matrices()) moved.push_back(matrix.to(device));
    const std::shared_ptr<const Quantized> all = one_below_another(moved);
    at::Tensor parts = at::empty({0, 256}, all->scales.options().dtype(dtype));
    for (const Quantized& matrix : moved) parts = at::cat({parts, dequantize(matrix, dtype)});
    return Tensors{dequantize(*all, dtype).cpu(), parts.cpu()};
  };
  one.exact = [=] {
    std::vector<at::Tensor> out;
    for (const Quantized& matrix : matrices()) out.push_back(defined_by(matrix));
    return Tensors{at::cat(out), at::cat(out)};
  };
  one.own_bits_from = base::InstructionLevel::kPlain;
  one.levels = SameBits::kAllLevels;
  return one;
}

// Products with a quantized matrix have the bits of those with its numbers.
Case product_of(const Matrix& m, std::int64_t rows, GemmDirection side, at::ScalarType dtype) {
  const bool forward = side == GemmDirection::kForward;
  const auto run = [=](at::Device device, bool plain) {
    const Quantized matrix = made(m).to(device);
    const Weight weight = plain ? Weight(dequantize(matrix, dtype))
                                : Weight::quantized(std::make_shared<const Quantized>(matrix), dtype);
    const at::Tensor a = noise({rows, forward ? m.in : m.out}, 2, dtype).to(device);
    const Placed out(unwritten({rows, forward ? m.out : m.in}, dtype), device, Layout::kStrided);
    multiply(out.view(), a, weight, side);
    return Tensors{out.taken()};
  };
  Case one{.op = "gemms",
           .what = std::to_string(rows) + " rows, " + std::to_string(m.out) + " x " + std::to_string(m.in) +
                   ", " + describe(m.scheme) + (forward ? ", " : ", backward, ") + describe(dtype),
           .bounds = {bound_of(dtype, 1e-5, 2 * kOneRounding)}};
  one.run = [=](at::Device device) { return run(device, false); };
  one.exact = [=] {
    const at::Tensor w = wide(defined_by(made(m)).to(dtype));  // of the numbers as they are rounded
    return Tensors{wide(noise({rows, forward ? m.in : m.out}, 2, dtype)).matmul(forward ? w.t() : w)};
  };
  one.own_bits_from = base::InstructionLevel::kAvx2;
  one.levels = dtype == at::kFloat ? SameBits::kFromAvx2 : SameBits::kAvx2AndAvx512;
  one.otherwise = [=](at::Device device) { return run(device, true); };
  return one;
}

}  // namespace quantized_cases

void add_quantized_cases(Cases& all) {
  using namespace quantized_cases;
  constexpr QuantScheme kSchemes[] = {{QuantType::kNf4, false},
                                      {QuantType::kNf4, true},
                                      {QuantType::kFp4, false},
                                      {QuantType::kFp4, true},
                                      {QuantType::kInt8, false}};
  for (const QuantScheme& scheme : kSchemes) {
    for (const auto& [out, in] :
         {std::pair<std::int64_t, std::int64_t>{96, 128}, {33, 192}, {5, 27}, {257, 896}}) {
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
        all.push_back(dequantize_of({out, in, scheme}, dtype));
        if (out == 257) continue;
        for (const std::int64_t rows : {1, 7, 33}) {
          all.push_back(product_of({out, in, scheme}, rows, GemmDirection::kForward, dtype));
          all.push_back(product_of({out, in, scheme}, rows, GemmDirection::kBackward, dtype));
        }
      }
    }
    all.push_back(dequantize_of({130, 70, scheme}, at::kHalf));
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
      all.push_back(dequantize_together(scheme, dtype));
  }
  for (const QuantType type : {QuantType::kQ4_0, QuantType::kQ5_0, QuantType::kQ8_0, QuantType::kQ4_K,
                               QuantType::kQ5_K, QuantType::kQ6_K}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      all.push_back(dequantize_kept(type, 32, 256, dtype));
      all.push_back(dequantize_kept(type, 96, 768, dtype));
    }
  }
}

}  // namespace hone::ops::cases
