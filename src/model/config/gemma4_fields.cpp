#include "model/config/gemma4_fields.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/utf8.h"
#include "model/config/config_fields.h"

namespace hone::model {
namespace {

using base::Json;
using base::UserError;

constexpr const char* kPerLayer = "per_layer_config";
constexpr double kLocalTheta = 10000;  // of Gemma4TextConfig, as the other numbers below

// per_layer_config: an object of each layer's own fields, by its number as text.
void check_layer_fields(const Json& json, const std::string& where, std::int64_t layers) {
  const Json* const all = lookup(json, kPerLayer);
  if (all == nullptr) return;
  if (!all->is_object()) wrong_type(where, kPerLayer, "an object with an object a layer", *all);
  for (const auto& [layer, own] : all->items()) {
    std::int64_t number = -1;
    std::from_chars(layer.data(), layer.data() + layer.size(), number);
    if (number < 0 || number >= layers || layer != std::to_string(number)) {
      throw UserError({where, std::string(kPerLayer) + " of layers 0 to " + std::to_string(layers - 1),
                       "'" + base::cut_text(layer, 200) + "'", "the model has no such layer", ""});
    }
    if (own.is_null()) continue;
    if (!own.is_object()) wrong_type(where, kPerLayer, "an object with an object a layer", *all);
    for (const auto& [key, value] : own.items()) {
      if (key == "head_dim" || key == "num_key_value_heads") continue;
      throw UserError({where, std::string(kPerLayer) + " with head_dim and num_key_value_heads only",
                       "'" + base::cut_text(key, 200) + "' of layer " + layer,
                       "hone has no other field of single layers", ""});
    }
  }
}

// Null: the layer has none of its own.
const Json* fields_of_layer(const Json& json, std::int64_t layer) {
  const Json* const all = lookup(json, kPerLayer);
  return all == nullptr ? nullptr : lookup(*all, std::to_string(layer).c_str());
}

void refuse_field(const Json& json, const char* key, const std::string& where, const std::string& missing) {
  throw UserError({where, std::string(key) + " false", base::short_json(json.at(key)),
                   "hone does not have this part of Gemma 4 yet: it has no " + missing,
                   "use a model without it, such as E2B or E4B"});
}

void refuse_parts(const Json& json, const std::string& where) {
  if (bool_or(json, "enable_moe_block", false, where))
    refuse_field(json, "enable_moe_block", where, "layers with an MLP and experts side by side");
  if (bool_or(json, "attention_k_eq_v", false, where))
    refuse_field(json, "attention_k_eq_v", where, "keys that are the values of the same layer");
  const std::string both = string_or(json, "use_bidirectional_attention", "vision", where);
  if (both == "vision") return;  // of images only
  throw UserError({where, "use_bidirectional_attention null or vision", "'" + base::cut_text(both, 200) + "'",
                   "this is an encoder: hone has no attention in both directions", ""});
}

double gemma4_local_theta(const Json& json, const std::string& where) {
  const Json* const rope = lookup(json, "rope_parameters");
  const Json* const local =
      rope == nullptr || !rope->is_object() ? nullptr : lookup(*rope, "sliding_attention");
  if (local == nullptr) return kLocalTheta;
  if (!local->is_object()) wrong_type(where, "rope_parameters.sliding_attention", "an object", *local);
  if (string_or(*local, "rope_type", "default", where) != "default") {
    throw UserError({where, "rope_type default of sliding_attention", base::short_json(*local),
                     "hone does not scale the rotation of layers with a window", ""});
  }
  return lookup(*local, "rope_theta") == nullptr ? kLocalTheta : positive_float(*local, "rope_theta", where);
}

// The last layer before `first` that is as wide as `layer`: with a window, or without.
std::int64_t source_of(const ModelConfig& config, std::int64_t layer, std::int64_t first,
                       const std::string& where) {
  const auto windowed = [&](std::int64_t i) { return config.attention_of(i).window > 0; };
  for (std::int64_t i = first; i-- > 0;) {
    if (windowed(i) == windowed(layer)) return i;
  }
  throw UserError({where, "a num_kv_shared_layers that leaves a layer of each type its keys and values",
                   "none of the type of layer " + std::to_string(layer), "", ""});
}

void share_keys(const Json& json, const std::string& where, ModelConfig& config) {
  const std::int64_t layers = config.num_hidden_layers,
                     sharing = int_or(json, "num_kv_shared_layers", 0, where);
  if (sharing < 0 || sharing >= layers)
    wrong_type(where, "num_kv_shared_layers", "a number of layers, fewer than all", Json(sharing));
  for (std::int64_t i = layers - sharing; i < layers; ++i) {
    const std::int64_t source = source_of(config, i, layers - sharing, where);
    config.attention[static_cast<std::size_t>(i)].shares = source;
    config.attention[static_cast<std::size_t>(source)].is_shared = true;
  }
}

void check_heads_of(const ModelConfig& config, std::int64_t layer, const std::string& where) {
  const LayerAttention attention = config.attention_of(layer);
  if (config.num_attention_heads % attention.kv_heads == 0 && attention.head_dim % 2 == 0 &&
      config.num_attention_heads * attention.head_dim <= kMaxExtent)
    return;
  throw UserError({where, "an even head_dim, and num_attention_heads as a multiple of num_key_value_heads",
                   std::to_string(attention.head_dim) + ", " + std::to_string(config.num_attention_heads) +
                       " and " + std::to_string(attention.kv_heads) + " in layer " + std::to_string(layer),
                   "", ""});
}

void refuse_written(const std::string& expected, const std::string& found) {
  throw UserError(
      {"GGUF", expected, found, "llama.cpp has no key for it", "keep the model's Hugging Face folder"});
}

// llama.cpp reads the keys of the last layer of its own but one where there is a window, of the last one elsewhere.
void check_sources(const ModelConfig& config) {
  std::int64_t own = 0;
  while (own < config.num_hidden_layers && config.attention_of(own).has_keys()) ++own;
  for (std::int64_t i = own; i < config.num_hidden_layers; ++i) {
    const LayerAttention attention = config.attention_of(i);
    const std::int64_t expected = own - (attention.window > 0 ? 2 : 1);
    if (attention.shares != expected)
      refuse_written(
          "keys of layer " + std::to_string(expected) + " in layer " + std::to_string(i) + " of a gemma4",
          "those of layer " + std::to_string(attention.shares));
  }
}

void check_written(const ModelConfig& config) {
  check_sources(config);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    if (config.attention_of(i).kv_heads != config.num_key_value_heads)
      refuse_written("as many heads of keys in every layer of a gemma4",
                     std::to_string(config.attention_of(i).kv_heads) + " in layer " + std::to_string(i));
  }
  if (!config.rope_proportional) refuse_written("rope_type proportional of a gemma4", "another one");
  if (config.rope_linear_factor) refuse_written("rope_type proportional without a factor", "a factor");
  if (config.per_layer_width > 0 && config.per_layer_vocab != config.vocab_size)
    refuse_written("vocab_size_per_layer_input " + std::to_string(config.vocab_size) + ", the vocab_size",
                   std::to_string(config.per_layer_vocab));
}

}  // namespace

void read_gemma4_heads(const Json& json, const std::string& where, ModelConfig& config) {
  config.global_head_dim = 512;
  if (lookup(json, "global_head_dim") != nullptr)
    config.global_head_dim = positive(json, "global_head_dim", where);
  check_layer_fields(json, where, config.num_hidden_layers);
  // the last layer has no window
  const Json* const last = fields_of_layer(json, config.num_hidden_layers - 1);
  if (lookup(json, kPerLayer) == nullptr) return;
  config.global_head_dim = last == nullptr || lookup(*last, "head_dim") == nullptr
                               ? config.head_dim
                               : positive(*last, "head_dim", where);
}

void read_gemma4_fields(const Json& json, const std::string& where, ModelConfig& config) {
  refuse_parts(json, where);
  config.attention_scale = 1;
  config.value_norm = true;
  config.local_rope_theta = gemma4_local_theta(json, where);
  if (lookup(json, "final_logit_softcapping") != nullptr)
    config.logits_soft_cap = positive_float(json, "final_logit_softcapping", where);
  if (!json.contains("bos_token_id")) config.bos_token_id = 2;
  if (!json.contains("eos_token_id")) config.eos_token_ids = {1};
  const std::int64_t width = int_or(json, "hidden_size_per_layer_input", 256, where);
  if (width < 0 || width > kMaxExtent / config.num_hidden_layers)
    wrong_type(where, "hidden_size_per_layer_input", "a number of columns of each layer, or 0", Json(width));
  config.per_layer_width = width;
  if (width == 0) return;
  config.per_layer_vocab = lookup(json, "vocab_size_per_layer_input") == nullptr
                               ? 262144
                               : positive(json, "vocab_size_per_layer_input", where);
}

void read_gemma4_layers(const Json& json, const std::string& where, ModelConfig& config) {
  const std::int64_t layers = config.num_hidden_layers;
  config.attention.resize(static_cast<std::size_t>(layers));
  config.attention.back().window = 0;
  config.attention.back().rotation = kMainRotation;
  for (std::int64_t i = 0; i < layers; ++i) {
    LayerAttention& own = config.attention[static_cast<std::size_t>(i)];
    const std::int64_t expected = own.window > 0 ? config.head_dim : config.global_head_dim;
    own.head_dim = expected;
    if (const Json* const fields = fields_of_layer(json, i)) {
      if (lookup(*fields, "num_key_value_heads") != nullptr)
        own.kv_heads = positive(*fields, "num_key_value_heads", where);
      if (lookup(*fields, "head_dim") != nullptr) own.head_dim = positive(*fields, "head_dim", where);
    } else if (lookup(json, kPerLayer) != nullptr) {
      own.head_dim = config.head_dim;
    }
    if (own.head_dim != expected) {
      throw UserError({where, "one head_dim of all layers with a window, and one of all without",
                       std::to_string(own.head_dim) + " in layer " + std::to_string(i), "", ""});
    }
    check_heads_of(config, i, where);
  }
  share_keys(json, where, config);
  config.wide_mlp_where_shared = bool_or(json, "use_double_wide_mlp", false, where);
}

void write_gemma4_gguf_fields(const ModelConfig& config, std::vector<base::GgufEntry>& entries) {
  check_written(config);
  const auto set = [&entries](const std::string& key, base::GgufWritten value) {
    for (base::GgufEntry& entry : entries) {
      if (entry.key != key) continue;
      entry.value = std::move(value);
      return;
    }
    entries.push_back({key, std::move(value)});
  };
  const auto count = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  std::vector<std::int32_t> windowed, widths;
  std::int64_t sharing = 0, window = 0;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const LayerAttention attention = config.attention_of(i);
    windowed.push_back(attention.window > 0 ? 1 : 0);
    widths.push_back(static_cast<std::int32_t>(config.mlp_of(i)));
    sharing += attention.has_keys() ? 0 : 1;
    window = std::max(window, attention.window);
  }
  set("gemma4.attention.key_length", count(config.global_head_dim));
  set("gemma4.attention.value_length", count(config.global_head_dim));
  set("gemma4.attention.key_length_swa", count(config.head_dim));
  set("gemma4.attention.value_length_swa", count(config.head_dim));
  if (config.wide_mlp_where_shared) set("gemma4.feed_forward_length", widths);
  set("gemma4.attention.shared_kv_layers", count(sharing));
  set("gemma4.attention.sliding_window", count(window));
  set("gemma4.attention.sliding_window_pattern", windowed);
  set("gemma4.rope.freq_base_swa", static_cast<float>(*config.local_rope_theta));
  set("gemma4.rope.dimension_count_swa", count(config.head_dim));
  set("gemma4.embedding_length_per_layer_input", count(config.per_layer_width));
  if (config.logits_soft_cap > 0)
    set("gemma4.final_logit_softcapping", static_cast<float>(config.logits_soft_cap));
}

void read_gemma4_gguf_fields(const base::GgufFile& file, Json& json) {
  const std::string where = file.path().string();
  const std::int64_t layers = json.at("num_hidden_layers").get<std::int64_t>();
  const std::vector<std::int64_t>* const windowed = int_list(file, "gemma4.attention.sliding_window_pattern");
  if (windowed == nullptr || static_cast<std::int64_t>(windowed->size()) != layers) {
    throw UserError({where + ": gemma4.attention.sliding_window_pattern", "a list with a number a layer",
                     windowed == nullptr ? "none" : std::to_string(windowed->size()) + " numbers",
                     "the file is damaged, or of another version of llama.cpp", ""});
  }
  json["layer_types"] = Json::array();
  for (const std::int64_t one : *windowed)
    json["layer_types"].push_back(one != 0 ? "sliding_attention" : "full_attention");
  json["sliding_window"] = file.require_int("gemma4.attention.sliding_window");
  json["global_head_dim"] = json.at("head_dim");
  json["head_dim"] = file.require_int("gemma4.attention.key_length_swa");
  Json full = json.at("rope_scaling").is_null() ? Json{{"rope_type", "default"}} : json.at("rope_scaling");
  full["rope_theta"] = json.at("rope_theta");
  const double local = as_written(file.float_or("gemma4.rope.freq_base_swa", kLocalTheta));
  json["rope_parameters"] = {{"full_attention", full},
                             {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local}}}};
  json.erase("rope_scaling");
  json.erase("rope_theta");
  const std::int64_t sharing = file.int_or("gemma4.attention.shared_kv_layers", 0);
  json["num_kv_shared_layers"] = sharing;
  const std::vector<std::int64_t>* const widths = int_list(file, "gemma4.feed_forward_length");
  json["use_double_wide_mlp"] = widths != nullptr && !widths->empty() && sharing > 0 &&
                                widths->back() % 2 == 0 && widths->back() / 2 == widths->front();
  json["hidden_size_per_layer_input"] = file.int_or("gemma4.embedding_length_per_layer_input", 0);
  if (const base::GgufTensor* embedding = file.find("per_layer_token_embd.weight");
      embedding != nullptr && embedding->shape.size() == 2)
    json["vocab_size_per_layer_input"] = embedding->shape[0];
  const double cap = file.float_or("gemma4.final_logit_softcapping", 0);
  json["final_logit_softcapping"] = cap > 0 ? Json(as_written(cap)) : Json(nullptr);
  json["hidden_activation"] = "gelu_pytorch_tanh";
}

}  // namespace hone::model
