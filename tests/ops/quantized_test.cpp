#include "ops/quantized.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "base/error.h"
#include "base/files/safetensors.h"
#include "base/json.h"
#include "ops/fused_linear.h"
#include "ops/gemm.h"
#include "ops/weight.h"

namespace hone::ops {
namespace quantized_test {

constexpr QuantScheme kSchemes[] = {{QuantType::kNf4, false},
                                    {QuantType::kNf4, true},
                                    {QuantType::kFp4, false},
                                    {QuantType::kFp4, true},
                                    {QuantType::kInt8, false}};

const base::SafetensorsFile& golden() {
  static const base::SafetensorsFile file =
      base::SafetensorsFile::open(base::fs::path(HONE_FIXTURES) / "parity" / "bnb.safetensors");
  return file;
}

at::ScalarType type_of(base::DType dtype) {
  switch (dtype) {
    case base::DType::kU8:
      return at::kByte;
    case base::DType::kI8:
      return at::kChar;
    case base::DType::kBF16:
      return at::kBFloat16;
    default:
      return at::kFloat;
  }
}

at::Tensor recorded(const std::string& name) {
  const base::StoredTensor* found = golden().find(name);
  EXPECT_NE(found, nullptr) << name;
  if (found == nullptr) return at::zeros({1});
  at::Tensor out = at::empty(found->shape, type_of(found->dtype));
  std::copy(found->bytes.begin(), found->bytes.end(), static_cast<std::byte*>(out.mutable_data_ptr()));
  return out;
}

base::Json recorded_state(const std::string& name) {
  const base::StoredTensor* found = golden().find(name);
  EXPECT_NE(found, nullptr) << name;
  if (found == nullptr) return base::Json::object();
  return base::parse_json({reinterpret_cast<const char*>(found->bytes.data()), found->bytes.size()}, name);
}

bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && at::equal(a.reshape({-1}), b.reshape({-1}));
}

struct Kind {
  const char* name;
  QuantScheme scheme;
  at::ScalarType source = at::kFloat;
};
constexpr Kind kKinds[] = {{"nf4", {QuantType::kNf4, false}},
                           {"fp4", {QuantType::kFp4, false}},
                           {"nf4_nested", {QuantType::kNf4, true}},
                           {"nf4_bf16", {QuantType::kNf4, false}, at::kBFloat16},
                           {"int8", {QuantType::kInt8, false}}};

// What record_bnb.py recorded: everything of three matrices, and of one with more than 256 scales what is
// new.
std::vector<std::pair<std::string, Kind>> cases() {
  std::vector<std::pair<std::string, Kind>> all = {{"many", kKinds[2]}};
  for (const char* matrix : {"square", "edges", "odd"}) {
    for (const Kind& kind : kKinds) all.emplace_back(matrix, kind);
  }
  return all;
}

Quantized quantized(const std::string& matrix, const Kind& kind) {
  return quantize(recorded(matrix + ".in").to(kind.source), kind.scheme, matrix);
}

TEST(Quantized, GivesBitsandbytesBytes) {
  for (const auto& [matrix, kind] : cases()) {
    const std::string name = matrix + "." + kind.name;
    SCOPED_TRACE(name);
    const Quantized ours = quantized(matrix, kind);
    EXPECT_TRUE(same(ours.codes, recorded(name + ".weight")));
    if (kind.scheme.type == QuantType::kInt8) {
      EXPECT_TRUE(same(ours.scales, recorded(name + ".SCB")));
      continue;
    }
    EXPECT_TRUE(same(ours.scales, recorded(name + ".weight.absmax")));
    EXPECT_TRUE(same(ours.table, recorded(name + ".weight.quant_map")));
    const std::string type = kind.scheme.type == QuantType::kNf4 ? "nf4" : "fp4";
    const base::Json state = recorded_state(name + ".weight.quant_state.bitsandbytes__" + type);
    EXPECT_EQ(state["blocksize"], ours.block);
    if (!kind.scheme.nested) continue;
    EXPECT_TRUE(same(ours.nested_scales, recorded(name + ".weight.nested_absmax")));
    EXPECT_TRUE(same(ours.nested_table, recorded(name + ".weight.nested_quant_map")));
    EXPECT_EQ(state["nested_offset"].get<double>(), static_cast<double>(ours.nested_offset));
    EXPECT_EQ(state["nested_blocksize"], ours.nested_block);
  }
}

TEST(Quantized, StandsForBitsandbytesNumbers) {
  for (const auto& [matrix, kind] : cases()) {
    const std::string name = matrix + "." + kind.name;
    SCOPED_TRACE(name);
    const Quantized ours = quantized(matrix, kind);
    EXPECT_TRUE(same(dequantize(ours, at::kFloat), recorded(name + ".f32")));
    EXPECT_TRUE(same(dequantize(ours, at::kBFloat16), recorded(name + ".bf16")));
  }
}

Quantized random_matrix(std::int64_t out, std::int64_t in, const QuantScheme& scheme,
                        std::uint64_t which = 0) {
  at::manual_seed(static_cast<std::uint64_t>(out * 7 + in) + which);
  return quantize(at::randn({out, in}) * 0.1, scheme, "random");
}

TEST(Quantized, DequantizesTheSameInATen) {
  for (const QuantScheme& scheme : kSchemes) {
    const Quantized matrix = random_matrix(130, 70, scheme);
    EXPECT_TRUE(same(dequantize(matrix, at::kHalf), dequantize(matrix, at::kFloat).to(at::kHalf)));
  }
}

TEST(Quantized, TakesTheBytesItSays) {
  const std::int64_t n = 512 * 256;
  EXPECT_EQ(random_matrix(512, 256, {QuantType::kNf4, false}).bytes(), n / 2 + n / 64 * 4);
  EXPECT_EQ(random_matrix(512, 256, {QuantType::kNf4, true}).bytes(), n / 2 + n / 64 + n / 64 / 256 * 4);
  EXPECT_EQ(random_matrix(512, 256, {QuantType::kInt8, false}).bytes(), n + 512 * 2 * 4);
  for (const QuantScheme& scheme : kSchemes) {
    constexpr std::pair<std::int64_t, std::int64_t> kSizes[] = {{512, 256}, {5, 27}, {300, 70}};
    for (const auto& [out, in] : kSizes)
      EXPECT_EQ(quantized_bytes(out, in, scheme), random_matrix(out, in, scheme).bytes()) << describe(scheme);
  }
}

TEST(Quantized, IsTheSameOnAnyNumberOfThreads) {
  at::manual_seed(3);
  const at::Tensor w = at::randn({2400, 1000});  // 37,500 blocks: libtorch would share out their mean
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Quantized one = quantize(w, {QuantType::kNf4, true}, "w");
  at::set_num_threads(4);
  const Quantized four = quantize(w, {QuantType::kNf4, true}, "w");
  at::set_num_threads(threads);
  EXPECT_TRUE(same(one.codes, four.codes) && same(one.scales, four.scales));
  EXPECT_EQ(one.nested_offset, four.nested_offset);
}

TEST(Quantized, NamesAMatrixThatIsNotFinite) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    for (const QuantScheme& scheme : kSchemes) {
      at::Tensor w = at::randn({4, 64});
      w[2][7] = bad;
      try {
        (void)quantize(w, scheme, "model.layers.3.mlp.up_proj.weight");
        ADD_FAILURE() << "quantized " << bad;
      } catch (const base::UserError& error) {
        EXPECT_NE(std::string(error.what()).find("model.layers.3.mlp.up_proj.weight"), std::string::npos);
      }
    }
  }
}

Linear with_side(Weight weight) {
  at::manual_seed(8);
  Linear linear{.name = "q_proj", .weight = std::move(weight), .bias = {}, .lora = LoraWeights{}};
  linear.lora->a = (at::randn({4, linear.weight.in()}) * 0.1).set_requires_grad(true);
  linear.lora->b = (at::randn({linear.weight.out(), 4}) * 0.1).set_requires_grad(true);
  linear.bias = at::randn({linear.weight.out()}).to(linear.weight.dtype());
  for (at::Tensor* p : {&linear.lora->a, &linear.lora->b}) p->mutable_grad() = at::zeros_like(*p);
  return linear;
}

// y, dx, dA and dB.
std::vector<at::Tensor> pass_through(const Linear& linear, bool fused_form) {
  at::manual_seed(4);
  const at::Tensor x = at::randn({11, linear.weight.in()}).to(linear.weight.dtype());
  const at::Tensor d = at::randn({11, linear.weight.out()}).to(linear.weight.dtype());
  const PassContext pass;
  const auto gradient = [](const at::Tensor& p) { return p.grad().clone(); };
  if (!fused_form) {
    const at::Tensor input = x.clone().set_requires_grad(true);
    const at::Tensor y = linear_forward(linear, input, pass);
    (y * d).sum().backward();
    return {y.detach(), input.grad(), gradient(linear.lora->a), gradient(linear.lora->b)};
  }
  const at::NoGradGuard no_grad;
  const at::Tensor y = at::empty_like(d), dx = at::empty_like(x);
  const at::Tensor lora_a_out = lora_a_forward(linear, x, pass);
  linear_into(y, linear, x, lora_a_out, pass);
  const LinearGradient one{&linear, d, lora_a_out};
  linears_backward(dx, {&one, 1}, x, pass);
  return {y, dx, gradient(linear.lora->a), gradient(linear.lora->b)};
}

TEST(Quantized, GivesAnAdapterTheGradientsOfTheDequantizedMatrixBitForBit) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
    for (const QuantScheme& scheme : kSchemes) {
      const auto matrix = std::make_shared<const Quantized>(random_matrix(96, 128, scheme));
      for (const bool fused_form : {true, false}) {
        const auto found = pass_through(with_side(Weight::quantized(matrix, dtype)), fused_form);
        const auto expected = pass_through(with_side(Weight(dequantize(*matrix, dtype))), fused_form);
        for (std::size_t i = 0; i < found.size(); ++i) {
          EXPECT_TRUE(same(found[i], expected[i]))
              << describe(scheme) << " " << dtype << (fused_form ? " explicit " : " plain ") << i;
        }
      }
    }
  }
}

// The scales' sum is beyond fp32, and their mean not a number: a place in a table of 65,536 then.
TEST(Quantized, ScalesWithoutAMeanAreRefused) {
  const at::Tensor w = at::full({4096, 64}, 3e37F);
  EXPECT_NO_THROW(quantize(w, {QuantType::kNf4, false}, "w"));
  for (const QuantType type : {QuantType::kNf4, QuantType::kFp4}) {
    try {
      quantize(w, {type, true}, "model.q_proj");
      ADD_FAILURE() << "taken";
    } catch (const base::UserError& error) {
      EXPECT_NE(std::string(error.what()).find("model.q_proj"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("use_bnb_nested_quant"), std::string::npos) << error.what();
    }
  }
  const Quantized large = quantize(at::full({4, 64}, 3e37F), {QuantType::kNf4, true}, "w");
  EXPECT_TRUE(dequantize(large, at::kFloat).isfinite().all().item<bool>());
}

// Blocks of their numbers, and of their scales, would be another matrix's.
TEST(Quantized, BecomesOneWithOthersWhereBlocksEnd) {
  for (const QuantScheme& scheme :
       {QuantScheme{QuantType::kNf4, false}, QuantScheme{QuantType::kNf4, true}}) {
    for (const std::int64_t rows : {256, 3}) {  // of 64 numbers; 256 scales are a block
      std::vector<Quantized> matrices = {random_matrix(rows, 64, scheme), random_matrix(rows, 64, scheme, 1)};
      const at::Tensor expected =
          at::cat({dequantize(matrices[0], at::kFloat), dequantize(matrices[1], at::kFloat)});
      const std::shared_ptr<const Quantized> all = one_below_another(matrices);
      ASSERT_EQ(all != nullptr, rows == 256 || !scheme.nested);
      if (all == nullptr) continue;
      EXPECT_TRUE(at::equal(dequantize(*all, at::kFloat), expected));
      EXPECT_TRUE(at::equal(dequantize(matrices[1], at::kFloat), expected.narrow(0, rows, rows)));
      EXPECT_TRUE(matrices[1].codes.storage().is_alias_of(all->codes.storage()));
    }
  }
  std::vector<Quantized> odd = {random_matrix(3, 7, {QuantType::kNf4, false}),
                                random_matrix(3, 7, {QuantType::kNf4, false})};
  EXPECT_EQ(one_below_another(odd), nullptr);
}

TEST(Quantized, IsNeitherPlainNorPacked) {
  const auto matrix = std::make_shared<const Quantized>(random_matrix(64, 64, {QuantType::kNf4, true}));
  const Weight weight = Weight::quantized(matrix, at::kBFloat16);
  EXPECT_TRUE(weight.defined() && weight.is_quantized() && !weight.is_packed());
  EXPECT_EQ(weight.dtype(), at::kBFloat16);
  EXPECT_EQ(weight.bytes(), matrix->bytes());
  EXPECT_THROW((void)weight.plain(), base::InternalError);
  EXPECT_THROW((void)Weight(at::randn({2, 2})).quantized(), base::InternalError);
  EXPECT_EQ(describe(matrix->scheme), "4-bit nf4, double quantized");
}

}  // namespace quantized_test
}  // namespace hone::ops
