// A decoder-only language model in plain form under autograd: the definition of every later fast form.
//
// Shapes: T tokens of all segments end to end, H hidden, V vocabulary, N heads, K kv heads, D head_dim.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "data/example.h"
#include "model/decoder_layer.h"
#include "model/model_config.h"
#include "model/weight_source.h"
#include "ops/linear.h"

namespace hone::model {

// Keys and values of one sequence, all layers, for generation. Grows with every CausalLm::step.
struct KvCache {
  std::vector<at::Tensor> k;  // per layer [length, K, D] (empty before the first step)
  std::vector<at::Tensor> v;
  std::int64_t length = 0;
};

class CausalLm {
 public:
  // Reads every tensor the family's table names; UserError for an absent or misshapen one, and for one that
  // the family has no place for (more layers, biases or norms than config.json says). A file's head is left
  // aside when it is tied.
  CausalLm(const WeightSource& source, Numbers numbers);

  // Final-norm output [T, H] for a packed batch; attention is causal within each segment, positions as given.
  // Under autograd the gradient reaches the LoRA sides only. UserError for a token id outside the embedding.
  at::Tensor hidden(const data::Batch& batch, const ops::PassContext& pass) const;
  // Generation: sequence i contributes its new tokens `ids[i]` after what caches[i] holds; returns the
  // final-norm hidden state of each sequence's last token [n, H] and appends to the caches. No autograd.
  at::Tensor step(const std::vector<std::vector<std::int64_t>>& ids, std::vector<KvCache*>& caches,
                  const ops::PassContext& pass) const;
  // hidden [n, H] -> logits [n, V] in fp32 (GEMM in the head's dtype).
  at::Tensor logits(const at::Tensor& hidden) const;

  const ModelConfig& config() const { return config_; }
  const Numbers& numbers() const { return numbers_; }
  // Every linear of every layer, in module order (q,k,v,o,gate,up,down per layer): what adapters attach to.
  std::vector<ops::Linear*> linears();
  std::vector<const ops::Linear*> linears() const;
  // Every tensor of the base model under Hugging Face's name, a tied head left out: what must not change in
  // training.
  std::vector<std::pair<std::string, at::Tensor>> frozen_tensors() const;
  std::int64_t parameter_count() const;  // of the base model, a tied head counted once
  std::int64_t parameter_bytes() const;  // as held in memory, with the head's copy when its dtype differs

 private:
  at::Tensor embed(const std::vector<std::int64_t>& ids) const;
  ModelConfig config_;
  Numbers numbers_;
  at::Tensor embedding_;  // [V, H]
  at::Tensor head_;  // [V, H]; the same tensor when tied and of one dtype, else a copy in numbers_.linear
  at::Tensor final_norm_;  // [H]
  at::Tensor inv_freq_;    // [D/2] fp32
  std::vector<DecoderLayer> layers_;
};

}  // namespace hone::model
