#include "ops/backend/cpu/quantized_panels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/gguf/ggml_types.h"
#include "base/gguf/gguf.h"
#include "base/gguf/quantize.h"
#include "base/process/instruction_level.h"
#include "ops/gemm.h"
#include "ops/kept_ggml.h"
#include "ops/weight.h"

namespace hone::ops {
namespace quantized_panels_test {

using base::GgmlType;
using std::int64_t;

constexpr QuantScheme kSchemes[] = {{QuantType::kNf4, false},
                                    {QuantType::kNf4, true},
                                    {QuantType::kFp4, false},
                                    {QuantType::kFp4, true},
                                    {QuantType::kInt8, false}};
constexpr QuantType kKept[] = {QuantType::kQ4_0, QuantType::kQ5_0, QuantType::kQ8_0,
                               QuantType::kQ4_K, QuantType::kQ5_K, QuantType::kQ6_K};

Quantized in_panels(const Quantized& rows) {
  return cpu::kPanelCodes.arrange(rows);
}

bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && at::equal(a.reshape({-1}), b.reshape({-1}));
}

at::Tensor random(int64_t out, int64_t in) {
  at::manual_seed(out * 7 + in);
  return at::randn({out, in}) * 0.1;
}

// Matrices of every type: bitsandbytes' in rows, ggml's in panels. Deeper than a slice of the GEMM, with a last piece.
std::vector<Quantized> matrices() {
  std::vector<Quantized> all;
  for (const QuantScheme& scheme : kSchemes) {
    all.push_back(quantize(random(96, 1216), scheme, "w"));
    all.push_back(quantize(random(32, 64), scheme, "w"));
  }
  for (const QuantType type : kKept) {
    all.push_back(sample_ggml(random(96, 1280), type));
    all.push_back(sample_ggml(random(32, 256), type));
  }
  return all;
}

// Blocks in a file are read by base::dequantize, which is ggml's definition.
TEST(QuantizedPanels, KeepTheNumbersOfAGguf) {
  constexpr std::pair<GgmlType, QuantType> kTypes[] = {
      {GgmlType::kQ5_0, QuantType::kQ5_0}, {GgmlType::kQ8_0, QuantType::kQ8_0},
      {GgmlType::kQ4_K, QuantType::kQ4_K}, {GgmlType::kQ5_K, QuantType::kQ5_K},
      {GgmlType::kQ6_K, QuantType::kQ6_K}, {GgmlType::kQ4_0, QuantType::kQ4_0}};
  constexpr int64_t kOut = 64, kIn = 512;
  for (const auto& [type, kept] : kTypes) {
    // Any bytes are a block, so long as its halves are finite: codes, factors and signs of every kind.
    const base::GgmlTypeInfo& info = *base::find_ggml_type(static_cast<std::uint32_t>(type));
    std::vector<std::byte> blocks(kOut * kIn / info.elements * info.bytes);
    at::manual_seed(5);
    const at::Tensor noise = at::randint(256, {static_cast<int64_t>(blocks.size())}, at::kByte);
    std::memcpy(blocks.data(), noise.const_data_ptr(), blocks.size());
    for (std::size_t at = 0; at < blocks.size(); at += info.bytes) {
      const std::size_t half = type == GgmlType::kQ6_K ? 208 : 0;
      blocks[at + half + 1] &= std::byte{0xBB};  // an exponent below infinity's
      if (type == GgmlType::kQ4_K || type == GgmlType::kQ5_K) blocks[at + 3] &= std::byte{0xBB};
    }
    const base::GgufTensor stored{"w", type, {kOut, kIn}, blocks};
    const at::Tensor expected = at::empty({kOut, kIn}, at::kFloat);
    base::dequantize(stored, {expected.mutable_data_ptr<float>(), kOut * kIn});
    ASSERT_EQ(kept_ggml_scheme(type, kOut, kIn, at::kBFloat16), QuantScheme{.type = kept});
    const Quantized matrix = keep_ggml(type, blocks, kOut, kIn);
    EXPECT_TRUE(matrix.is_tame);
    for (const base::InstructionLevel level : base::kInstructionLevels) {
      if (level == base::InstructionLevel::kPlain || !base::machine_has(level)) continue;
      const base::ForceInstructionLevel force(level);
      EXPECT_TRUE(same(dequantize(matrix, at::kFloat), expected))
          << describe(matrix.scheme) << name_of(level);
      EXPECT_TRUE(same(dequantize(matrix, at::kBFloat16), expected.to(at::kBFloat16)))
          << describe(matrix.scheme) << name_of(level);
    }
    std::vector<int64_t> rows(kOut);
    std::iota(rows.rbegin(), rows.rend(), 0);
    EXPECT_TRUE(same(dequantize(keep_ggml(type, blocks, kOut, kIn, rows), at::kFloat), expected.flip(0)));
    const auto bytes = static_cast<int64_t>(blocks.size());
    const bool wider = type == GgmlType::kQ4_K || type == GgmlType::kQ5_K;
    EXPECT_EQ(matrix.bytes(), bytes + (wider ? kOut * kIn / 256 * 4 : 0)) << describe(matrix.scheme);
  }
}

TEST(QuantizedPanels, AreKeptOnlyWhereTheShapeAllowsIt) {
  EXPECT_TRUE(kept_ggml_scheme(GgmlType::kQ8_0, 64, 192, at::kFloat));
  EXPECT_FALSE(kept_ggml_scheme(GgmlType::kQ8_0, 40, 192, at::kFloat));
  EXPECT_FALSE(kept_ggml_scheme(GgmlType::kQ8_0, 64, 96, at::kFloat));
  EXPECT_FALSE(kept_ggml_scheme(GgmlType::kQ4_K, 64, 192, at::kFloat));
  EXPECT_FALSE(kept_ggml_scheme(GgmlType::kF16, 64, 256, at::kFloat));
  EXPECT_FALSE(kept_ggml_scheme(GgmlType::kQ8_0, 64, 192, at::kHalf));
  const base::ForceInstructionLevel force(base::InstructionLevel::kPlain);
  EXPECT_FALSE(kept_ggml_scheme(GgmlType::kQ8_0, 64, 192, at::kFloat));
}

TEST(QuantizedPanels, AreBitsandbytesCodesInAnotherOrder) {
  for (const QuantScheme& scheme : kSchemes) {
    const Quantized rows = quantize(random(64, 192), scheme, "w");
    ASSERT_TRUE(fits_panels(rows));
    const Quantized panels = in_panels(rows);
    EXPECT_TRUE(panels.layout == &cpu::kPanelCodes && panels.is_tame);
    EXPECT_FALSE(same(panels.codes, rows.codes));
    EXPECT_TRUE(same(in_rows(panels).codes, rows.codes)) << describe(scheme);
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf})
      EXPECT_TRUE(same(dequantize(panels, dtype), dequantize(rows, dtype))) << describe(scheme);
    const base::ForceInstructionLevel force(base::InstructionLevel::kPlain);
    EXPECT_TRUE(same(dequantize(panels, at::kBFloat16), dequantize(rows, at::kBFloat16))) << describe(scheme);
  }
  for (const auto& [out, in] : {std::pair(40, 64), std::pair(64, 96), std::pair(5, 27)})
    EXPECT_FALSE(fits_panels(quantize(random(out, in), kSchemes[0], "w")));
}

// A slice reads a part of the whole, and rows come as the embedding's lookup wants them.
TEST(QuantizedPanels, AreSlicedAndLookedUp) {
  for (const Quantized& matrix : matrices()) {
    if (matrix.out == 32) continue;
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const Weight whole = Weight::quantized(std::make_shared<const Quantized>(matrix), dtype);
      const at::Tensor dense = dequantize(matrix, dtype);
      const Weight part = whole.slice(32, matrix.out).slice(0, 32);
      EXPECT_TRUE(same(part.dense(), dense.narrow(0, 32, 32))) << describe(matrix.scheme);
      const at::Tensor ids = at::tensor({31, 0, 0, 17, 5}, at::kLong);
      EXPECT_TRUE(same(part.rows(ids), dense.index_select(0, ids + 32))) << describe(matrix.scheme);
      EXPECT_THROW(part.rows(at::tensor({32}, at::kLong)), base::InternalError);
      for (const std::int64_t rows : {3, 20}) {
        const at::Tensor x = at::randn({rows, matrix.in}).to(dtype), y = at::randn({rows, 32}).to(dtype);
        const auto product = [&](const Weight& weight, const at::Tensor& a, GemmDirection side) {
          at::Tensor out = at::zeros({rows, side == GemmDirection::kForward ? 32 : matrix.in}, dtype);
          gemm(out, std::vector{GemmTerm{a, &weight, side}}, {});
          return out;
        };
        const Weight plain(part.dense());
        EXPECT_TRUE(
            same(product(part, x, GemmDirection::kForward), product(plain, x, GemmDirection::kForward)));
        EXPECT_TRUE(
            same(product(part, y, GemmDirection::kBackward), product(plain, y, GemmDirection::kBackward)));
      }
    }
  }
}

// Both products of a linear with a LoRA: a chain over two terms. Rows that are read from codes and rows that are not.
void expect_products(const Quantized& matrix, base::InstructionLevel level, at::ScalarType dtype) {
  const Weight quantized = Weight::quantized(std::make_shared<const Quantized>(matrix), dtype);
  const Weight plain(dequantize(matrix, dtype));
  EXPECT_TRUE(quantized.quantized().layout == &cpu::kPanelCodes);
  for (const GemmDirection side : {GemmDirection::kForward, GemmDirection::kBackward}) {
    const bool forward = side == GemmDirection::kForward;
    const int64_t k = forward ? matrix.in : matrix.out, n = forward ? matrix.out : matrix.in;
    for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 40}) {
      const at::Tensor a = at::randn({rows, k}).to(dtype), b = at::randn({rows, 8}).to(dtype);
      const std::vector<int64_t> shape = forward ? std::vector<int64_t>{n, 8} : std::vector<int64_t>{8, n};
      const Weight factor(at::randn(shape).to(dtype));
      const at::Tensor found = at::full({rows, n}, std::nan(""), dtype), expected = at::zeros_like(found);
      for (const bool first : {true, false}) {
        const auto product = [&](const Weight& weight, const at::Tensor& out) {
          const GemmTerm base{a, &weight, side}, lora{b, &factor, side};
          gemm(out, first ? std::vector{base, lora} : std::vector{lora, base}, {.scale = 0.5});
        };
        product(quantized, found);
        product(plain, expected);
        EXPECT_TRUE(same(found, expected))
            << name_of(level) << " " << describe(matrix.scheme) << " " << matrix.in << " " << rows
            << (forward ? " forward " : " backward ") << dtype << (first ? " first" : " second");
      }
    }
  }
}

TEST(QuantizedPanels, MultiplyAsTheDequantizedMatrixBitForBit) {
  const std::vector<Quantized> all = matrices();
  for (const base::InstructionLevel level : base::kInstructionLevels) {
    if (level == base::InstructionLevel::kPlain || !base::machine_has(level)) continue;
    const base::ForceInstructionLevel force(level);
    for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
      for (const Quantized& matrix : all) expect_products(matrix, level, dtype);
    }
  }
}

// Numbers whose rounding to bf16 the products of few rows do not do by themselves: below 2^-126, and infinite scales.
TEST(QuantizedPanels, MultiplyNumbersAtTheEdgesOfFloat) {
  for (const base::InstructionLevel level : base::kInstructionLevels) {
    if (level == base::InstructionLevel::kPlain || !base::machine_has(level)) continue;
    const base::ForceInstructionLevel force(level);
    for (const QuantScheme& scheme : kSchemes) {
      if (scheme.type == QuantType::kInt8) continue;  // of numbers rounded to fp16
      const Quantized small = quantize(random(64, 192) * 1e-37, scheme, "w");
      EXPECT_FALSE(in_panels(small).is_tame);
      const Weight quantized = Weight::quantized(std::make_shared<const Quantized>(small), at::kBFloat16);
      EXPECT_TRUE(same(quantized.dense(), dequantize(small, at::kBFloat16))) << name_of(level);
      // Tame numbers of every binade, exactly between two of bf16 among them.
      const at::Tensor wide = at::ldexp(at::ones({64}), at::arange(-32, 32)).unsqueeze(1) * random(64, 192);
      expect_products(quantize(wide, scheme, "w"), level, at::kBFloat16);
    }
  }
  Quantized ties = quantize(at::ones({32, 64}), {QuantType::kNf4, false}, "w");
  for (int64_t i = 0; i < 16; ++i)  // halves of the last bit of bf16: up, down, and each sign
    ties.table.mutable_data_ptr<float>()[i] =
        (i % 2 == 0 ? 1.0F : -1.0F) * (1 + static_cast<float>(2 * i + 1) / 256);
  ties.codes.copy_(at::arange(ties.codes.numel()).to(at::kByte));
  for (const base::InstructionLevel level : base::kInstructionLevels) {
    if (level == base::InstructionLevel::kPlain || !base::machine_has(level)) continue;
    const base::ForceInstructionLevel force(level);
    expect_products(ties, level, at::kBFloat16);
  }
}

}  // namespace quantized_panels_test
}  // namespace hone::ops
