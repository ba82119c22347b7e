// A tiny random model of each family against transformers 5.23 + PEFT 0.21.2 in fp32: logits with the adapter
// on and off, the loss, every gradient tensor, and the merged model. Goldens: record_tiny.py, record_adapters.py, record_modules.py.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "adapters/lora.h"
#include "adapters/merge.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "model/fused_pass.h"
#include "parity/golden.h"
#include "train/passes/scored_pass.h"

namespace hone::parity {
namespace tiny_models_test {

namespace fs = base::fs;
constexpr double kBound = 1e-4;

struct Case {
  const char* model;
  const char* adapter;
  const char* golden;
};

class TinyModels : public testing::TestWithParam<Case> {
 protected:
  fs::path folder_ = fs::path(HONE_FIXTURES) / "parity" / GetParam().model;
  Golden golden_{folder_ / GetParam().golden};
  model::CausalLm model_{*model::open_weights(folder_), {}};

  at::Tensor logits(const model::CausalLm& model, int sequence, bool adapters_on) const {
    const at::NoGradGuard no_grad;
    const data::Batch batch = sequence_batch(sequence);
    const ops::PassContext pass = {.adapters_on = adapters_on};
    return model.logits(model.hidden(batch, pass), pass);
  }
  data::Batch sequence_batch(int n) const {
    return single(golden_.tensor("ids_" + std::to_string(n)), golden_.tensor("labels_" + std::to_string(n)));
  }
};

TEST_P(TinyModels, LogitsEqualTransformers) {
  const auto adapter = adapters::Adapter::load(model_, folder_ / GetParam().adapter);
  Margin margin(std::string(GetParam().model) + " logits", kBound);
  for (int n = 0; n < 3; ++n) {
    margin.compare("logits_" + std::to_string(n), logits(model_, n, true),
                   golden_.tensor("logits_" + std::to_string(n)));
  }
  if (golden_.has("base_logits_0")) {
    margin.compare("base_logits_0", logits(model_, 0, false), golden_.tensor("base_logits_0"));
  }
}

// The three sequences as one packed batch and as three batches: the gradient of either is PEFT's.
TEST_P(TinyModels, LossAndEveryGradientEqualPeft) {
  auto adapter = adapters::Adapter::load(model_, folder_ / GetParam().adapter);
  const std::vector<data::Batch> parts = {sequence_batch(0), sequence_batch(1), sequence_batch(2)};
  const double scored = static_cast<double>(train::scored_tokens(concat(parts)));
  for (const bool packed : {true, false}) {
    for (const bool is_fused : {true, false}) {
      if (is_fused && !model_.fused_trains()) continue;
      adapter.zero_gradient();
      double loss = 0;
      for (const data::Batch& batch : packed ? std::vector<data::Batch>{concat(parts)} : parts) {
        loss += train::score_and_backward(model_, batch, {.training = true}, scored, {.is_fused = is_fused})
                    .nll_sum /
                scored;
      }
      Margin margin(std::string(GetParam().model) + (is_fused ? " explicit" : " plain") + " gradients " +
                        (packed ? "packed" : "alone"),
                    kBound);
      margin.compare("loss", loss, golden_.tensor("loss").item<double>());
      for (const auto& tensor : adapter.tensors()) {
        margin.compare(tensor.name, tensor.value.grad(), golden_.tensor("grad." + tensor.name));
      }
    }
  }
}

TEST_P(TinyModels, FusedLogitsEqualTransformers) {
  const auto adapter = adapters::Adapter::load(model_, folder_ / GetParam().adapter);
  Margin margin(std::string(GetParam().model) + " explicit logits", kBound);
  for (int n = 0; n < 3; ++n) {
    const data::Batch batch = sequence_batch(n);
    const ops::PassContext context;
    const at::Tensor every = at::arange(static_cast<std::int64_t>(batch.ids.size()));
    const at::Tensor hidden = model::FusedPass(model_, batch, context).forward(every, std::nullopt);
    margin.compare("logits_" + std::to_string(n), model_.logits(hidden),
                   golden_.tensor("logits_" + std::to_string(n)));
  }
}

TEST_P(TinyModels, MergedModelEqualsPeftsMerge) {
  const fs::path out = fs::temp_directory_path() / ("hone_merge_" + std::to_string(getpid()));
  adapters::merge_to_folder(folder_, {folder_ / GetParam().adapter}, out);
  const model::CausalLm merged(*model::open_weights(out), {});
  Margin margin(std::string(GetParam().model) + " merged", kBound);
  margin.compare("logits_0", logits(merged, 0, true), golden_.tensor("logits_0"));
  if (golden_.has("merged_logits_0")) {
    margin.compare("merged_logits_0", logits(merged, 0, true), golden_.tensor("merged_logits_0"));
  }
  fs::remove_all(out);
}

INSTANTIATE_TEST_SUITE_P(
    Families, TinyModels,
    testing::Values(Case{"tiny_llama", "adapter", "golden.safetensors"},
                    Case{"tiny_llama", "adapter_rslora", "golden_rslora.safetensors"},
                    Case{"tiny_llama", "adapter_tokens", "golden_tokens.safetensors"},
                    Case{"tiny_llama3", "adapter_tokens", "golden_tokens.safetensors"},
                    Case{"tiny_llama", "adapter_patterns", "golden_patterns.safetensors"},
                    Case{"tiny_llama", "adapter_saved", "golden_saved.safetensors"},
                    Case{"tiny_llama", "adapter_ends", "golden_ends.safetensors"},
                    Case{"tiny_llama3", "adapter_layers", "golden_layers.safetensors"},
                    Case{"tiny_llama3", "adapter_saved", "golden_saved.safetensors"},
                    Case{"tiny_llama3", "adapter_ends", "golden_ends.safetensors"},
                    Case{"tiny_llama3", "adapter_dora_head", "golden_dora_head.safetensors"},
                    Case{"tiny_qwen2", "adapter_bias_all", "golden_bias_all.safetensors"},
                    Case{"tiny_qwen2", "adapter_bias_lora", "golden_bias_lora.safetensors"},
                    Case{"tiny_llama3", "adapter", "golden.safetensors"},
                    Case{"tiny_qwen2", "adapter", "golden.safetensors"},
                    Case{"tiny_qwen3", "adapter", "golden.safetensors"},
                    Case{"tiny_mistral", "adapter", "golden.safetensors"},
                    Case{"tiny_smollm3", "adapter", "golden.safetensors"},
                    Case{"tiny_granite", "adapter", "golden.safetensors"},
                    Case{"tiny_olmo2", "adapter", "golden.safetensors"},
                    Case{"tiny_gemma3", "adapter", "golden.safetensors"},
                    Case{"tiny_gemma3_images", "adapter", "golden.safetensors"},
                    Case{"tiny_mistral3_images", "adapter", "golden.safetensors"},
                    Case{"tiny_phi3", "adapter", "golden.safetensors"},
                    Case{"tiny_qwen3_moe", "adapter", "golden.safetensors"},
                    Case{"tiny_mixtral", "adapter", "golden.safetensors"},
                    Case{"tiny_granitemoe", "adapter", "golden.safetensors"},
                    Case{"tiny_olmoe", "adapter", "golden.safetensors"},
                    Case{"tiny_granite4", "adapter", "golden.safetensors"},
                    Case{"tiny_granite4_nope", "adapter", "golden.safetensors"},
                    Case{"tiny_qwen2_windows", "adapter", "golden.safetensors"},
                    Case{"tiny_lfm2", "adapter", "golden.safetensors"},
                    Case{"tiny_lfm2_bias", "adapter", "golden.safetensors"},
                    Case{"tiny_qwen3_5", "adapter", "golden.safetensors"},
                    Case{"tiny_qwen3_5_images", "adapter", "golden.safetensors"},
                    Case{"tiny_gemma4", "adapter", "golden.safetensors"},
                    Case{"tiny_gemma4_images", "adapter", "golden.safetensors"},
                    Case{"tiny_phi3_long", "adapter", "golden.safetensors"},
                    Case{"tiny_phi3_short", "adapter", "golden.safetensors"},
                    Case{"tiny_qwen3_yarn", "adapter", "golden.safetensors"},
                    Case{"tiny_ministral3", "adapter", "golden.safetensors"},
                    Case{"tiny_gemma2", "adapter", "golden.safetensors"},
                    Case{"tiny_gemma", "adapter", "golden.safetensors"},
                    Case{"tiny_olmo3", "adapter", "golden.safetensors"},
                    Case{"tiny_exaone4", "adapter", "golden.safetensors"},
                    Case{"tiny_exaone4_full", "adapter", "golden.safetensors"}),
    [](const auto& one) { return std::string(one.param.model) + "_" + one.param.adapter; });

}  // namespace tiny_models_test
}  // namespace hone::parity
