// PEFT's two files of a LoRA: adapter_config.json and adapter_model.safetensors (PEFT 0.21.2; older ones are
// read).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "adapters/lora.h"
#include "base/file.h"
#include "base/json.h"
#include "model/model_config.h"

namespace hone::adapters {

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kWeightsFile = "adapter_model.safetensors";

// "base_model.model." + module + ".lora_A.weight", and lora_B.
std::string key_a(const std::string& module);
std::string key_b(const std::string& module);

// Every key that PEFT 0.21.2 writes, in alphabetical order; target_modules as they are
// (with_recorded_targets).
base::Json config_to_json(const LoraConfig& config);
// Absent keys take PEFT's defaults. UserError for what changes results and hone does not do, by name.
LoraConfig config_from_json(const base::Json& json, const std::string& where);

// One adapted module as read: A [r, in], B [out, r], fp32 (bf16 and fp16 files are widened).
struct StoredLora {
  std::string module;
  at::Tensor a, b;
};
struct StoredAdapter {
  LoraConfig config;
  std::vector<StoredLora> modules;  // in model order
};
// UserError for a missing file, a key without a place in `model`, an absent key, a wrong shape or dtype.
StoredAdapter read_adapter(const base::fs::path& folder, const model::ModelConfig& model);

}  // namespace hone::adapters
