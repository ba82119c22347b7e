// PEFT's two files of a LoRA: adapter_config.json and adapter_model.safetensors (PEFT 0.21.2; older ones are
// read).
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "adapters/lora.h"
#include "base/files/file.h"
#include "base/json.h"
#include "model/config/model_config.h"

namespace hone::adapters {

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kWeightsFile = "adapter_model.safetensors";

// The head of a reward model, whose module PEFT saves in full.
constexpr const char* kScoreKey = "base_model.model.score.weight";

// The rows of the embedding that are trained: "base_model.model.model.embed_tokens" and this.
constexpr const char* kTokenRowsSuffix = ".token_adapter.trainable_tokens_delta";
std::string key_token_rows(const model::ModelConfig& model);

// "base_model.model." + module + ".lora_A.weight", and lora_B; DoRA's has no ".weight".
std::string key_a(const std::string& module);
std::string key_b(const std::string& module);
std::string key_magnitude(const std::string& module);
// Return the keys of the embedding's LoRA: "....lora_embedding_A", and B.
std::string key_embedding_a(const std::string& module);
std::string key_embedding_b(const std::string& module);

// Every key that PEFT 0.21.2 writes, in alphabetical order; target_modules as they are
// (with_recorded_targets).
base::Json config_to_json(const LoraConfig& config);
// Absent keys take PEFT's defaults. UserError, naming the option, for options that change results and that
// hone does not support.
LoraConfig config_from_json(const base::Json& json, const std::string& where);

// UserError unless config.token_indices are distinct and in the model's vocabulary.
void check_token_indices(const LoraConfig& config, const model::ModelConfig& model, const std::string& where);

// One adapted module as read: A [r, in], B [out, r], fp32 (bf16 and fp16 files are widened); magnitude [out]
// of DoRA, else undefined. It adds scale B A to the weight; of the embedding (`transposed`; in is V, out is H) the
// transposed of that.
struct StoredLora {
  std::string module;
  at::Tensor a, b, magnitude;
  double scale = 1;
  bool transposed = false;
};
struct StoredAdapter {
  LoraConfig config;
  std::vector<StoredLora> modules;       // in model order: the layers', the head, the embedding
  at::Tensor token_rows;                 // [k, H] fp32; undefined without config.token_indices
  std::vector<std::string> whole_names;  // of the model's tensors that are trained in full (whole_modules.h)
  std::vector<at::Tensor> whole;         // their values, fp32
  // PEFT's copies of the base's embedding and head, by the tensor's name, where they have a LoRA. hone writes none.
  struct BaseCopy {
    std::string key;  // as the file has it
    at::Tensor value;
  };
  std::map<std::string, BaseCopy> base_copies;
  at::Tensor score;  // [1, H] fp32; undefined without config.score_head
};
// UserError for a missing file, a key without a place in `model`, an absent key, a wrong shape or dtype.
StoredAdapter read_adapter(const base::fs::path& folder, const model::ModelConfig& model);

// UserError unless the copies are the matrices of the model.
void require_same_base(const StoredAdapter& adapter, const model::CausalLm& model, const std::string& where);

// Writes both files into the existing `folder`; `tensors` are fp32 under PEFT's keys.
void write_adapter(const base::fs::path& folder, const LoraConfig& config,
                   const std::map<std::string, at::Tensor>& tensors);

}  // namespace hone::adapters
