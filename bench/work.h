// What a pass must at least do, counted by hand from a model's shapes: FLOP of matrix products, bytes of
// weights and of keys and values. docs/benchmarks.md says why each is counted so.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config/model_config.h"

namespace hone::bench {

// One matrix of the model, [out, in].
struct Shape {
  const char* name = "";
  std::int64_t out = 0, in = 0;
  double weights() const { return static_cast<double>(out) * static_cast<double>(in); }
};

// q, k, v, o, gate, up, down of one layer.
std::vector<Shape> layer_shapes(const model::ModelConfig& config);
double layer_weights(const model::ModelConfig& config);  // of all layers' matrices
double head_weights(const model::ModelConfig& config);
double all_bytes(const model::ModelConfig& config,
                 double bytes_per_weight);  // layers and head, read once a step
double kv_bytes_per_token(const model::ModelConfig& config, double bytes_per_element);

// A training pass over packed rows.
struct PassShape {
  std::vector<std::int64_t> lengths;  // tokens of each segment
  std::int64_t scored = 0;
  std::int64_t prompt = 0;  // tokens before them that all of them share, once
  std::int64_t tokens() const;
};

// FLOP of a forward and backward pass with frozen weights and LoRA of rank r on every linear.
struct PassWork {
  double layers = 0;     // 4 a weight and token: forward, input gradient
  double head = 0;       // 4 a weight and scored row (ops/head/linear_logprob.h)
  double recompute = 0;  // 2 a weight and token of q, k, v, gate, up; recompute layer only
  double attention = 0;  // 2 products forward, 5 backward, causal: 2 D a query head and visible pair
  double lora = 0;       // 6 a parameter and token
  double products() const { return layers + head + recompute; }  // what the limit of the issue counts
  double all() const { return products() + attention + lora; }
};
PassWork pass_work(const model::ModelConfig& config, const PassShape& shape, std::int64_t lora_r,
                   bool recompute_layer);

// Visible pairs: sum of n (n + 1) / 2, and n times the prompt that all share.
double causal_pairs(const std::vector<std::int64_t>& lengths, std::int64_t prompt = 0);

}  // namespace hone::bench
