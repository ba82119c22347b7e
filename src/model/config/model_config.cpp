#include "model/config/model_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "model/config/config_fields.h"
#include "model/config/families.h"
#include "model/config/family_fields.h"
#include "model/config/rotations.h"
#include "model/config/wrappers.h"

namespace hone::model {
namespace {

using base::Json;
using base::UserError;

// Far above any model: a lying file must not cost memory, and products of these stay within 64 bits.
constexpr double kMaxWeights = 1e13;

const FamilyTraits& family_or_refuse(const std::string& type, const std::string& field,
                                     const std::string& where) {
  if (const FamilyTraits* f = find_family(type)) return *f;
  std::vector<std::string> known;
  for (const FamilyTraits& f : families()) known.emplace_back(f.model_type);
  for (const Wrapper& one : wrappers()) known.emplace_back(one.model_type);
  const std::string missing(missing_for(type));
  throw UserError({where, field + " to be one of " + known_families(),
                   "'" + base::cut_text(type, 200) + "'." + base::did_you_mean(type, known),
                   missing.empty() ? "hone does not have this architecture yet"
                                   : "hone does not have this architecture yet: it has no " + missing,
                   "use a model of one of these families"});
}

bool resolve(BiasRule rule, bool attention_bias, bool mlp_bias) {
  switch (rule) {
    case BiasRule::kNever:
      return false;
    case BiasRule::kAlways:
      return true;
    case BiasRule::kAttentionBias:
      return attention_bias;
    case BiasRule::kMlpBias:
      return mlp_bias;
  }
  return false;
}

// The file with the keys that others take the place of.
Json with_other_keys(Json json, const FamilyTraits& family) {
  for (const OtherKey& key : family.other_keys) {
    const std::string found(key.found);
    if (!json.contains(found)) continue;
    json[std::string(key.means)] = json.at(found);
    json.erase(found);
  }
  return json;
}

// Everything in the file that would change the numbers and that hone does not compute.
void refuse_unsupported(const Json& json, const std::string& where, const FamilyTraits& family) {
  const std::string key(family.activation_key);
  const bool gelu = family.activation == Activation::kGeluTanh;
  const std::string expected = gelu ? "gelu_pytorch_tanh" : "silu";
  const std::string act = string_or(json, key.c_str(), expected, where);
  const std::string_view alias = gelu ? family.activation_alias : "swish";
  if (act != expected && (alias.empty() || act != alias)) {
    throw UserError({where, key + " " + expected, "'" + base::cut_text(act, 200) + "'",
                     "hone has no other activation for this family", ""});
  }
  if (const Json* quantized = lookup(json, "quantization_config")) {
    // What is quantized, and how, the tensors themselves say (bnb_files.h).
    const std::string method = quantized->is_object() ? string_or(*quantized, "quant_method", "", where) : "";
    if (method != "bitsandbytes") {
      throw UserError({where, "weights in float32, float16 or bfloat16, or bitsandbytes' 4 and 8 bits",
                       "a quantization_config" + (method.empty() ? "" : " of " + base::cut_text(method, 200)),
                       "the checkpoint is stored quantized", "use the unquantized model, or a GGUF of it"});
    }
  }
  for (const char* dropout : {"attention_dropout", "resid_pdrop", "embd_pdrop"}) {
    if (float_or(json, dropout, 0.0, where) == 0.0) continue;
    throw UserError({where, std::string(dropout) + " 0", base::short_json(json.at(dropout)),
                     "hone does not drop what passes through the base model",
                     "set " + std::string(dropout) + " to 0 in the file"});
  }
}

// Which layers layer_types calls sliding; empty: the file has no such list.
std::vector<bool> sliding_types(const Json& json, const std::string& where, const ModelConfig& config) {
  const std::int64_t layers = config.num_hidden_layers;
  const Json* types = lookup(json, "layer_types");
  if (types == nullptr) return {};
  if (!types->is_array() || static_cast<std::int64_t>(types->size()) != layers)
    wrong_type(where, "layer_types", "a list of strings, one a layer", *types);
  std::vector<bool> sliding;
  for (const Json& t : *types) {
    if (!t.is_string()) wrong_type(where, "layer_types", "a list of strings", *types);
    const std::string type = t == "attention" ? "full_attention" : t.get<std::string>();  // its older name
    const bool other = (type == "conv" && config.conv_taps > 0) ||  // ModelConfig::kinds has them
                       (type == "linear_attention" && config.delta.taps > 0);
    if (type != "sliding_attention" && type != "full_attention" && !other) {
      throw UserError({where, "layer_types full_attention and sliding_attention",
                       "'" + base::cut_text(type, 200) + "'", "hone does not have this kind of layer", ""});
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

// Of the layers without layer_types, by the family's rule.
std::vector<bool> sliding_layers(const Json& json, const std::string& where, const FamilyTraits& family,
                                 const ModelConfig& config) {
  std::vector<bool> sliding;
  const std::int64_t first = int_or(json, "max_window_layers", 28, where),
                     pattern = family.reads_pattern
                                   ? int_or(json, "sliding_window_pattern", family.default_pattern, where)
                                   : family.default_pattern;
  if (pattern <= 0) wrong_type(where, "sliding_window_pattern", "a positive integer", pattern);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    switch (family.windows) {
      case WindowRule::kNone:
        sliding.push_back(false);
        break;
      case WindowRule::kEveryLayer:
      case WindowRule::kEveryLayerSwitched:
        sliding.push_back(true);
        break;
      case WindowRule::kUpperLayers:
        sliding.push_back(i >= first);
        break;
      case WindowRule::kUnrotatedLayers:
        sliding.push_back(config.attention_of(i).rotation == kNoRotation);
        break;
      case WindowRule::kPattern:
        sliding.push_back((i + 1) % pattern != 0);
        break;
      case WindowRule::kAlternating:
        sliding.push_back(i % 2 == 0);
        break;
    }
  }
  return sliding;
}

// Fills the windows of config.attention.
void parse_windows(const Json& json, const std::string& where, const FamilyTraits& family,
                   ModelConfig& config) {
  const bool all =
      family.windows == WindowRule::kEveryLayer || family.windows == WindowRule::kEveryLayerSwitched;
  const bool switched = family.windows == WindowRule::kUpperLayers ||
                        family.windows == WindowRule::kUnrotatedLayers ||
                        family.windows == WindowRule::kEveryLayerSwitched;
  std::vector<bool> sliding = sliding_types(json, where, config);
  const bool by_types = !sliding.empty() && !all;
  const auto any = [&] { return std::find(sliding.begin(), sliding.end(), true) != sliding.end(); };
  const std::int64_t window =
      json.contains("sliding_window") ? int_or(json, "sliding_window", 0, where) : family.default_window;
  const bool off =
      family.windows == WindowRule::kNone || (switched && !bool_or(json, "use_sliding_window", false, where));
  if (off) {
    // transformers stops too, or ignores the window
    if (!by_types || !any() || window == 0) return;
    throw UserError(
        {where, "full attention in every layer",
         "layer_types with sliding_attention and sliding_window " + std::to_string(window),
         switched ? "use_sliding_window does not switch sliding windows on"
                  : "this family has no sliding windows",
         "set layer_types to null" + std::string(switched ? ", or use_sliding_window to true" : "")});
  }
  if (!by_types) sliding = sliding_layers(json, where, family, config);
  const bool has_one = family.windows == WindowRule::kPattern || family.windows == WindowRule::kAlternating;
  if (!any() || (window == 0 && !has_one)) return;
  if (window <= 0 || window > kMaxInt32) wrong_type(where, "sliding_window", "a positive integer", window);
  config.attention.resize(static_cast<std::size_t>(config.num_hidden_layers));
  for (std::size_t i = 0; i < sliding.size(); ++i) config.attention[i].window = sliding[i] ? window : 0;
}

// What the row says without asking the file.
void take_traits(const FamilyTraits& family, bool attention_bias, bool mlp_bias, ModelConfig& c) {
  for (const ModuleRow& row : family.modules) {
    if (row.kind >= ModuleKind::kConvIn) continue;  // conv_bias, or none
    const bool biased = resolve(row.bias, attention_bias, mlp_bias);
    (row.kind < ModuleKind::kO ? c.qkv_bias : row.kind == ModuleKind::kO ? c.o_bias : c.mlp_bias) = biased;
  }
  for (const NormRow& row : family.norms) {
    if (row.place == NormPlace::kQ) (family.projection_qk_norm ? c.projection_qk_norm : c.qk_norm) = true;
    if (row.place == NormPlace::kAfterAttention) c.norms_after = true;
  }
  c.norm_adds_one = family.norm_adds_one;
  c.activation = family.activation;
  c.attention_gate = family.attention_gated;
  if (!family.embedding_scaled) return;
  c.embedding_scale = std::sqrt(static_cast<double>(c.hidden_size));
  c.scales_in_embedding = true;
}

void check_heads(const ModelConfig& c, const std::string& where) {
  if (c.num_attention_heads % c.num_key_value_heads != 0) {
    throw UserError({where, "num_attention_heads as a multiple of num_key_value_heads",
                     std::to_string(c.num_attention_heads) + " and " + std::to_string(c.num_key_value_heads),
                     "", ""});
  }
  if (c.head_dim % 2 != 0) {
    throw UserError({where, "an even head_dim", std::to_string(c.head_dim), "", ""});
  }
  if (c.num_attention_heads * c.head_dim > kMaxExtent) {
    throw UserError({where, "at most " + std::to_string(kMaxExtent) + " columns of all heads",
                     std::to_string(c.num_attention_heads) + " heads of " + std::to_string(c.head_dim),
                     "the file is damaged", ""});
  }
  const auto hidden = static_cast<double>(c.hidden_size), mlp = static_cast<double>(c.intermediate_size),
             heads = static_cast<double>(c.num_attention_heads * c.head_dim);
  const double weights = static_cast<double>(c.num_hidden_layers) * hidden * (4 * heads + 3 * mlp) +
                         2 * static_cast<double>(c.vocab_size) * hidden;
  if (weights > kMaxWeights) {
    throw UserError({where, "model sizes that fit in a machine's memory",
                     base::short_json(Json(weights)) + " weights", "the file is damaged", ""});
  }
}

}  // namespace

std::vector<std::int64_t> token_ids(const Json& json, const char* key, const std::string& where) {
  const Json* v = lookup(json, key);
  if (v == nullptr) return {};
  std::vector<std::int64_t> ids;
  for (const Json& id : v->is_array() ? *v : Json::array({*v})) {
    if (!id.is_number_integer() || id.get<double>() < -1 || id.get<double>() > kMaxInt32)
      wrong_type(where, key, "a token id or a list of them", *v);
    ids.push_back(id.get<std::int64_t>());
  }
  return ids;
}

ModelConfig parse_model_config(const Json& file, const std::string& where) {
  if (!file.is_object()) {
    throw UserError({where, "a JSON object", file.type_name(), "this is not a config.json", ""});
  }
  if (const Wrapper* wrapper = find_wrapper(string_or(file, "model_type", "", where))) {
    const Json text = text_config_of(file, *wrapper, where);
    if (find_wrapper(string_or(text, "model_type", "", where)) != nullptr)
      wrong_type(where, "text_config.model_type", "a text model's", text.at("model_type"));
    ModelConfig config = parse_model_config(text, where + ": text_config");
    config.wrapped = true;
    config.json = file;
    return config;
  }
  const std::string type = string_or(file, "model_type", "", where);
  const FamilyTraits& family = family_or_refuse(type, "model_type", where);
  const Json json = with_other_keys(file, family);
  ModelConfig c;
  c.family = family.family;
  c.vocab_size = positive(json, "vocab_size", where);
  c.hidden_size = positive(json, "hidden_size", where);
  c.intermediate_size = positive(json, "intermediate_size", where);
  c.num_hidden_layers = positive(json, "num_hidden_layers", where, INT64_MAX);
  if (c.num_hidden_layers > kMaxLayers) {
    throw UserError({where, "at most " + std::to_string(kMaxLayers) + " layers",
                     std::to_string(c.num_hidden_layers), "the file is damaged", ""});
  }
  c.num_attention_heads = positive(json, "num_attention_heads", where);
  c.num_key_value_heads = lookup(json, "num_key_value_heads") == nullptr
                              ? c.num_attention_heads
                              : positive(json, "num_key_value_heads", where);
  if (lookup(json, "head_dim") != nullptr) {
    c.head_dim = positive(json, "head_dim", where);
  } else if (family.default_head_dim > 0) {
    c.head_dim = family.default_head_dim;
  } else if (c.hidden_size % c.num_attention_heads == 0) {
    c.head_dim = c.hidden_size / c.num_attention_heads;
  } else {
    throw UserError({where, "hidden_size as a multiple of num_attention_heads, or a head_dim",
                     std::to_string(c.hidden_size) + " and " + std::to_string(c.num_attention_heads), "",
                     ""});
  }
  c.max_position_embeddings = int_or(json, "max_position_embeddings", family.default_max_position, where);
  if (c.max_position_embeddings <= 0 || c.max_position_embeddings > kMaxInt32)
    wrong_type(where, "max_position_embeddings", "a positive integer below 2^31", c.max_position_embeddings);
  c.rms_norm_eps = float_or(json, "rms_norm_eps", 1e-6, where);
  if (!(c.rms_norm_eps >= 0 && c.rms_norm_eps <= 1))
    wrong_type(where, "rms_norm_eps", "a number from 0 to 1", c.rms_norm_eps);
  if (family.read_heads != nullptr) family.read_heads(json, where, c);
  parse_rope(json, where, family, c);
  const bool attention_bias = bool_or(json, "attention_bias", false, where);
  const bool mlp_bias = bool_or(json, "mlp_bias", false, where);
  take_traits(family, attention_bias, mlp_bias, c);
  c.tie_word_embeddings = bool_or(json, "tie_word_embeddings", family.default_tied_head, where);
  c.eos_token_ids = token_ids(json, "eos_token_id", where);
  if (const auto ids = token_ids(json, "bos_token_id", where); !ids.empty()) c.bos_token_id = ids.front();
  if (const auto ids = token_ids(json, "pad_token_id", where); !ids.empty()) c.pad_token_id = ids.front();
  const bool pads = family.default_pad >= 0 && family.default_pad < c.vocab_size;
  if (pads && !json.contains("pad_token_id")) c.pad_token_id = family.default_pad;
  c.json = json;
  check_heads(c, where);
  refuse_unsupported(json, where, family);
  if (family.read_fields != nullptr) family.read_fields(json, where, c);
  parse_windows(json, where, family, c);
  if (family.windows == WindowRule::kPattern) rotate_windows_locally(c);
  if (family.read_layers != nullptr) family.read_layers(json, where, c);
  return c;
}

}  // namespace hone::model
