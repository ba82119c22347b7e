// quantize_moe_experts: a LoRA on experts and attention above codes of 4 and 8 bits, against the model of the dequantized
// weights, bit for bit; and what merging, other files and the plan make of such a base.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "adapters/lora.h"
#include "adapters/merge.h"
#include "model/config/planned_bytes.h"
#include "model/files/bnb_files.h"
#include "model/files/export.h"
#include "model/files/gguf_write.h"
#include "model/fused_pass.h"
#include "model/tiny_model.h"
#include "train/opening/memory_inputs.h"
#include "train/opening/open_model.h"
#include "train/passes/scored_pass.h"

namespace hone::train {
namespace quantized_experts_test {

using namespace hone::test_tools;
using model::Quantize;

constexpr model::DtypePolicy kFp32 = {at::kFloat, at::kFloat};
constexpr model::DtypePolicy kAutocast = {at::kBFloat16, at::kFloat};
constexpr model::DtypePolicy kBf16 = {at::kBFloat16, at::kBFloat16};
constexpr ops::QuantScheme kSchemes[] = {{ops::QuantType::kNf4, false},
                                         {ops::QuantType::kNf4, true},
                                         {ops::QuantType::kFp4, true},
                                         {ops::QuantType::kInt8, false}};

struct Trained {
  std::unique_ptr<model::CausalLm> model;
  std::optional<adapters::Adapter> adapter;

  Trained(const fs::path& folder, model::DtypePolicy dtypes, const Quantize& quantize = {},
          model::Storage storage = model::Storage::kPlain)
      : model(std::make_unique<model::CausalLm>(*model::open_weights(folder), dtypes, storage, quantize)) {
    adapters::LoraConfig config;
    config.r = 4;
    config.alpha = 8;
    config.target_modules = {"q_proj", "v_proj"};
    config.target_parameters = {"experts.gate_up_proj", "experts.down_proj"};
    config.init = adapters::LoraInit::kFalse;
    adapter = adapters::Adapter::attach(*model, config, 7);
  }
  // The loss and the gradient of every tensor.
  std::pair<double, at::Tensor> pass(const PassForm& form) {
    const data::Batch batch = make_batch({{3, 4, 5, 6, 7, 8, 9, 10}, {11, 12, 13, 14, 15}, {20, 21, 22}});
    adapter->zero_gradient();
    const ScoredFacts facts = score_and_backward(*model, batch, {.training = true, .seed = 3, .step = 5},
                                                 17.0, form, {.balance = 0.1});
    return {facts.nll_sum, adapter->flat_gradient().clone()};
  }
};

// The same numbers, of matrices that are quantized with experts.
void write_dequantized(const fs::path& in, const fs::path& out, const ops::QuantScheme& scheme) {
  const auto source = model::open_weights(in);
  const std::set<std::string> matrices = model::quantized_matrices(source->config(), /*experts=*/true);
  model::write_hf_folder(*source, out, {.dtype = at::kFloat},
                         [&](const std::string& name) -> std::optional<at::Tensor> {
                           if (!matrices.contains(name)) return std::nullopt;
                           const at::Tensor w = source->read(name, at::kFloat);
                           return ops::dequantize(ops::quantize(w, scheme, name), at::kFloat);
                         });
}

bool is_expert(const ops::Linear& linear) {
  return linear.name.find(".experts.") != std::string::npos;
}

class QuantizedExperts : public ::testing::TestWithParam<const char*> {
 protected:
  QuantizedExperts() { write_model(in(), tiny_config(GetParam())); }
  fs::path in() const { return folder_.path() / "in"; }
  fs::path full(const ops::QuantScheme& scheme) const {
    const fs::path out = folder_.path() / ops::describe(scheme);
    if (!fs::exists(out)) write_dequantized(in(), out, scheme);
    return out;
  }
  TempFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Families, QuantizedExperts, ::testing::ValuesIn(families_with_experts()));

TEST_P(QuantizedExperts, GiveTheGradientsOfTheirDequantizedWeightsBitForBit) {
  for (const model::DtypePolicy dtypes : {kFp32, kAutocast}) {
    for (const ops::QuantScheme& scheme : kSchemes) {
      Trained codes(in(), dtypes, Quantize(scheme, true)), plain(full(scheme), dtypes);
      for (const PassForm form : {PassForm{.is_fused = true, .recompute = model::RecomputeLevel::kNone},
                                  PassForm{.is_fused = true, .recompute = model::RecomputeLevel::kLayer},
                                  PassForm{.is_fused = false}}) {
        const auto [loss, gradient] = codes.pass(form);
        const auto [expected_loss, expected] = plain.pass(form);
        EXPECT_EQ(loss, expected_loss) << ops::describe(scheme);
        EXPECT_TRUE(at::equal(gradient, expected))
            << ops::describe(scheme) << " " << dtypes.linear << " " << (form.is_fused ? "explicit" : "plain");
        EXPECT_GT(gradient.abs().max().item<double>(), 1e-4);
      }
    }
  }
}

TEST_P(QuantizedExperts, AreHeldInCodesAndTheirLoraTrains) {
  for (const ops::QuantScheme& scheme : kSchemes) {
    Trained run(in(), kBf16, Quantize(scheme, true));
    EXPECT_EQ(run.model->quantized(), Quantize(scheme, true));
    for (const ops::Linear* linear : run.model->linears()) {
      const bool router = linear->weight.out() == 5 && !is_expert(*linear);
      EXPECT_EQ(linear->weight.is_quantized(), !router) << linear->name;
    }
    (void)run.pass({.is_fused = true});
    for (const auto& tensor : run.adapter->tensors()) {
      const at::Tensor gradient = tensor.value.grad();
      EXPECT_TRUE(tensor.value.requires_grad() && gradient.isfinite().all().item<bool>() &&
                  gradient.abs().max().item<float>() > 0)
          << tensor.name;
    }
    // without the option as bitsandbytes has it
    const Trained others(in(), kBf16, Quantize(scheme));
    EXPECT_EQ(others.model->quantized(), Quantize(scheme, false));
    for (const ops::Linear* linear : others.model->linears()) {
      EXPECT_FALSE(is_expert(*linear) && linear->weight.is_quantized()) << linear->name;
    }
    EXPECT_LT(run.model->parameter_bytes(), others.model->parameter_bytes());
    for (const Quantize& each : {Quantize(), Quantize(scheme), Quantize(scheme, true)}) {
      const auto source = model::open_weights(in());
      EXPECT_EQ(model::planned_bytes(source->config(), at::kBFloat16, at::kBFloat16, each),
                model::CausalLm(*source, kBf16, model::Storage::kPlain, each).parameter_bytes());
    }
  }
}

TEST_P(QuantizedExperts, SampleWithTheNumbersThatTheyTrainWith) {
  const Trained run(in(), kBf16, Quantize(kSchemes[1], true), model::Storage::kPacked);
  const std::vector<std::int64_t> ids = {3, 4, 5, 6, 7, 8, 9};
  model::KvCache cache;
  std::vector<model::KvCache*> caches = {&cache};
  const data::Batch batch = make_batch({ids});
  const ops::PassContext context;
  const at::Tensor rows = at::arange(static_cast<std::int64_t>(ids.size()));
  const at::Tensor expected = model::FusedPass(*run.model, batch, context).forward(rows, std::nullopt);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const at::Tensor found = run.model->step({{ids[i]}}, caches, context);
    EXPECT_LT(largest_difference(found[0], expected[static_cast<std::int64_t>(i)]), 0.05) << i;
  }
}

TEST_P(QuantizedExperts, AreMergedIntoWhatTheirCodesStandFor) {
  const ops::QuantScheme scheme = kSchemes[1];
  const Trained run(in(), kFp32, Quantize(scheme, true));
  run.adapter->save(folder_.path() / "adapter");
  const std::vector<base::fs::path> adapter = {folder_.path() / "adapter"};
  const auto merged = [&](const fs::path& base, const char* name, const Quantize& trained_on) {
    adapters::merge_to_folder(base, adapter, folder_.path() / name, trained_on);
    return model::open_weights(folder_.path() / name);
  };
  const auto ours = merged(in(), "codes", Quantize(scheme, true)),
             expected = merged(full(scheme), "dense", {});
  const auto others = merged(in(), "linears", Quantize(scheme));
  bool differs = false;
  for (const std::string& name : expected->names()) {
    EXPECT_TRUE(at::equal(ours->read(name, at::kFloat), expected->read(name, at::kFloat))) << name;
    differs = differs || !at::equal(others->read(name, at::kFloat), expected->read(name, at::kFloat));
  }
  EXPECT_TRUE(differs);
}

// As transformers 4 saved them: each expert a linear of bitsandbytes' own.
TEST_P(QuantizedExperts, OfAFileStayAsTheyAre) {
  const ops::QuantScheme scheme = kSchemes[0];
  const auto source = model::open_weights(in());
  const std::set<std::string> matrices = model::quantized_matrices(source->config(), /*experts=*/true);
  std::vector<at::Tensor> held;
  std::vector<base::StoredTensor> stored;
  const auto store = [&](const std::string& name, const at::Tensor& t) {
    held.push_back(t);
    const base::DType type = t.scalar_type() == at::kByte ? base::DType::kU8 : base::DType::kF32;
    stored.push_back(
        {name, type, t.sizes().vec(), {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()}});
  };
  for (const std::string& name : source->names()) {
    const at::Tensor w = source->read(name, at::kFloat);
    if (!matrices.contains(name)) store(name, w);
    if (!matrices.contains(name)) continue;
    for (const auto& [part, values] : model::bnb_tensors(ops::quantize(w, scheme, name), name))
      store(part, values);
  }
  const fs::path out = folder_.path() / "stored";
  fs::create_directories(out);
  base::Json config = tiny_config(GetParam());
  config["quantization_config"] = model::quantization_config(scheme, at::kBFloat16);
  write_json(out / "config.json", config);
  base::write_safetensors(out / "model.safetensors", stored, {{"format", "pt"}});
  Trained read(out, kAutocast), made(in(), kAutocast, Quantize(scheme, true));
  EXPECT_EQ(read.model->quantized(), Quantize(scheme, true));
  EXPECT_TRUE(at::equal(read.pass({.is_fused = true}).second, made.pass({.is_fused = true}).second));
}

// A GGUF's experts stay in its blocks; load_in_4bit with quantize_moe_experts makes codes of them.
TEST(QuantizedExpertsFile, OfAGgufAreKeptInItsBlocks) {
  const TempFolder folder;
  base::Json config = tiny_config("qwen3_moe");
  config.update({{"hidden_size", 256}, {"moe_intermediate_size", 256}, {"head_dim", 64}});
  write_model(folder.path() / "in", config);
  for (const auto& [weights, type] : {std::pair(model::GgufWeights::kQ8_0, ops::QuantType::kQ8_0),
                                      std::pair(model::GgufWeights::kQ4_K_M, ops::QuantType::kQ4_K)}) {
    const fs::path file = folder.path() / (std::to_string(static_cast<int>(type)) + ".gguf");
    model::write_gguf(*model::open_weights(folder.path() / "in"), file, weights);
    const auto source = model::open_weights(file);
    const auto opened = [&](const Quantize& quantize, bool keeps) {
      return model::CausalLm(*source, kBf16, model::Storage::kPlain, quantize, at::kCPU, keeps);
    };
    const model::CausalLm kept = opened({}, true), plain = opened({}, false);
    for (const ops::Linear* linear : kept.linears()) {
      if (!is_expert(*linear)) continue;
      ASSERT_TRUE(linear->weight.is_quantized()) << linear->name;
      EXPECT_TRUE(ops::is_ggml(linear->weight.quantized().scheme.type));
    }
    EXPECT_FALSE(kept.quantized());
    model::KvCache one, other;
    std::vector<model::KvCache*> ours = {&one}, theirs = {&other};
    for (const std::vector<std::int64_t>& next : {std::vector<std::int64_t>{3, 4, 5, 6, 7, 8}, {6}, {7}})
      EXPECT_TRUE(at::equal(kept.step({next}, ours, {}), plain.step({next}, theirs, {})));
    EXPECT_EQ(opened(kSchemes[0], true).quantized(), Quantize(kSchemes[0], false));
    EXPECT_EQ(opened(Quantize(kSchemes[0], true), true).quantized(), Quantize(kSchemes[0], true));
  }
}

TEST(QuantizedExpertsPlan, SaysWhatTheyBecome) {
  config::Plan plan;
  plan.quantized_base = config::QuantizedBase::kNf4;
  plan.quantize_moe_experts = true;
  EXPECT_EQ(quantize(plan), Quantize(kSchemes[0], true));
  const TempFolder folder;
  write_model(folder.path() / "experts", tiny_config("mixtral"));
  write_model(folder.path() / "dense", tiny_config("llama"));
  const auto opened = [&](const char* name) {
    return model::CausalLm(*model::open_weights(folder.path() / name), kBf16, model::Storage::kPlain,
                           quantize(plan));
  };
  EXPECT_FALSE(quantized_note(plan, opened("experts")));
  EXPECT_SAYS(quantized_note(plan, opened("dense")).value(), "has no experts");
  const MemoryInputs inputs =
      memory_inputs(opened("experts"), plan, 0, {.tokens = 8, .scored = 8, .segment = 8}, {});
  EXPECT_EQ(inputs.quantized, "4-bit nf4, experts too");
  EXPECT_EQ(inputs.base_bytes, opened("experts").parameter_bytes());
}

}  // namespace quantized_experts_test
}  // namespace hone::train
