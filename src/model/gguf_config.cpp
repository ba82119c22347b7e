// A GGUF's metadata as a model's config, and as the config.json that transformers reads for it.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "model/config_fields.h"
#include "model/families.h"
#include "model/model_config.h"
#include "ops/rope.h"

namespace hone::model {
namespace {

using base::Json;
using base::UserError;

// llama.cpp stores, in rope_freqs.weight, what each frequency is divided by. All Llama 3.1 to 3.3 models use
// low 1, high 4 and 8192, so the largest divisor is `factor`; the guess is then checked against every entry.
Json llama3_scaling(const base::GgufFile& file, const base::GgufTensor& tensor, double theta,
                    std::int64_t head_dim) {
  const std::string where = file.path().string() + ": " + tensor.name;
  if (tensor.numel() != head_dim / 2) {
    throw UserError(
        {where, std::to_string(head_dim / 2) + " factors", std::to_string(tensor.numel()), "", ""});
  }
  const at::Tensor divisors = at::empty({head_dim / 2}, at::kFloat);
  base::dequantize(tensor, {divisors.data_ptr<float>(), static_cast<std::size_t>(head_dim / 2)});
  ops::Llama3Scaling guess;
  guess.factor = divisors.max().item<double>();
  const at::Tensor plain = ops::rope_inverse_frequencies(theta, head_dim);
  const double error =
      ((plain / divisors) / ops::rope_scale_llama3(plain, guess) - 1).abs().max().item<double>();
  if (!(error < 1e-4)) {
    throw UserError({where, "the frequency factors of a Llama 3 model (low 1, high 4, original length 8192)",
                     "factors that differ from them by " + std::to_string(error),
                     "a rope scaling that hone cannot recover from the file",
                     "use the model's Hugging Face folder"});
  }
  return {
      {"factor", guess.factor},
      {"high_freq_factor", guess.high_freq_factor},
      {"low_freq_factor", guess.low_freq_factor},
      {"original_max_position_embeddings", static_cast<std::int64_t>(guess.original_max_position_embeddings)},
      {"rope_type", "llama3"}};
}

Json rope_scaling(const base::GgufFile& file, const std::string& arch, double theta, std::int64_t head_dim) {
  if (const base::GgufTensor* freqs = file.find("rope_freqs.weight")) {
    return llama3_scaling(file, *freqs, theta, head_dim);
  }
  const std::string key = arch + ".rope.scaling.type";
  if (!file.has(key)) return nullptr;
  const std::string type = file.require_string(key);
  if (type == "none") return nullptr;
  if (type == "linear") {
    return {{"rope_type", "linear"}, {"factor", file.require_float(arch + ".rope.scaling.factor")}};
  }
  throw UserError({file.path().string() + ": " + key, "none or linear", "'" + base::cut_text(type, 200) + "'",
                   "hone does not have this rope scaling yet", "use a model without it"});
}

constexpr const char* kWindowKey = ".attention.sliding_window";

// The row of an architecture. Of several that share it, the one with windows when the file has one.
const FamilyTraits& family_of(const base::GgufFile& file, const std::string& arch) {
  const std::int64_t window = file.int_or(arch + kWindowKey, 0);
  std::vector<std::string> known;
  const FamilyTraits* found = nullptr;
  for (const FamilyTraits& f : families()) {
    if (std::find(known.begin(), known.end(), f.gguf_architecture) == known.end())
      known.emplace_back(f.gguf_architecture);
    const bool has_windows = f.windows == WindowRule::kEveryLayer || f.windows == WindowRule::kPattern;
    if (f.gguf_architecture == arch && (found == nullptr || (window > 0 && has_windows))) found = &f;
    if (found == &f && window > 0 && !has_windows) found = nullptr;
  }
  if (found != nullptr) return *found;
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  const bool windows = std::find(known.begin(), known.end(), arch) != known.end();
  if (windows) {
    throw UserError({file.path().string() + ": " + arch + kWindowKey, "full attention in every layer",
                     std::to_string(window), "the file does not say which layers have the window",
                     "use the model's Hugging Face folder"});
  }
  throw UserError({file.path().string() + ": general.architecture", "one of " + names,
                   "'" + base::cut_text(arch, 200) + "'." + base::did_you_mean(arch, known),
                   "hone does not have this architecture yet", "use a model of one of these families"});
}

// UserError for what hone does not have yet, or no model has.
void check_attention(const base::GgufFile& file, const std::string& arch, std::int64_t head_dim,
                     double theta) {
  const std::string where = file.path().string();
  if (!(theta > 0 && theta <= 1e30)) {
    throw UserError({where + ": " + arch + ".rope.freq_base", "a positive number", std::to_string(theta),
                     "the file is damaged", ""});
  }
  if (head_dim <= 0 || head_dim % 2 != 0) {  // before the frequencies are made
    throw UserError({where + ": " + arch + ".attention.key_length", "a positive, even head dimension",
                     std::to_string(head_dim), "the file is damaged", ""});
  }
  if (file.int_or(arch + ".rope.dimension_count", head_dim) != head_dim) {
    throw UserError({where + ": " + arch + ".rope.dimension_count",
                     "the head dimension " + std::to_string(head_dim),
                     std::to_string(file.int_or(arch + ".rope.dimension_count", head_dim)),
                     "this model rotates only part of each head, which hone does not do yet", ""});
  }
}

}  // namespace

double as_written(double value) {
  if (!(std::abs(value) <= std::numeric_limits<float>::max())) return value;  // not fp32's, not a number
  for (int digits = 1; digits <= 9; ++digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    const double parsed = std::strtod(text, nullptr);
    if (static_cast<float>(parsed) == static_cast<float>(value)) return parsed;
  }
  return value;
}

ModelConfig model_config_from_gguf(const base::GgufFile& file) {
  const std::string where = file.path().string();
  const std::string arch = file.require_string("general.architecture");
  const FamilyTraits* const family = &family_of(file, arch);
  const auto number = [&](const std::string& key) { return file.require_int(arch + "." + key); };
  const base::GgufTensor* embedding = file.find(std::string(family->names.embedding.gguf) + ".weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    throw UserError({where, "the tensor token_embd.weight of two dimensions", "none",
                     "this is not a language model", ""});
  }
  const std::int64_t hidden = number("embedding_length"), heads = number("attention.head_count");
  if (hidden <= 0 || heads <= 0) {
    throw UserError({where, "positive embedding_length and attention.head_count",
                     std::to_string(hidden) + " and " + std::to_string(heads), "the file is damaged", ""});
  }
  const std::int64_t head_dim = file.int_or(arch + ".attention.key_length", hidden / heads);
  const double theta = as_written(file.float_or(arch + ".rope.freq_base", 10000.0));
  check_attention(file, arch, head_dim, theta);
  const std::string first = std::string(family->names.layers.gguf) + "0.";
  bool attention_bias = false, mlp_bias = false;  // where config.json has a flag for it
  for (const ModuleRow& row : family->modules) {
    const bool biased = file.find(first + std::string(row.name.gguf) + ".bias") != nullptr;
    attention_bias = attention_bias || (biased && row.bias == BiasRule::kAttentionBias);
    mlp_bias = mlp_bias || (biased && row.bias == BiasRule::kMlpBias);
  }

  Json json;
  json["architectures"] = Json::array({family->architecture});
  json["model_type"] = family->model_type;
  json["attention_bias"] = attention_bias;
  json["attention_dropout"] = 0.0;
  if (file.has("tokenizer.ggml.bos_token_id"))
    json["bos_token_id"] = file.require_int("tokenizer.ggml.bos_token_id");
  if (file.has("tokenizer.ggml.eos_token_id"))
    json["eos_token_id"] = file.require_int("tokenizer.ggml.eos_token_id");
  if (file.has("tokenizer.ggml.padding_token_id")) {
    json["pad_token_id"] = file.require_int("tokenizer.ggml.padding_token_id");
  }
  json["head_dim"] = head_dim;
  json["hidden_act"] = "silu";
  json["hidden_size"] = hidden;
  json["initializer_range"] = 0.02;
  json["intermediate_size"] = number("feed_forward_length");
  json["max_position_embeddings"] = file.int_or(arch + ".context_length", family->default_max_position);
  json["mlp_bias"] = mlp_bias;
  json["num_attention_heads"] = heads;
  json["num_hidden_layers"] = number("block_count");
  json["num_key_value_heads"] = file.int_or(arch + ".attention.head_count_kv", heads);
  json["rms_norm_eps"] = as_written(file.require_float(arch + ".attention.layer_norm_rms_epsilon"));
  json["rope_scaling"] = rope_scaling(file, arch, theta, head_dim);
  json["rope_theta"] = theta;
  if (family->windows == WindowRule::kEveryLayer) {
    const std::int64_t window = file.int_or(arch + kWindowKey, 0);
    json["sliding_window"] = window > 0 ? Json(window) : Json(nullptr);
  }
  if (family->read_gguf_fields != nullptr) family->read_gguf_fields(file, json);
  json["tie_word_embeddings"] = file.find(std::string(family->names.head.gguf) + ".weight") == nullptr;
  json["torch_dtype"] = "float32";
  json["use_cache"] = true;
  json["vocab_size"] = embedding->shape[0];
  return parse_model_config(json, where);
}

}  // namespace hone::model
