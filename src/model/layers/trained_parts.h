// These parts of a model are trained besides the LoRA of its linears and rows of the embedding: all of it
// (full fine-tuning), or PEFT 0.21.2's modules_to_save (whole modules: the embedding, the head, norms), bias,
// and LoRA on the embedding (tuners/lora/layer.py, Embedding). adapters::Adapter owns the tensors, all fp32.
// They take the base's place while adapters are on; the base is never written, so that the reference model
// has its own.
//
// With a tied head PEFT trains the embedding and the head apart: neither changes the other. In full fine-tuning both
// are one tensor, which gets the sum of both gradients.
//
// Shapes: V vocabulary, H hidden, r rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>

namespace hone::model {

// The row of token t is W[t] + scale (B A[:, t]).
struct EmbeddingLora {
  at::Tensor a;  // [r, V]
  at::Tensor b;  // [H, r]
  double scale = 1;
};

struct TrainedParts {
  at::Tensor embedding, head;  // [V, H], or undefined
  std::optional<EmbeddingLora> embedding_lora;
  // Norms' weights, linears' weights and biases by their tensors' names: "model.norm.weight",
  // "model.layers.0.self_attn.q_proj.bias".
  std::map<std::string, at::Tensor> tensors;

  bool any() const { return embedding.defined() || head.defined() || embedding_lora || !tensors.empty(); }
  // Whether something is trained that the layers' gradient has to reach from below the lowest LoRA.
  bool below_layers() const { return embedding.defined() || embedding_lora || !tensors.empty(); }
};

}  // namespace hone::model
