// Promise 3 on quantized bases: the log-probabilities recorded while sampling are those that a training pass computes, bit
// for bit, at every level with kernels of ours. Decode multiplies straight from codes; training dequantizes panels.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <memory>

#include "adapters/lora.h"
#include "base/process/instruction_level.h"
#include "model/files/gguf_write.h"
#include "model/files/weight_source.h"
#include "model/fused_pass.h"
#include "model/tiny_model.h"
#include "ops/head/linear_logprob.h"
#include "rollout/generate.h"

namespace hone::train {
namespace quantized_sampler_test {

using namespace hone::test_tools;

constexpr base::InstructionLevel kLevels[] = {base::InstructionLevel::kAvx2, base::InstructionLevel::kAvx512,
                                              base::InstructionLevel::kAvx512Bf16,
                                              base::InstructionLevel::kAmx};

base::Json config() {
  base::Json json = tiny_config("qwen2");
  json.update(
      {{"hidden_size", 256}, {"intermediate_size", 512}, {"head_dim", 64}, {"max_position_embeddings", 512}});
  return json;
}

std::unique_ptr<model::CausalLm> open(const fs::path& path, const model::Quantize& quantize) {
  const model::DtypePolicy dtypes = {at::kBFloat16, at::kBFloat16};
  auto model = std::make_unique<model::CausalLm>(*model::open_weights(path), dtypes, model::Storage::kPacked,
                                                 quantize, at::kCPU, /*keep_blocks=*/true);
  EXPECT_TRUE(model->held_as());
  return model;
}

void expect_no_gap(model::CausalLm& model, std::size_t prompts, const std::string& where) {
  const at::NoGradGuard no_grad;
  std::vector<std::vector<std::int32_t>> ids;
  for (std::size_t i = 0; i < prompts; ++i) {
    ids.emplace_back();
    for (std::size_t t = 0; t < 3 + 37 * i % 90; ++t) {
      ids.back().push_back(static_cast<std::int32_t>(3 + (t * t + 5 * i) % 45));
    }
  }
  rollout::GenerateOptions options;
  options.max_new_tokens = 6;
  options.batch_size = static_cast<std::int64_t>(prompts);
  const auto completions = rollout::generate(model, ids, options);
  for (std::size_t i = 0; i < prompts; ++i) {
    std::vector<std::int64_t> all(ids[i].begin(), ids[i].end()), scored, targets;
    for (const std::int32_t id : completions[i].ids) {
      scored.push_back(static_cast<std::int64_t>(all.size()) - 1);
      targets.push_back(id);
      all.push_back(id);
    }
    const data::Batch batch = make_batch({all});
    const ops::PassContext context;
    model::FusedPass pass(model, batch, context);
    const at::Tensor hidden = pass.forward(at::tensor(scored, at::kLong), model::RecomputeLevel::kCheap);
    const at::Tensor trained =
        ops::linear_logprob(hidden, model.head(), at::tensor(targets, at::kLong),
                            {.gradient = true, .soft_cap = model.config().logits_soft_cap})
            .logprob;
    ASSERT_EQ(completions[i].logprobs.size(), targets.size());
    for (std::size_t t = 0; t < targets.size(); ++t) {
      EXPECT_EQ(trained[static_cast<std::int64_t>(t)].item<float>(), completions[i].logprobs[t])
          << where << ", prompt " << i << " of " << prompts << ", token " << t;
    }
  }
}

TEST(QuantizedSampler, RecordsTheTrainersBits) {
  const TempFolder folder;
  write_model(folder.path() / "base", config());
  const auto source = model::open_weights(folder.path() / "base");
  model::write_gguf(*source, folder.path() / "q8.gguf", model::GgufWeights::kQ8_0);
  model::write_gguf(*source, folder.path() / "q4.gguf", model::GgufWeights::kQ4_K_M);
  const std::pair<const char*, model::Quantize> cases[] = {
      {"base", ops::QuantScheme{ops::QuantType::kNf4, true}},
      {"base", ops::QuantScheme{ops::QuantType::kFp4, false}},
      {"base", ops::QuantScheme{ops::QuantType::kInt8, false}},
      {"q8.gguf", {}},
      {"q4.gguf", {}}};
  for (const base::InstructionLevel level : kLevels) {
    if (!base::machine_has(level)) continue;
    const base::ForceInstructionLevel force(level);
    for (const auto& [name, scheme] : cases) {
      const auto model = open(folder.path() / name, scheme);
      adapters::LoraConfig lora;
      lora.r = 4;
      lora.target_modules = {"all-linear"};
      lora.target_is_regex = true;
      lora.init = adapters::LoraInit::kFalse;
      const adapters::Adapter adapter = adapters::Adapter::attach(*model, lora, 7);
      const std::string where =
          std::string(base::name_of(level)) + ", " + name + ", " + ops::describe(*model->held_as());
      for (const std::size_t prompts : {1U, 5U, 9U}) expect_no_gap(*model, prompts, where);
    }
  }
}

}  // namespace quantized_sampler_test
}  // namespace hone::train
