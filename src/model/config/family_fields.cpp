#include "model/config/family_fields.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_tools.h"
#include "model/config/config_fields.h"
#include "model/config/families.h"
#include "model/config/mixer.h"
#include "model/config/rotations.h"

namespace hone::model {
namespace {

using base::Json;
using base::UserError;

constexpr std::int64_t kSmollm3Interval = 4, kGemma3Pattern = 6;  // llama.cpp has no keys for them
constexpr const char *kAttentionCap = "attn_logit_softcapping", *kLogitsCap = "final_logit_softcapping";
constexpr double kGemma2AttentionCap = 50, kGemma2LogitsCap = 30;  // of Gemma2Config, and of llama.cpp
constexpr double kGemma3LocalTheta = 10000;                        // nor for this
constexpr std::int64_t kWindowedLayersOfExaone4 = 64;              // those with windows: by their layers
constexpr const char* kExaone4Window = "exaone4.attention.sliding_window";
constexpr const char* kLfm2Heads = "lfm2.attention.head_count_kv";  // one a layer, 0 without attention

double factor_or(const Json& json, const char* key, double fallback, const std::string& where) {
  const double x = float_or(json, key, fallback, where);
  if (!(x >= kLeastFactor && x <= kMaxFactor)) wrong_type(where, key, "a positive number", x);
  return x;
}

void refuse_encoder(const Json& json, const std::string& where) {
  if (!bool_or(json, "use_bidirectional_attention", false, where)) return;
  throw UserError({where, "use_bidirectional_attention false", "true", "this is an encoder", ""});
}

// The query_pre_attn_scalar that llama.cpp knows: the 27B models, by their layers, have another than the others.
constexpr std::int64_t kLayersOfGemma2At27B = 46, kLayersOfGemma3At27B = 62;

std::int64_t gemma_scalar(const ModelConfig& config, std::int64_t layers_at_27b) {
  return config.num_hidden_layers == layers_at_27b ? config.hidden_size / config.num_attention_heads
                                                   : config.head_dim;
}

std::int64_t gemma_scalar(const Json& json, std::int64_t layers_at_27b) {
  const auto number = [&](const char* key) { return json.at(key).get<std::int64_t>(); };
  return number("num_hidden_layers") == layers_at_27b ? number("hidden_size") / number("num_attention_heads")
                                                      : number("head_dim");
}

void refuse_gguf(const std::string& expected, const std::string& found) {
  throw UserError(
      {"GGUF", expected, found, "llama.cpp has no key for it", "keep the model's Hugging Face folder"});
}

void require_scalar(const ModelConfig& config, std::int64_t scalar, const std::string& family) {
  if (std::abs(config.attention_scale - 1 / std::sqrt(static_cast<double>(scalar))) > 1e-12)
    refuse_gguf("a query_pre_attn_scalar of " + std::to_string(scalar) + " of this " + family, "another one");
}

// rope_theta of layers with a window, from rope_parameters.sliding_attention.
double local_theta(const Json& json, double fallback, const std::string& where) {
  const Json* const rope = lookup(json, "rope_parameters");
  if (rope == nullptr || !rope->is_object() || lookup(*rope, "sliding_attention") == nullptr) return fallback;
  const Json& local = rope->at("sliding_attention");
  if (!local.is_object()) wrong_type(where, "rope_parameters.sliding_attention", "an object", local);
  if (string_or(local, "rope_type", "default", where) != "default") {
    throw UserError({where, "rope_type default of sliding_attention", base::short_json(local),
                     "hone does not scale the rotation of layers with a window", ""});
  }
  return factor_or(local, "rope_theta", fallback, where);
}

// The window of all layers but each pattern-th, which llama.cpp knows without a key.
std::int64_t patterned_window(const ModelConfig& config, std::int64_t pattern, const std::string& family) {
  std::int64_t window = 0;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::int64_t here = config.attention_of(i).window;
    window = std::max(window, here);
    if ((here > 0) == ((i + 1) % pattern != 0)) continue;
    refuse_gguf("windows in all layers of " + family + " but every " + std::to_string(pattern) + "th",
                "layer " + std::to_string(i) + (here > 0 ? " with one" : " without one"));
  }
  return window;
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

void read_olmo3_fields(const Json& json, const std::string& where, ModelConfig& config) {
  read_olmo2_fields(json, where, config);
  config.local_rope_theta = local_theta(json, kOlmo3Theta, where);
}

void write_olmo3_gguf_fields(const ModelConfig& config, GgufEntries& entries) {
  if (config.local_rope_theta != config.rope_theta)
    refuse_gguf("one rope_theta in all layers of an olmo3", std::to_string(*config.local_rope_theta));
  const std::int64_t window = patterned_window(config, kOlmo3Pattern, "an olmo3");
  entries.push_back({"olmo2.attention.sliding_window", static_cast<std::uint32_t>(window)});
}

void read_olmo3_gguf_fields(const base::GgufFile& file, Json& json) {
  json["sliding_window"] = file.require_int("olmo2.attention.sliding_window");
  json["sliding_window_pattern"] = kOlmo3Pattern;
  Json whole = json.value("rope_scaling", Json());
  if (!whole.is_object()) whole = {{"rope_type", "default"}};
  whole["rope_theta"] = json.at("rope_theta");
  const Json local = {{"rope_type", "default"}, {"rope_theta", json.at("rope_theta")}};
  json["rope_parameters"] = {{"full_attention", whole}, {"sliding_attention", local}};
  json.erase("rope_scaling");
  json.erase("rope_theta");
}

void read_exaone4_layers(const Json& json, const std::string& /*where*/, ModelConfig& config) {
  const bool has_window = !json.contains("sliding_window") || lookup(json, "sliding_window") != nullptr;
  if (!has_window) return;
  config.attention.resize(static_cast<std::size_t>(config.num_hidden_layers));
  for (LayerAttention& layer : config.attention)
    layer.rotation = layer.window > 0 ? kMainRotation : kNoRotation;
}

void write_exaone4_gguf_fields(const ModelConfig& config, GgufEntries& entries) {
  if (config.num_hidden_layers == kWindowedLayersOfExaone4) {
    const std::int64_t window = patterned_window(config, kExaone4Pattern, "an exaone4 of 64 layers");
    entries.push_back({kExaone4Window, static_cast<std::uint32_t>(window)});
    return;
  }
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const LayerAttention layer = config.attention_of(i);
    if (layer.window == 0 && layer.rotation == kMainRotation) continue;
    refuse_gguf("full attention with a rotation in every layer of an exaone4, unless it has 64 layers",
                "layer " + std::to_string(i) + (layer.window > 0 ? " with a window" : " without a rotation"));
  }
}

void read_exaone4_gguf_fields(const base::GgufFile& file, Json& json) {
  const auto layers = json.at("num_hidden_layers").get<std::int64_t>();
  const bool has_window = layers == kWindowedLayersOfExaone4;
  const std::int64_t window = file.int_or(kExaone4Window, has_window ? 4096 : 0);
  if (!has_window && window > 0) {
    throw UserError({file.path().string() + ": " + kExaone4Window, "none, unless the model has 64 layers",
                     std::to_string(window), "llama.cpp gives windows to models of 64 layers only",
                     "use the model's Hugging Face folder"});
  }
  json["sliding_window"] = has_window ? Json(window) : Json(nullptr);
  json["sliding_window_pattern"] = has_window ? Json(kExaone4Pattern) : Json(nullptr);
  json["layer_types"] = Json::array();
  for (std::int64_t i = 1; i <= layers; ++i) {
    const bool slides = has_window && i % kExaone4Pattern != 0;
    json["layer_types"].push_back(slides ? "sliding_attention" : "full_attention");
  }
}

void read_phi3_fields(const Json& json, const std::string& where, ModelConfig& config) {
  read_olmo2_fields(json, where, config);
  if (config.rope_linear_factor || config.rope_llama3 || config.rope_dynamic_from > 0) {
    throw UserError({where, "rope_type default or longrope", "another", "Phi3Config has no other", ""});
  }
}

void read_ministral3_fields(const Json& json, const std::string& where, ModelConfig& config) {
  constexpr const char* kBeta = "llama_4_scaling_beta";
  read_olmo2_fields(json, where, config);
  const Json& rope = *rotation_of(json, config.family);
  const double beta = float_or(rope, kBeta, -1, where);
  if (!(beta >= 0 && beta <= kMaxFactor)) {
    throw UserError({where, std::string(kBeta) + " of 0 or more in rope_parameters", base::short_json(rope),
                     "transformers has no default for it", ""});
  }
  config.query_scale_beta = beta;
  config.query_scale_length =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(original_length(json, rope, config, where)));
}

void write_ministral3_gguf_fields(const ModelConfig& config, GgufEntries& entries) {
  if (!config.rope_yarn) refuse_gguf("rope_type yarn of a ministral3", "another");
  if (std::abs(config.rope_attention_factor - 1) > 1e-6) {
    refuse_gguf("an attention factor of 1 of a ministral3 (mscale and mscale_all_dim 1)",
                std::to_string(config.rope_attention_factor));
  }
  entries.push_back({"mistral3.rope.scaling.yarn_log_multiplier", 1.0F});
  entries.push_back({"mistral3.attention.temperature_scale", static_cast<float>(config.query_scale_beta)});
}

void read_ministral3_gguf_fields(const base::GgufFile& file, Json& json) {
  constexpr const char* kMultiplier = "mistral3.rope.scaling.yarn_log_multiplier";
  if (const double found = file.float_or(kMultiplier, 0); found != 1) {
    throw UserError({file.path().string() + ": " + kMultiplier, "1", std::to_string(found),
                     "hone does not have this attention factor", "use the model's Hugging Face folder"});
  }
  Json& rope = json["rope_scaling"];
  if (!rope.is_object()) rope = {{"rope_type", "default"}};
  rope["mscale"] = rope["mscale_all_dim"] = 1.0;
  rope["llama_4_scaling_beta"] = as_written(file.float_or("mistral3.attention.temperature_scale", 0));
}

void read_granite_fields(const Json& json, const std::string& where, ModelConfig& config) {
  config.embedding_scale = factor_or(json, "embedding_multiplier", 1, where);
  config.attention_scale = factor_or(json, "attention_multiplier", 1, where);
  config.residual_scale = factor_or(json, "residual_multiplier", 1, where);
  config.logits_scale = factor_or(json, "logits_scaling", 1, where);
}

void write_granite_gguf_fields(const ModelConfig& config, GgufEntries& entries) {
  const std::string arch(traits_of(config.family).gguf_architecture);
  entries.push_back({arch + ".embedding_scale", static_cast<float>(config.embedding_scale)});
  entries.push_back({arch + ".attention.scale", static_cast<float>(config.attention_scale)});
  entries.push_back({arch + ".residual_scale", static_cast<float>(config.residual_scale)});
  entries.push_back({arch + ".logit_scale", static_cast<float>(config.logits_scale)});
}

void read_granite_gguf_fields(const base::GgufFile& file, Json& json) {
  const std::string arch = file.require_string("general.architecture");
  json["embedding_multiplier"] = as_written(file.require_float(arch + ".embedding_scale"));
  json["attention_multiplier"] = as_written(file.require_float(arch + ".attention.scale"));
  json["residual_multiplier"] = as_written(file.require_float(arch + ".residual_scale"));
  json["logits_scaling"] = as_written(file.require_float(arch + ".logit_scale"));
}

void read_granite_hybrid_fields(const Json& json, const std::string& where, ModelConfig& config) {
  constexpr const char *kTypes = "layer_types", *kPositions = "position_embedding_type";
  const std::string dense =
      "take a dense model of Granite 4: granite-4.0-micro, granite-4.0-1b or granite-4.0-350m";
  read_granite_fields(json, where, config);
  const Json* const types = lookup(json, kTypes);
  const auto attends = [](const Json& type) { return type == "attention" || type == "full_attention"; };
  if (types == nullptr || (types->is_array() && !std::all_of(types->begin(), types->end(), attends))) {
    const auto other =
        types == nullptr ? Json(nullptr) : *std::find_if_not(types->begin(), types->end(), attends);
    throw UserError({where, "layer_types with attention in every layer",
                     types == nullptr ? "no layer_types: all layers are mamba" : base::short_json(other),
                     "hone has no state space layers", dense});
  }
  if (const std::int64_t experts = int_or(json, "num_local_experts", 8, where); experts != 0) {
    throw UserError({where, "num_local_experts 0", std::to_string(experts),
                     "hone has no experts beside an MLP that every token goes through", dense});
  }
  const std::string positions = string_or(json, kPositions, "nope", where);
  if (positions != "rope" && positions != "nope") wrong_type(where, kPositions, "rope or nope", positions);
  if (positions == "nope") {
    config.attention.resize(static_cast<std::size_t>(config.num_hidden_layers));
    for (LayerAttention& layer : config.attention) layer.rotation = kNoRotation;
  }
  config.intermediate_size = lookup(json, "shared_intermediate_size") == nullptr
                                 ? 1024
                                 : positive(json, "shared_intermediate_size", where);
}

void write_granite_hybrid_gguf_fields(const ModelConfig& config, GgufEntries& entries) {
  write_granite_gguf_fields(config, entries);
  entries.push_back(
      {std::string("granite.") + kGraniteRotates, config.attention_of(0).rotation != kNoRotation});
}

void read_granite_hybrid_gguf_fields(const base::GgufFile& file, Json& json) {
  read_granite_gguf_fields(file, json);
  const auto found = file.metadata().find(std::string("granite.") + kGraniteRotates);
  const bool* const rotates = std::get_if<bool>(&found->second);
  json["position_embedding_type"] = rotates == nullptr || *rotates ? "rope" : "nope";
  json["layer_types"] =
      std::vector<std::string>(json.at("num_hidden_layers").get<std::size_t>(), "attention");
  json["num_local_experts"] = json["num_experts_per_tok"] = 0;
  json["shared_intermediate_size"] = json.at("intermediate_size");
  json.erase("mlp_bias");
}

void read_gemma_fields(const Json& json, const std::string& where, ModelConfig& /*config*/) {
  refuse_encoder(json, where);
}

void read_gemma_gguf_fields(const base::GgufFile& /*file*/, Json& json) {
  json["hidden_act"] = "gelu_pytorch_tanh";
}

void read_gemma2_fields(const Json& json, const std::string& where, ModelConfig& config) {
  // null: no cap
  const auto cap = [&](const char* key, double fallback) {
    return json.contains(key) && lookup(json, key) == nullptr ? 0 : factor_or(json, key, fallback, where);
  };
  config.attention_soft_cap = cap(kAttentionCap, kGemma2AttentionCap);
  config.logits_soft_cap = cap(kLogitsCap, kGemma2LogitsCap);
  refuse_encoder(json, where);
  config.attention_scale = 1 / std::sqrt(factor_or(json, "query_pre_attn_scalar", 256, where));
}

void write_gemma2_gguf_fields(const ModelConfig& config, GgufEntries& entries) {
  if (config.attention_soft_cap == 0 || config.logits_soft_cap == 0)
    refuse_gguf("soft caps of scores and logits of a gemma2", "none");
  require_scalar(config, gemma_scalar(config, kLayersOfGemma2At27B), "gemma2");
  const std::int64_t window = config.attention_of(0).window;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    if (config.attention_of(i).window == (i % 2 == 0 ? window : 0) && window > 0) continue;
    refuse_gguf(
        "windows in every other layer of a gemma2, from the first on",
        "layer " + std::to_string(i) + " with a window of " + std::to_string(config.attention_of(i).window));
  }
  entries.push_back({"gemma2.attention.sliding_window", static_cast<std::uint32_t>(window)});
  entries.push_back({"gemma2.attn_logit_softcapping", static_cast<float>(config.attention_soft_cap)});
  entries.push_back({"gemma2.final_logit_softcapping", static_cast<float>(config.logits_soft_cap)});
}

void read_gemma2_gguf_fields(const base::GgufFile& file, Json& json) {
  json["sliding_window"] = file.int_or("gemma2.attention.sliding_window", 4096);
  json[kAttentionCap] = as_written(file.float_or("gemma2.attn_logit_softcapping", kGemma2AttentionCap));
  json[kLogitsCap] = as_written(file.float_or("gemma2.final_logit_softcapping", kGemma2LogitsCap));
  json["query_pre_attn_scalar"] = gemma_scalar(json, kLayersOfGemma2At27B);
  json["hidden_activation"] = "gelu_pytorch_tanh";
}

void read_gemma3_fields(const Json& json, const std::string& where, ModelConfig& config) {
  for (const char* cap : {kAttentionCap, kLogitsCap}) {
    if (lookup(json, cap) == nullptr) continue;
    throw UserError({where, std::string(cap) + " null", base::short_json(json.at(cap)),
                     "hone has soft caps of scores and logits in gemma2 only", ""});
  }
  refuse_encoder(json, where);
  config.attention_scale = 1 / std::sqrt(factor_or(json, "query_pre_attn_scalar", 256, where));
  config.local_rope_theta =
      local_theta(json, factor_or(json, "rope_local_base_freq", kGemma3LocalTheta, where), where);
}

void rotate_windows_locally(ModelConfig& config) {
  for (LayerAttention& layer : config.attention) {
    if (layer.window > 0) layer.rotation = kLocalRotation;
  }
}

void write_gemma3_gguf_fields(const ModelConfig& config, GgufEntries& entries) {
  if (config.local_rope_theta != kGemma3LocalTheta)
    refuse_gguf("a local rotation of base 10000 of a gemma3", std::to_string(*config.local_rope_theta));
  require_scalar(config, gemma_scalar(config, kLayersOfGemma3At27B), "gemma3");
  const std::int64_t window = patterned_window(config, kGemma3Pattern, "a gemma3");
  entries.push_back({"gemma3.attention.sliding_window", static_cast<std::uint32_t>(window)});
}

void read_gemma3_gguf_fields(const base::GgufFile& file, Json& json) {
  json["sliding_window"] = file.require_int("gemma3.attention.sliding_window");
  // llama.cpp's converter writes neither of the two
  json["sliding_window_pattern"] = file.int_or("gemma3.attention.sliding_window_pattern", kGemma3Pattern);
  json["rope_local_base_freq"] = as_written(file.float_or("gemma3.rope.freq_base_swa", kGemma3LocalTheta));
  json["query_pre_attn_scalar"] = gemma_scalar(json, kLayersOfGemma3At27B);
  json["hidden_activation"] = "gelu_pytorch_tanh";
}

namespace {

// layer_types, or full_attn_idxs: the layers with attention, null for all.
std::vector<LayerKind> lfm2_kinds(const Json& json, const std::string& where, std::int64_t layers) {
  constexpr std::string_view kFull = "full_attention", kConv = "conv";
  if (auto kinds = kinds_of_types(json, where, layers, {kFull, kConv})) return *kinds;
  std::vector<LayerKind> kinds(static_cast<std::size_t>(layers), kind_of_type(kConv));
  const Json* attention = lookup(json, "full_attn_idxs");
  if (attention == nullptr) return std::vector<LayerKind>(kinds.size(), kind_of_type(kFull));
  if (!attention->is_array()) wrong_type(where, "full_attn_idxs", "a list of layers", *attention);
  for (const Json& layer : *attention) {
    const bool fits = layer.is_number_integer() && layer.get<double>() >= 0 &&
                      layer.get<double>() < static_cast<double>(layers);
    if (!fits) wrong_type(where, "full_attn_idxs", "a list of layers, the first of which is 0", *attention);
    kinds[layer.get<std::size_t>()] = kind_of_type(kFull);
  }
  return kinds;
}

// transformers' Lfm2MLP: two thirds of the given width, times a factor, in multiples of another.
std::int64_t lfm2_mlp_width(const Json& json, const std::string& where, std::int64_t given) {
  if (!bool_or(json, "block_auto_adjust_ff_dim", true, where)) return given;
  auto width = static_cast<std::int64_t>(2 * static_cast<double>(given) / 3);
  const bool has_factor =
      !json.contains("block_ffn_dim_multiplier") || lookup(json, "block_ffn_dim_multiplier") != nullptr;
  if (has_factor) {
    const double factor = factor_or(json, "block_ffn_dim_multiplier", 1, where);
    const std::int64_t multiple =
        lookup(json, "block_multiple_of") == nullptr ? 256 : positive(json, "block_multiple_of", where);
    const double scaled = std::min(factor * static_cast<double>(width), static_cast<double>(kMaxExtent));
    width = (static_cast<std::int64_t>(scaled) + multiple - 1) / multiple * multiple;
  }
  if (width <= 0 || width > kMaxExtent) wrong_type(where, "intermediate_size", "a width of the MLP", given);
  return width;
}

}  // namespace

void read_lfm2_fields(const Json& json, const std::string& where, ModelConfig& config) {
  constexpr std::int64_t kMostTaps = 64;
  config.rms_norm_eps = float_or(json, "norm_eps", 1e-5, where);
  if (!(config.rms_norm_eps >= 0 && config.rms_norm_eps <= 1))
    wrong_type(where, "norm_eps", "a number from 0 to 1", config.rms_norm_eps);
  config.conv_taps =
      lookup(json, "conv_L_cache") == nullptr ? 3 : positive(json, "conv_L_cache", where, kMostTaps);
  config.conv_bias = bool_or(json, "conv_bias", false, where);
  config.kinds = lfm2_kinds(json, where, config.num_hidden_layers);
  config.intermediate_size = lfm2_mlp_width(json, where, config.intermediate_size);
}

void write_lfm2_gguf_fields(const ModelConfig& config, GgufEntries& entries) {
  if (config.conv_bias) refuse_gguf("convolutions of an lfm2 without biases", "conv_bias true");
  std::vector<std::int32_t> heads;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const bool attends = config.mixer(i).attends();
    heads.push_back(attends ? static_cast<std::int32_t>(config.num_key_value_heads) : 0);
  }
  for (base::GgufEntry& entry : entries) {
    if (entry.key == kLfm2Heads) entry.value = heads;
  }
  entries.push_back({"lfm2.shortconv.l_cache", static_cast<std::uint32_t>(config.conv_taps)});
}

void read_lfm2_gguf_fields(const base::GgufFile& file, Json& json) {
  json["layer_types"] = Json::array();
  const std::vector<std::int64_t>* const heads = int_list(file, kLfm2Heads);
  for (std::int64_t i = 0; i < json.at("num_hidden_layers").get<std::int64_t>(); ++i) {
    const auto place = static_cast<std::size_t>(i);
    const bool attends = heads == nullptr || (place < heads->size() && (*heads)[place] > 0);
    json["layer_types"].push_back(attends ? "full_attention" : "conv");
  }
  json["norm_eps"] = json.at("rms_norm_eps");
  json.erase("rms_norm_eps");
  json["conv_L_cache"] = file.require_int("lfm2.shortconv.l_cache");
  json["conv_bias"] = false;
  json["block_auto_adjust_ff_dim"] = false;  // the file has the width itself
}

}  // namespace hone::model
