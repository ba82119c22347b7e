// A decoder-only language model in plain form under autograd: the definition of every later fast form.
//
// Shapes: T tokens of all segments end to end, H hidden, V vocabulary, N heads, K kv heads, D head_dim.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "data/example.h"
#include "model/model_config.h"
#include "model/weight_source.h"
#include "ops/linear.h"

namespace hone::model {

// How weights are stored and multiplied; config::Precision in this room's words.
struct Numbers {
  at::ScalarType linear = at::kFloat;     // frozen linears and their GEMMs
  at::ScalarType residual = at::kFloat;   // embedding, norms, residual stream
};

// Keys and values of one sequence, all layers, for generation. Grows by `append`.
struct KvCache {
  std::vector<at::Tensor> k;  // per layer [length, K, D] (or undefined when empty)
  std::vector<at::Tensor> v;
  std::int64_t length = 0;
};

struct DecoderLayer {
  at::Tensor input_norm, post_attention_norm;  // [H]
  at::Tensor q_norm, k_norm;                   // [D] or undefined
  ops::Linear q, k, v, o, gate, up, down;
};

class CausalLm {
 public:
  // Reads every tensor the family's table names; UserError for an absent, extra-large or misshapen one.
  CausalLm(const WeightSource& source, Numbers numbers);

  // Final-norm output [T, H] for a packed batch; attention is causal within each segment, positions as given.
  at::Tensor hidden(const data::Batch& batch, const ops::PassContext& pass) const;
  // Generation: sequence i contributes its new tokens `ids[i]` after what caches[i] holds; returns the final-norm
  // hidden state of each sequence's last token [n, H] and appends to the caches. No autograd.
  at::Tensor step(const std::vector<std::vector<std::int64_t>>& ids, std::vector<KvCache*>& caches,
                  const ops::PassContext& pass) const;
  // hidden [n, H] -> logits [n, V] in fp32 (GEMM in the head's dtype).
  at::Tensor logits(const at::Tensor& hidden) const;

  const ModelConfig& config() const { return config_; }
  const Numbers& numbers() const { return numbers_; }
  // Every linear of every layer, in module order (q,k,v,o,gate,up,down per layer): what adapters attach to.
  std::vector<ops::Linear*> linears();
  std::vector<const ops::Linear*> linears() const;
  std::int64_t parameter_count() const;
  std::int64_t parameter_bytes() const;

 private:
  at::Tensor embed(const std::vector<std::int64_t>& ids) const;
  ModelConfig config_;
  Numbers numbers_;
  at::Tensor embedding_;   // [V, H]
  at::Tensor head_;        // [V, H]; the same tensor when tied
  at::Tensor final_norm_;  // [H]
  at::Tensor inv_freq_;    // [D/2] fp32
  std::vector<DecoderLayer> layers_;
};

}  // namespace hone::model
