// An adapter trains these in full beside its LoRA: PEFT 0.21.2's modules_to_save (utils/other.py
// ModulesToSaveWrapper) and bias (tuners_utils.py _mark_only_adapters_as_trainable).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "model/config/model_config.h"

namespace hone::adapters {

// The tensors that are trained in full, in model order. `targets`: the modules with LoRA. `strict`: UserError for an entry of modules_to_save that
// matches nothing. PEFT matches the end of a name, without a dot: "norm" is every norm. UserError for an entry that
// names a module with a LoRA, one that has parts, or a router or experts.
std::vector<WholeTensor> whole_tensors(const LoraConfig& config, const model::ModelConfig& model,
                                       const std::vector<std::string>& targets, bool strict);

// Returns whether modules_to_save keeps LoRA off a module (PEFT's check_target_module_exists).
bool is_trained_whole(const LoraConfig& config, const std::string& module);

// What of the embedding and the head differs from the base, after which a head that was tied is one of its own.
struct TrainedEnds {
  bool embedding = false, head = false;
  bool any() const { return embedding || head; }
};
TrainedEnds trained_ends(const LoraConfig& config, const model::ModelConfig& model, bool strict = false);

// Whether the fused form of the model can train the adapter: it has no LoRA on the embedding or the head. `strict`: see
// select_targets.
bool fused_trains(const LoraConfig& config, const model::ModelConfig& model, bool strict);

}  // namespace hone::adapters
