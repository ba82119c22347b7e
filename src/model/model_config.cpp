#include "model/model_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "model/families.h"

namespace hone::model {
namespace {

using base::Json;
using base::UserError;

// Far above any model: a lying file must not cost memory, and products of these stay within 64 bits.
constexpr std::int64_t kMaxLayers = 10000;
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 24;  // rows or columns of a matrix
constexpr double kMaxWeights = 1e13;
constexpr std::int64_t kMaxInt32 = 0x7FFFFFFF;             // positions, token ids
constexpr double kLeastFactor = 1e-12, kMaxFactor = 1e30;  // of what scales positions: fp32 holds them

// The value of `key`, or nullptr when it is absent or null: transformers treats both alike.
const Json* lookup(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it == json.end() || it->is_null() ? nullptr : &*it;
}

[[noreturn]] void wrong_type(const std::string& where, const std::string& key, const char* expected,
                             const Json& v) {
  throw UserError({where, key + " as " + expected, base::short_json(v), "the file was edited by hand", ""});
}

std::int64_t int_or(const Json& json, const char* key, std::int64_t fallback, const std::string& where) {
  const Json* v = lookup(json, key);
  if (v == nullptr) return fallback;
  if (!v->is_number_integer()) wrong_type(where, key, "an integer", *v);
  const bool fits = !v->is_number_unsigned() || v->get<std::uint64_t>() <= std::uint64_t{INT64_MAX};
  if (!fits) wrong_type(where, key, "an integer below 2^63", *v);
  return v->get<std::int64_t>();
}

std::int64_t positive(const Json& json, const char* key, const std::string& where,
                      std::int64_t most = kMaxExtent) {
  const Json* v = lookup(json, key);
  if (v == nullptr) {
    throw UserError({where, std::string("the field ") + key, "no such field",
                     "this is not the config.json of a causal language model",
                     "use the folder of the whole model"});
  }
  const std::int64_t n = int_or(json, key, 0, where);
  if (n <= 0) wrong_type(where, key, "a positive integer", *v);
  if (n > most) {
    throw UserError({where, std::string(key) + " of at most " + std::to_string(most), std::to_string(n),
                     "the file is damaged", ""});
  }
  return n;
}

double float_or(const Json& json, const char* key, double fallback, const std::string& where) {
  const Json* v = lookup(json, key);
  if (v == nullptr) return fallback;
  if (!v->is_number()) wrong_type(where, key, "a number", *v);
  return v->get<double>();
}

bool bool_or(const Json& json, const char* key, bool fallback, const std::string& where) {
  const Json* v = lookup(json, key);
  if (v == nullptr) return fallback;
  if (!v->is_boolean()) wrong_type(where, key, "true or false", *v);
  return v->get<bool>();
}

std::string string_or(const Json& json, const char* key, const std::string& fallback,
                      const std::string& where) {
  const Json* v = lookup(json, key);
  if (v == nullptr) return fallback;
  if (!v->is_string()) wrong_type(where, key, "a string", *v);
  return v->get<std::string>();
}

const FamilyTraits& family_or_refuse(const std::string& type, const std::string& field,
                                     const std::string& where) {
  if (const FamilyTraits* f = find_family(type)) return *f;
  std::vector<std::string> known;
  for (const FamilyTraits& f : families()) known.emplace_back(f.model_type);
  throw UserError({where, field + " to be one of " + known_families(),
                   "'" + base::cut_text(type, 200) + "'." + base::did_you_mean(type, known),
                   "hone does not have this architecture yet", "use a model of one of these families"});
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

double positive_float(const Json& json, const char* key, const std::string& where) {
  const Json* v = lookup(json, key);
  if (v == nullptr) {
    throw UserError({where, std::string("the field ") + key + " of the rope scaling", "no such field",
                     "an incomplete rope_scaling or rope_parameters", ""});
  }
  const double x = float_or(json, key, 0, where);
  if (!(x >= kLeastFactor && x <= kMaxFactor)) wrong_type(where, key, "a positive number", *v);
  return x;
}

// rope_parameters (transformers 5), else rope_theta and rope_scaling (before).
void parse_rope(const Json& json, const std::string& where, ModelConfig& config) {
  config.rope_theta = float_or(json, "rope_theta", 10000.0, where);
  const Json* rope = lookup(json, "rope_parameters");
  if (rope == nullptr) rope = lookup(json, "rope_scaling");
  if (float_or(json, "partial_rotary_factor", 1.0, where) != 1.0) {
    throw UserError({where, "partial_rotary_factor 1", base::short_json(json.at("partial_rotary_factor")),
                     "this model rotates only part of each head, which hone does not do yet", ""});
  }
  if (rope != nullptr) {
    if (!rope->is_object()) wrong_type(where, "rope_parameters / rope_scaling", "an object", *rope);
    config.rope_theta = float_or(*rope, "rope_theta", config.rope_theta, where);
    if (float_or(*rope, "partial_rotary_factor", 1.0, where) != 1.0) {
      throw UserError({where, "partial_rotary_factor 1", base::short_json(*rope),
                       "this model rotates only part of each head, which hone does not do yet", ""});
    }
    const std::string type = string_or(*rope, "rope_type", string_or(*rope, "type", "default", where), where);
    if (type == "linear") {
      config.rope_linear_factor = positive_float(*rope, "factor", where);
    } else if (type == "llama3") {
      Llama3Rope scaling;
      scaling.factor = positive_float(*rope, "factor", where);
      scaling.low_freq_factor = positive_float(*rope, "low_freq_factor", where);
      scaling.high_freq_factor = positive_float(*rope, "high_freq_factor", where);
      scaling.original_max_position_embeddings =
          positive_float(*rope, "original_max_position_embeddings", where);
      if (scaling.high_freq_factor <= scaling.low_freq_factor) {
        throw UserError({where, "high_freq_factor above low_freq_factor", base::short_json(*rope), "", ""});
      }
      config.rope_llama3 = scaling;
    } else if (type != "default") {
      throw UserError({where, "rope_type default, linear or llama3", "'" + base::cut_text(type, 200) + "'",
                       "hone does not have this rope scaling yet", "use a model without it"});
    }
  }
  if (!(config.rope_theta >= kLeastFactor && config.rope_theta <= kMaxFactor)) {
    throw UserError({where, "a positive rope_theta", std::to_string(config.rope_theta), "", ""});
  }
}

// Everything in the file that would change the numbers and that hone does not compute.
void refuse_unsupported(const Json& json, const std::string& where, const ModelConfig& config) {
  const std::string act = string_or(json, "hidden_act", "silu", where);
  if (act != "silu" && act != "swish") {
    throw UserError({where, "hidden_act silu", "'" + base::cut_text(act, 200) + "'",
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
  if (float_or(json, "attention_dropout", 0.0, where) != 0.0) {
    throw UserError({where, "attention_dropout 0", base::short_json(json.at("attention_dropout")),
                     "hone does not drop attention weights", "set attention_dropout to 0 in the file"});
  }
  const bool window_given = lookup(json, "sliding_window") != nullptr;
  bool sliding = false;
  if (const Json* types = lookup(json, "layer_types")) {
    for (const Json& t : *types) {
      if (!t.is_string()) wrong_type(where, "layer_types", "a list of strings", *types);
      const std::string type = t.get<std::string>();
      if (type == "sliding_attention") {
        sliding = true;
      } else if (type != "full_attention") {
        throw UserError({where, "layer_types full_attention", "'" + base::cut_text(type, 200) + "'",
                         "hone does not have this kind of layer", ""});
      }
    }
  } else if (bool_or(json, "use_sliding_window", false, where)) {
    sliding = int_or(json, "max_window_layers", 28, where) < config.num_hidden_layers;
  }
  if (sliding && window_given) {
    throw UserError(
        {where, "full attention in every layer",
         "sliding_window " + base::short_json(json.at("sliding_window")) + " in use",
         "hone does not have sliding windows yet",
         "for texts shorter than the window set use_sliding_window to false and layer_types to null"});
  }
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

ModelConfig parse_model_config(const Json& json, const std::string& where) {
  if (!json.is_object()) {
    throw UserError({where, "a JSON object", json.type_name(), "this is not a config.json", ""});
  }
  const std::string type = string_or(json, "model_type", "", where);
  const FamilyTraits& family = family_or_refuse(type, "model_type", where);
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
  parse_rope(json, where, c);
  const bool attention_bias = bool_or(json, "attention_bias", false, where);
  const bool mlp_bias = bool_or(json, "mlp_bias", false, where);
  c.qkv_bias = resolve(family.qkv_bias, attention_bias, mlp_bias);
  c.o_bias = resolve(family.o_bias, attention_bias, mlp_bias);
  c.mlp_bias = resolve(family.mlp_bias, attention_bias, mlp_bias);
  c.qk_norm = family.qk_norm;
  c.tie_word_embeddings = bool_or(json, "tie_word_embeddings", false, where);
  c.eos_token_ids = token_ids(json, "eos_token_id", where);
  if (const auto ids = token_ids(json, "bos_token_id", where); !ids.empty()) c.bos_token_id = ids.front();
  if (const auto ids = token_ids(json, "pad_token_id", where); !ids.empty()) c.pad_token_id = ids.front();
  c.json = json;
  check_heads(c, where);
  refuse_unsupported(json, where, c);
  return c;
}

}  // namespace hone::model
