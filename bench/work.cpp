#include "bench/work.h"

#include <numeric>

namespace hone::bench {

std::vector<Shape> layer_shapes(const model::ModelConfig& c) {
  const std::int64_t q = c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim;
  return {{"q", q, c.hidden_size},
          {"k", kv, c.hidden_size},
          {"v", kv, c.hidden_size},
          {"o", c.hidden_size, q},
          {"gate", c.intermediate_size, c.hidden_size},
          {"up", c.intermediate_size, c.hidden_size},
          {"down", c.hidden_size, c.intermediate_size}};
}

double layer_weights(const model::ModelConfig& config) {
  double sum = 0;
  for (const Shape& shape : layer_shapes(config)) sum += shape.weights();
  return sum * static_cast<double>(config.num_hidden_layers);
}

double head_weights(const model::ModelConfig& config) {
  return static_cast<double>(config.vocab_size) * static_cast<double>(config.hidden_size);
}

double all_bytes(const model::ModelConfig& config, double bytes_per_weight) {
  return bytes_per_weight * (layer_weights(config) + head_weights(config));
}

double kv_bytes_per_token(const model::ModelConfig& c, double bytes_per_element) {
  return bytes_per_element *
         static_cast<double>(2 * c.num_hidden_layers * c.num_key_value_heads * c.head_dim);
}

std::int64_t PassShape::tokens() const {
  return std::accumulate(lengths.begin(), lengths.end(), prompt);
}

double causal_pairs(const std::vector<std::int64_t>& lengths, std::int64_t prompt) {
  const auto shared = static_cast<double>(prompt);
  double pairs = shared * (shared + 1) / 2;
  for (const std::int64_t length : lengths) {
    const auto n = static_cast<double>(length);
    pairs += n * (n + 1) / 2 + n * shared;
  }
  return pairs;
}

PassWork pass_work(const model::ModelConfig& c, const PassShape& shape, std::int64_t lora_r,
                   bool recompute_layer) {
  const auto tokens = static_cast<double>(shape.tokens());
  const auto layers = static_cast<double>(c.num_hidden_layers);
  PassWork out;
  out.layers = 4 * layer_weights(c) * tokens;
  out.head = 4 * head_weights(c) * static_cast<double>(shape.scored);
  out.attention = 7 * 2 * layers * static_cast<double>(c.num_attention_heads * c.head_dim) *
                  causal_pairs(shape.lengths, shape.prompt);
  for (const Shape& s : layer_shapes(c)) {
    out.lora += 6 * layers * static_cast<double>(lora_r * (s.in + s.out)) * tokens;
    const bool again = recompute_layer && s.in == c.hidden_size && s.name[0] != 'o';
    if (again) out.recompute += 2 * layers * s.weights() * tokens;
  }
  return out;
}

}  // namespace hone::bench
