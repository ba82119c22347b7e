// QLoRA: an adapter on a quantized base against one on the model of its dequantized weights, bit for bit, and
// that what is trained is trained whatever the base (GRAD-04).
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "adapters/lora.h"
#include "base/files/crc32c.h"
#include "model/files/export.h"
#include "model/files/weight_source.h"
#include "model/fused_pass.h"
#include "model/tiny_model.h"
#include "train/opening/memory_inputs.h"
#include "train/opening/open_model.h"
#include "train/passes/scored_pass.h"

namespace hone::train {
namespace quantized_base_test {

using namespace hone::test_tools;

constexpr model::DtypePolicy kFp32 = {at::kFloat, at::kFloat};
constexpr model::DtypePolicy kAutocast = {at::kBFloat16, at::kFloat};
constexpr model::DtypePolicy kBf16 = {at::kBFloat16, at::kBFloat16};
constexpr ops::QuantScheme kSchemes[] = {{ops::QuantType::kNf4, false},
                                         {ops::QuantType::kNf4, true},
                                         {ops::QuantType::kFp4, true},
                                         {ops::QuantType::kInt8, false}};

base::Json config_of(bool whole_blocks) {
  base::Json config = tiny_config("qwen2");
  if (whole_blocks) config.update({{"hidden_size", 64}, {"intermediate_size", 192}});
  return config;
}

struct Trained {
  std::unique_ptr<model::CausalLm> model;
  std::optional<adapters::Adapter> adapter;

  Trained(const fs::path& folder, model::DtypePolicy dtypes, const model::Quantize& quantize = {},
          model::Storage storage = model::Storage::kPlain,
          const std::vector<std::string>& targets = {"all-linear"})
      : model(std::make_unique<model::CausalLm>(*model::open_weights(folder), dtypes, storage, quantize)) {
    adapters::LoraConfig config;
    config.r = 4;
    config.alpha = 8;
    config.dropout = 0.1;
    config.target_modules = targets;
    config.target_is_regex = targets.size() == 1;
    config.init = adapters::LoraInit::kFalse;
    adapter = adapters::Adapter::attach(*model, config, 7);
  }
  // The loss and the gradient of every tensor.
  std::pair<double, at::Tensor> pass(const PassForm& form) {
    data::Batch batch = make_batch({{3, 4, 5, 6, 7, 8, 9, 10}, {11, 12, 13, 14, 15}, {20, 21, 22}});
    adapter->zero_gradient();
    const ScoredFacts facts =
        score_and_backward(*model, batch, {.training = true, .seed = 3, .step = 5}, 17.0, form);
    return {facts.nll_sum, adapter->flat_gradient().clone()};
  }
  std::vector<std::uint32_t> frozen() const {
    std::vector<std::uint32_t> out;
    for (const auto& [name, tensor] : model->frozen_tensors()) {
      const at::Tensor t = tensor.contiguous();
      out.push_back(base::crc32c({static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()}));
    }
    return out;
  }
};

// What the scheme's codes of the model `in` stand for.
void write_dequantized(const fs::path& in, const fs::path& out, const ops::QuantScheme& scheme) {
  const fs::path codes = out.parent_path() / ("codes of " + out.filename().string());
  model::write_hf_folder(*model::open_weights(in), codes, {.dtype = at::kFloat, .quantize = scheme});
  model::write_hf_folder(*model::open_weights(codes), out, {.dtype = at::kFloat});
}

// A model folder and, for each scheme, one that holds what its quantized weights stand for.
class QuantizedBase : public ::testing::TestWithParam<bool> {
 protected:
  QuantizedBase() {
    write_model(folder_.path() / "in", config_of(GetParam()));
    for (const ops::QuantScheme& scheme : kSchemes) write_dequantized(in(), full(scheme), scheme);
  }
  fs::path in() const { return folder_.path() / "in"; }
  fs::path full(const ops::QuantScheme& scheme) const { return folder_.path() / ops::describe(scheme); }
  TempFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(WholeBlocks, QuantizedBase, ::testing::Bool());

TEST_P(QuantizedBase, GivesTheGradientsOfItsDequantizedWeightsBitForBit) {
  for (const model::DtypePolicy dtypes : {kFp32, kAutocast}) {
    for (const ops::QuantScheme& scheme : kSchemes) {
      Trained codes(in(), dtypes, scheme), plain(full(scheme), dtypes);
      for (const PassForm form : {PassForm{.is_fused = true, .recompute = model::RecomputeLevel::kNone},
                                  PassForm{.is_fused = true, .recompute = model::RecomputeLevel::kLayer},
                                  PassForm{.is_fused = false}}) {
        const auto [loss, gradient] = codes.pass(form);
        const auto [expected_loss, expected] = plain.pass(form);
        EXPECT_EQ(loss, expected_loss) << ops::describe(scheme);
        EXPECT_TRUE(at::equal(gradient, expected))
            << ops::describe(scheme) << " " << dtypes.linear << " " << (form.is_fused ? "explicit" : "plain");
      }
    }
  }
}

class QuantizedBaseOf : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, QuantizedBaseOf, ::testing::ValuesIn(every_family()));

TEST_P(QuantizedBaseOf, GivesTheGradientsOfItsDequantizedWeightsBitForBit) {
  const TempFolder folder;
  const fs::path in = folder.path() / "in", out = folder.path() / "out";
  write_model(in, tiny_config(GetParam()));
  const ops::QuantScheme scheme = kSchemes[1];
  write_dequantized(in, out, scheme);
  const std::vector<std::string> targets = without_experts(GetParam());
  for (const model::DtypePolicy dtypes : {kFp32, kAutocast}) {
    Trained codes(in, dtypes, scheme, model::Storage::kPlain, targets),
        plain(out, dtypes, {}, model::Storage::kPlain, targets);
    std::size_t quantized = 0;
    for (const model::DecoderLayer& layer : codes.model->layers())
      for (const ops::Linear* linear : layer.linears()) quantized += linear->weight.is_quantized() ? 1 : 0;
    EXPECT_GE(quantized, codes.model->layers().size());
    for (const PassForm form : {PassForm{.is_fused = true, .recompute = model::RecomputeLevel::kLayer},
                                PassForm{.is_fused = false}}) {
      const auto [loss, gradient] = codes.pass(form);
      const auto [expected_loss, expected] = plain.pass(form);
      EXPECT_EQ(loss, expected_loss) << dtypes.linear;
      EXPECT_TRUE(at::equal(gradient, expected)) << dtypes.linear << " " << form.is_fused;
    }
  }
}

// The order load, quantize, attach is the only one there is, so nothing freezes an adapter afterwards.
TEST_P(QuantizedBase, TrainsEveryTensorAndKeepsEveryCode) {
  for (const ops::QuantScheme& scheme : kSchemes) {
    Trained run(in(), kBf16, scheme);
    EXPECT_EQ(run.model->quantized(), model::Quantize(scheme));
    const std::vector<std::uint32_t> before = run.frozen();
    const at::Tensor start = run.adapter->flat().clone();
    (void)run.pass({.is_fused = true});
    for (const auto& tensor : run.adapter->tensors()) {
      EXPECT_TRUE(tensor.value.requires_grad()) << tensor.name;
      EXPECT_EQ(tensor.value.scalar_type(), at::kFloat) << tensor.name;
      const at::Tensor gradient = tensor.value.grad();
      ASSERT_TRUE(gradient.defined()) << tensor.name;
      EXPECT_TRUE(gradient.isfinite().all().item<bool>() && gradient.abs().max().item<float>() > 0)
          << tensor.name;
    }
    {
      const at::NoGradGuard no_grad;
      run.adapter->flat().sub_(run.adapter->flat_gradient(), 0.1);
    }
    (void)run.pass({.is_fused = true});
    EXPECT_FALSE(at::equal(run.adapter->flat(), start));
    EXPECT_EQ(run.frozen(), before);
  }
}

TEST_P(QuantizedBase, SamplesWithTheNumbersThatItTrainsWith) {
  Trained run(in(), kBf16, kSchemes[1], model::Storage::kPacked);
  const std::vector<std::int64_t> ids = {3, 4, 5, 6, 7, 8, 9};
  model::KvCache cache;
  std::vector<model::KvCache*> caches = {&cache};
  const data::Batch batch = make_batch({ids});
  const ops::PassContext context;
  const at::Tensor rows = at::arange(static_cast<std::int64_t>(ids.size()));
  const at::Tensor expected = model::FusedPass(*run.model, batch, context).forward(rows, std::nullopt);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const at::Tensor found = run.model->step({{ids[i]}}, caches, context);
    const at::Tensor row = expected[static_cast<std::int64_t>(i)];
    EXPECT_LT((found[0] - row).abs().max().item<double>(), 0.05) << i;
  }
}

TEST_P(QuantizedBase, IsCountedAsItLies) {
  const Trained plain(in(), kBf16), nested(in(), kBf16, kSchemes[1]);
  config::Plan plan;
  plan.use_peft = true;
  const MemoryInputs inputs =
      memory_inputs(*nested.model, plan, 0, {.tokens = 8, .scored = 8, .segment = 8}, {});
  EXPECT_EQ(inputs.quantized, "4-bit nf4, double quantized");
  EXPECT_EQ(inputs.base_bytes, nested.model->parameter_bytes());
  const MemoryPlan found = memory_of(inputs, true, config::RecomputeMode::kNone);
  EXPECT_EQ(found.segments[1].name, "base weights, 4-bit nf4, double quantized");
  EXPECT_LT(inputs.base_bytes, plain.model->parameter_bytes());
  // A plain pass dequantizes one matrix at a time.
  EXPECT_EQ(inputs.largest_linear, GetParam() ? 64 * 192 : 32 * 40);
}

TEST(QuantizedPlan, SaysWhatTheBaseBecomes) {
  config::Plan plan;
  EXPECT_FALSE(quantize(plan));
  plan.quantized_base = config::QuantizedBase::kNf4;
  EXPECT_EQ(*quantize(plan), (ops::QuantScheme{ops::QuantType::kNf4, false}));
  plan.use_bnb_nested_quant = true;
  EXPECT_EQ(*quantize(plan), (ops::QuantScheme{ops::QuantType::kNf4, true}));
  plan.quantized_base = config::QuantizedBase::kInt8;
  plan.use_bnb_nested_quant = false;
  EXPECT_EQ(*quantize(plan), (ops::QuantScheme{ops::QuantType::kInt8, false}));
}

}  // namespace quantized_base_test
}  // namespace hone::train
