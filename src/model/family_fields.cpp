#include "model/family_fields.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_tools.h"
#include "model/config_fields.h"

namespace hone::model {
namespace {

using base::Json;
using base::UserError;

constexpr std::int64_t kSmollm3Interval = 4, kGemma3Pattern = 6;  // llama.cpp has no keys for them
constexpr double kGemma3LocalTheta = 10000;                       // nor for this

double factor_or(const Json& json, const char* key, double fallback, const std::string& where) {
  const double x = float_or(json, key, fallback, where);
  if (!(x >= kLeastFactor && x <= kMaxFactor)) wrong_type(where, key, "a positive number", x);
  return x;
}

void refuse_gguf(const std::string& expected, const std::string& found) {
  throw UserError(
      {"GGUF", expected, found, "llama.cpp has no key for it", "keep the model's Hugging Face folder"});
}

}  // namespace

void read_smollm3_fields(const Json& json, const std::string& where, ModelConfig& config) {
  const auto layers = static_cast<std::size_t>(config.num_hidden_layers);
  config.attention.resize(layers);
  if (const Json* rotates = lookup(json, "no_rope_layers")) {
    if (!rotates->is_array() || rotates->size() < layers)
      wrong_type(where, "no_rope_layers", "a list of 0 and 1, one a layer", *rotates);
    for (std::size_t i = 0; i < layers; ++i) {
      const Json& one = (*rotates)[i];
      const bool known = one.is_number_integer() && (one == 0 || one == 1);
      if (!known) wrong_type(where, "no_rope_layers", "a list of 0 and 1, one a layer", *rotates);
      if (one == 0) config.attention[i].rotation = kNoRotation;
    }
    return;
  }
  const std::int64_t interval = int_or(json, "no_rope_layer_interval", kSmollm3Interval, where);
  if (interval <= 0) wrong_type(where, "no_rope_layer_interval", "a positive integer", interval);
  for (std::int64_t i = interval - 1; i < config.num_hidden_layers; i += interval)
    config.attention[static_cast<std::size_t>(i)].rotation = kNoRotation;
}

void write_smollm3_gguf_fields(const ModelConfig& config, GgufEntries& /*entries*/) {
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const LayerAttention layer = config.attention_of(i);
    const bool unrotated = (i + 1) % kSmollm3Interval == 0;
    if (layer.window > 0) refuse_gguf("full attention in every layer of a smollm3", "sliding windows");
    if (unrotated == (layer.rotation == kNoRotation)) continue;
    refuse_gguf("every fourth layer of a smollm3, and no other, without a rotation",
                "layer " + std::to_string(i) + (unrotated ? " with one" : " without one"));
  }
}

void read_olmo2_fields(const Json& json, const std::string& /*where*/, ModelConfig& config) {
  if (lookup(json, "rms_norm_eps") == nullptr) config.rms_norm_eps = 1e-5;
}

void read_granite_fields(const Json& json, const std::string& where, ModelConfig& config) {
  config.embedding_scale = factor_or(json, "embedding_multiplier", 1, where);
  config.attention_scale = factor_or(json, "attention_multiplier", 1, where);
  config.residual_scale = factor_or(json, "residual_multiplier", 1, where);
  config.logits_scale = factor_or(json, "logits_scaling", 1, where);
}

void write_granite_gguf_fields(const ModelConfig& config, GgufEntries& entries) {
  entries.push_back({"granite.embedding_scale", static_cast<float>(config.embedding_scale)});
  entries.push_back({"granite.attention.scale", static_cast<float>(config.attention_scale)});
  entries.push_back({"granite.residual_scale", static_cast<float>(config.residual_scale)});
  entries.push_back({"granite.logit_scale", static_cast<float>(config.logits_scale)});
}

void read_granite_gguf_fields(const base::GgufFile& file, Json& json) {
  json["embedding_multiplier"] = as_written(file.require_float("granite.embedding_scale"));
  json["attention_multiplier"] = as_written(file.require_float("granite.attention.scale"));
  json["residual_multiplier"] = as_written(file.require_float("granite.residual_scale"));
  json["logits_scaling"] = as_written(file.require_float("granite.logit_scale"));
}

void read_gemma3_fields(const Json& json, const std::string& where, ModelConfig& config) {
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (lookup(json, cap) == nullptr) continue;
    throw UserError({where, std::string(cap) + " null", base::short_json(json.at(cap)),
                     "hone does not have soft caps of scores and logits", ""});
  }
  if (bool_or(json, "use_bidirectional_attention", false, where)) {
    throw UserError({where, "use_bidirectional_attention false", "true", "this is an encoder", ""});
  }
  config.attention_scale = 1 / std::sqrt(factor_or(json, "query_pre_attn_scalar", 256, where));
  double theta = factor_or(json, "rope_local_base_freq", kGemma3LocalTheta, where);
  const Json* rope = lookup(json, "rope_parameters");
  if (rope != nullptr && rope->is_object() && lookup(*rope, "sliding_attention") != nullptr) {
    const Json& local = rope->at("sliding_attention");
    if (!local.is_object()) wrong_type(where, "rope_parameters.sliding_attention", "an object", local);
    theta = factor_or(local, "rope_theta", theta, where);
    if (string_or(local, "rope_type", "default", where) != "default") {
      throw UserError({where, "rope_type default of sliding_attention", base::short_json(local),
                       "hone does not scale the rotation of layers with a window", ""});
    }
  }
  config.local_rope_theta = theta;
}

void rotate_windows_locally(ModelConfig& config) {
  for (LayerAttention& layer : config.attention) {
    if (layer.window > 0) layer.rotation = kLocalRotation;
  }
}

void write_gemma3_gguf_fields(const ModelConfig& config, GgufEntries& entries) {
  if (config.local_rope_theta != kGemma3LocalTheta)
    refuse_gguf("a local rotation of base 10000 of a gemma3", std::to_string(*config.local_rope_theta));
  if (std::abs(config.attention_scale - 1 / std::sqrt(static_cast<double>(config.head_dim))) > 1e-12)
    refuse_gguf("a query_pre_attn_scalar that is the head dimension of a gemma3", "another one");
  std::int64_t window = 0;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::int64_t here = config.attention_of(i).window;
    window = std::max(window, here);
    if ((here > 0) == ((i + 1) % kGemma3Pattern != 0)) continue;
    refuse_gguf("windows in all layers of a gemma3 but each sixth",
                "layer " + std::to_string(i) + (here > 0 ? " with one" : " without one"));
  }
  entries.push_back({"gemma3.attention.sliding_window", static_cast<std::uint32_t>(window)});
}

void read_gemma3_gguf_fields(const base::GgufFile& file, Json& json) {
  json["sliding_window"] = file.require_int("gemma3.attention.sliding_window");
  json["sliding_window_pattern"] = kGemma3Pattern;
  json["rope_local_base_freq"] = kGemma3LocalTheta;
  json["query_pre_attn_scalar"] = json.at("head_dim");
  json["hidden_activation"] = "gelu_pytorch_tanh";
}

}  // namespace hone::model
