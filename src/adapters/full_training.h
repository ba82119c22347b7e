// Full fine-tuning: which tensors of a model are trained, and the model written as a Hugging Face folder. The tensors are
// Adapter's, which is attached without any LoRA (Adapter::attach_full).
//
// Masters, gradients and moments are fp32; products read a copy in the linears' dtype (ops/linear.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config/model_config.h"

namespace hone::adapters {

struct WholeTensor;

struct FullTraining {
  // Regular expressions that match the beginning of a tensor's name, as Spectrum's unfrozen_parameters (re.match on
  // named_parameters()); empty: every tensor is trained.
  std::vector<std::string> unfrozen;
  // Only the tensors of these layers; empty: no such rule.
  std::vector<std::int64_t> layers;
  bool freeze_embeddings = false;  // not the embeddings, nor a head that is tied to one
  // The base's numbers stay, for a reference model; else they are released (CausalLm::release_replaced).
  bool keeps_base = false;
  std::int64_t shard_bytes = 0;  // most bytes of a file of weights; 0: model::ExportOptions'
};

// Returns what is trained, in model order; `key` is the name. A tied head is part of the embedding. UserError
// for a pattern that matches no tensor, for a layer that the model does not have, and when nothing is left to
// train.
std::vector<WholeTensor> full_tensors(const FullTraining& full, const model::ModelConfig& model);

}  // namespace hone::adapters
