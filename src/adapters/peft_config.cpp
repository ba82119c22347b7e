// adapter_config.json: PEFT's LoraConfig as hone's, and back.
#include <algorithm>
#include <cmath>
#include <set>
#include <type_traits>

#include "adapters/config_keys.h"
#include "adapters/peft_files.h"
#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/utf8.h"

namespace hone::adapters {
namespace {

using base::Json;
using base::UserError;

constexpr const char* kPeftVersion = "0.21.2";
constexpr double kMaxAlpha = 1e9;  // a scale that fp32 and its products with weights hold

bool is_empty(const Json& v) {
  return v.is_null() || v == Json(false) || v == Json("none") ||
         ((v.is_object() || v.is_array()) && v.empty());
}

// Keys with a value that hone does not apply.
void refuse_unread(const Json& json, const std::string& where) {
  for (const auto& [key, value] : json.items()) {
    const base::ReadKey* row = adapter_config_keys().find(key);
    if ((row != nullptr && row->use != base::KeyUse::kRefused) || is_empty(value)) continue;
    const std::string name = base::cut_text(key, 200);
    throw UserError(
        {where + ": " + name, "nothing, false or none", base::short_json(value),
         row != nullptr ? std::string(row->why)
                        : "an option of a newer PEFT, or of another program, that hone does not know: the "
                          "result might differ",
         row != nullptr ? "merge the adapter with PEFT, or train it without " + name
                        : "remove the key where it changes nothing, or merge the adapter with PEFT"});
  }
}

[[noreturn]] void wrong(const std::string& where, const std::string& key, const std::string& expected,
                        const Json& v) {
  throw UserError({where + ": " + key, expected, base::short_json(v), "", ""});
}

double number_or(const Json& json, const char* key, double fallback, const std::string& where) {
  const Json& value = adapter_config_keys().at(json, key);
  if (value.is_null()) return fallback;
  if (!value.is_number()) wrong(where, key, "a number", value);
  return value.get<double>();
}

bool bool_or(const Json& json, const char* key, bool fallback, const std::string& where) {
  const Json& value = adapter_config_keys().at(json, key);
  if (value.is_null()) return fallback;
  if (!value.is_boolean()) wrong(where, key, "true or false", value);
  return value.get<bool>();
}

// target_modules and exclude_modules: a list of names, or one string that is a regex.
void read_names(const Json& json, const char* key, const std::string& where, std::vector<std::string>& names,
                bool& is_regex) {
  const Json& value = adapter_config_keys().at(json, key);
  if (value.is_null()) return;
  if (value.is_string()) {
    names = {value.get<std::string>()};
    is_regex = true;
    return;
  }
  if (!value.is_array()) wrong(where, key, "a list of names or one regular expression", value);
  for (const Json& name : value) {
    if (!name.is_string()) wrong(where, key, "a list of names or one regular expression", value);
    names.push_back(name.get<std::string>());
  }
}

LoraInit read_init(const Json& json, const std::string& where) {
  const Json& init = adapter_config_keys().at(json, "init_lora_weights");
  if (init.is_null() || init == Json(true)) return LoraInit::kTrue;
  if (init == Json(false)) return LoraInit::kFalse;
  if (init == Json("gaussian")) return LoraInit::kGaussian;
  // These start from other numbers but leave the base model as it is: the file's weights are all there is to
  // know.
  if (init == Json("eva") || init == Json("orthogonal")) return LoraInit::kTrue;
  throw UserError(
      {where + ": init_lora_weights", "true, false or gaussian", base::short_json(init),
       "this initialization changes the base model's weights, so that the adapter is not sufficient without "
       "them",
       "convert it with PEFT: save_pretrained(..., path_initial_model_for_weight_conversion=...)"});
}

// A whole number where it is one, as Python writes an int.
Json number_json(double value) {
  const bool integral = value == std::floor(value) && std::abs(value) < 1e15;
  return integral ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

bool is_rank(const Json& value) {
  return value.is_number_integer() && value >= 1 && value <= 1'000'000;
}

// modules_to_save: whether score, the head of a reward model (task_type SEQ_CLS, or none), is among them; the others
// into the config.
void read_saved_modules(const Json& json, const std::string& where, LoraConfig& config) {
  const Json task = adapter_config_keys().at(json, "task_type"),
             saved = adapter_config_keys().at(json, "modules_to_save");
  const bool classifies = task == Json("SEQ_CLS");
  if (!task.is_null() && task != Json("CAUSAL_LM") && !classifies)
    wrong(where, "task_type", "CAUSAL_LM, or SEQ_CLS of a reward model", task);
  bool has_name_of_head = false;
  const bool none = is_empty(saved) || saved == Json("");
  for (const Json& name : none ? Json::array() : saved.is_array() ? saved : Json::array({saved})) {
    if (!name.is_string() || name == Json("")) wrong(where, "modules_to_save", "a list of names", saved);
    has_name_of_head = has_name_of_head || name == Json("score") || name == Json("classifier");
    config.score_head = config.score_head || name == Json("score");
    if (name != Json("score") && name != Json("classifier"))
      config.modules_to_save.push_back(name.get<std::string>());
  }
  if ((classifies || has_name_of_head) && !config.score_head)
    wrong(where, "modules_to_save", classifies ? "score with task_type SEQ_CLS" : "score among them", saved);
}

// {"layers.0.self_attn.q_proj": 8, ...}
template <typename Value>
std::vector<std::pair<std::string, Value>> read_pattern(const Json& json, const char* key,
                                                        const std::string& where) {
  std::vector<std::pair<std::string, Value>> out;
  const Json pattern = adapter_config_keys().at(json, key);
  if (is_empty(pattern)) return out;
  if (!pattern.is_object()) wrong(where, key, "a mapping of names to numbers", pattern);
  for (const auto& [name, value] : pattern.items()) {
    const bool fits = value.is_number() &&
                      (std::is_same_v<Value, double> ? std::abs(value.template get<double>()) <= kMaxAlpha
                                                     : is_rank(value));
    if (!fits) wrong(where, key, "a mapping of names to numbers", pattern);
    out.emplace_back(name, value.template get<Value>());
  }
  return out;
}

void read_layers(const Json& json, const std::string& where, LoraConfig& config) {
  const Json layers = adapter_config_keys().at(json, "layers_to_transform");
  if (!is_empty(layers)) {
    for (const Json& layer : layers.is_array() ? layers : Json::array({layers})) {
      if (!layer.is_number_integer()) wrong(where, "layers_to_transform", "numbers of layers", layers);
      config.layers_to_transform.push_back(layer.get<std::int64_t>());
    }
  }
  const Json pattern = adapter_config_keys().at(json, "layers_pattern");
  if (is_empty(pattern) || pattern == Json("")) return;
  for (const Json& name : pattern.is_array() ? pattern : Json::array({pattern})) {
    if (!name.is_string()) wrong(where, "layers_pattern", "names of lists of layers", pattern);
    config.layers_pattern.push_back(name.get<std::string>());
  }
}

TrainedBias read_bias(const Json& json, const std::string& where) {
  const Json bias = adapter_config_keys().at(json, "bias");
  if (is_empty(bias)) return TrainedBias::kNone;
  if (bias == Json("all")) return TrainedBias::kAll;
  if (bias == Json("lora_only")) return TrainedBias::kLoraOnly;
  wrong(where, "bias", "none, all or lora_only", bias);
}

// With ensure_weight_tying PEFT trains one matrix for a tied embedding and head; hone trains them apart.
void require_apart(const Json& json, const std::string& where, const LoraConfig& config) {
  if (adapter_config_keys().at(json, "ensure_weight_tying") != Json(true)) return;
  std::vector<std::string> names = config.target_modules;
  names.insert(names.end(), config.modules_to_save.begin(), config.modules_to_save.end());
  for (const std::string& name : names) {
    if (!name.ends_with("embed_tokens") && !name.ends_with("lm_head")) continue;
    throw UserError({where + ": ensure_weight_tying", "false, with " + name + " trained", "true",
                     "hone trains a tied head and the embedding apart, as PEFT does without this option",
                     "merge the adapter with PEFT"});
  }
}

template <typename Value>
Json pattern_json(const std::vector<std::pair<std::string, Value>>& rows) {
  Json out = Json::object();
  for (const auto& [name, value] : rows) {
    if constexpr (std::is_same_v<Value, double>) {
      out[name] = number_json(value);
    } else {
      out[name] = value;
    }
  }
  return out;
}

Json saved_modules_json(const LoraConfig& c) {
  std::vector<std::string> names = c.modules_to_save;
  // PEFT adds both of its names for such a head to every SEQ_CLS adapter.
  if (c.score_head) names.insert(names.end(), {"classifier", "score"});
  return names.empty() ? Json(nullptr) : Json(names);
}

Json list_json(const auto& values) {
  return values.empty() ? Json(nullptr) : Json(values);
}

bool is_module(const std::string& name, const std::string& module) {
  return name == module || name.ends_with("." + module);
}

// A list of token ids, or a mapping of the embedding's name to one, and of the head's to the same. PEFT finds
// modules by the end of a name.
void read_token_indices(const Json& json, const std::string& where, LoraConfig& config) {
  constexpr const char* kKey = "trainable_token_indices";
  const Json value = adapter_config_keys().at(json, kKey);
  if (is_empty(value)) return;
  const auto bad = [&]() {
    wrong(where, kKey, "a list of token ids, or a mapping of embed_tokens to one", value);
  };
  Json ids = value;
  if (value.is_object()) {
    ids = nullptr;
    Json of_head;
    for (const auto& [name, rows] : value.items()) {
      if (is_module(name, "embed_tokens") && ids.is_null()) {
        config.token_module = name;
        ids = rows;
      } else if (is_module(name, "lm_head") && of_head.is_null()) {
        of_head = rows;
      } else {
        of_head = false;
      }
    }
    config.tokens_of_head = !of_head.is_null();
    if (ids.is_null() || (config.tokens_of_head && of_head != ids)) {
      throw UserError({where + ": " + kKey, "rows of embed_tokens, or the same rows of it and of lm_head",
                       base::short_json(value),
                       "only a tied head has trainable rows in hone, those of the embedding",
                       "train the adapter only on embed_tokens"});
    }
  }
  if (!ids.is_array() || ids.empty()) bad();
  for (const Json& id : ids) {
    if (!id.is_number_integer()) bad();
    config.token_indices.push_back(id.get<std::int64_t>());
  }
}

Json token_indices_json(const LoraConfig& config) {
  if (config.token_indices.empty()) return nullptr;
  if (config.token_module.empty()) return config.token_indices;
  Json out = {{config.token_module, config.token_indices}};
  if (config.tokens_of_head) out["lm_head"] = config.token_indices;
  return out;
}

Json names_json(const std::vector<std::string>& names, bool is_regex) {
  if (names.empty()) return nullptr;
  if (is_regex) return names.front();
  return names;
}

}  // namespace

Json config_to_json(const LoraConfig& c) {
  const Json init = c.init == LoraInit::kGaussian ? Json("gaussian") : Json(c.init == LoraInit::kTrue);
  Json json;
  json["alora_invocation_tokens"] = nullptr;
  json["alpha_pattern"] = pattern_json(c.alpha_pattern);
  json["arrow_config"] = nullptr;
  json["auto_mapping"] = nullptr;
  json["base_model_name_or_path"] = c.base_model_name_or_path;
  json["bias"] = c.bias == TrainedBias::kAll        ? "all"
                 : c.bias == TrainedBias::kLoraOnly ? "lora_only"
                                                    : "none";
  json["corda_config"] = nullptr;
  json["ensure_weight_tying"] = false;
  json["eva_config"] = nullptr;
  json["exclude_modules"] = names_json(c.exclude_modules, c.exclude_is_regex);
  json["fan_in_fan_out"] = false;
  json["inference_mode"] = true;
  json["init_lora_weights"] = init;
  json["kasa_config"] = nullptr;
  json["layer_replication"] = nullptr;
  json["layers_pattern"] = list_json(c.layers_pattern);
  json["layers_to_transform"] = list_json(c.layers_to_transform);
  json["loftq_config"] = Json::object();
  json["lora_alpha"] = number_json(c.alpha);
  json["lora_bias"] = false;
  json["lora_dropout"] = c.dropout;
  json["lora_ga_config"] = nullptr;
  json["megatron_config"] = nullptr;
  json["megatron_core"] = "megatron.core";
  json["modules_to_save"] = saved_modules_json(c);
  json["monteclora_config"] = nullptr;
  json["peft_type"] = "LORA";
  json["peft_version"] = kPeftVersion;
  json["qalora_group_size"] = 16;
  json["r"] = c.r;
  json["rank_pattern"] = pattern_json(c.rank_pattern);
  json["revision"] = nullptr;
  json["target_modules"] = names_json(c.target_modules, c.target_is_regex);
  json["target_parameters"] = list_json(c.target_parameters);
  json["task_type"] = c.score_head ? "SEQ_CLS" : "CAUSAL_LM";
  json["trainable_token_indices"] = token_indices_json(c);
  json["use_bdlora"] = nullptr;
  json["use_dora"] = c.dora;
  json["use_qalora"] = false;
  json["use_rslora"] = c.rslora;
  json["velora_config"] = nullptr;
  return json;
}

LoraConfig config_from_json(const Json& json, const std::string& where) {
  if (!json.is_object()) throw UserError({where, "a JSON object", json.type_name(), "", ""});
  const std::string type =
      json.contains("peft_type") && json["peft_type"].is_string() ? json["peft_type"] : "none";
  if (type != "LORA") {
    throw UserError({where + ": peft_type", "LORA", "'" + base::cut_text(type, 200) + "'",
                     "hone reads no other kind of adapter", ""});
  }
  LoraConfig c;
  read_saved_modules(json, where, c);
  refuse_unread(json, where);
  const double rank = number_or(json, "r", 8, where);
  if (!(rank >= 1 && rank <= 1e6 && rank == std::floor(rank)))
    wrong(where, "r", "a positive integer", json["r"]);
  c.r = static_cast<std::int64_t>(rank);
  c.alpha = number_or(json, "lora_alpha", 8, where);
  if (!(std::abs(c.alpha) <= kMaxAlpha))
    wrong(where, "lora_alpha", "a number of at most 1e9", json["lora_alpha"]);
  c.dropout = number_or(json, "lora_dropout", 0, where);
  if (!(c.dropout >= 0 && c.dropout < 1))
    wrong(where, "lora_dropout", "a number from 0 to below 1", json["lora_dropout"]);
  c.rslora = bool_or(json, "use_rslora", false, where);
  c.dora = bool_or(json, "use_dora", false, where);
  read_names(json, "target_modules", where, c.target_modules, c.target_is_regex);
  read_names(json, "exclude_modules", where, c.exclude_modules, c.exclude_is_regex);
  bool one_text = false;
  read_names(json, "target_parameters", where, c.target_parameters, one_text);
  if (one_text) wrong(where, "target_parameters", "a list of names", json["target_parameters"]);
  c.rank_pattern = read_pattern<std::int64_t>(json, "rank_pattern", where);
  c.alpha_pattern = read_pattern<double>(json, "alpha_pattern", where);
  read_layers(json, where, c);
  c.bias = read_bias(json, where);
  require_apart(json, where, c);
  read_token_indices(json, where, c);
  c.init = read_init(json, where);
  if (json.contains("base_model_name_or_path") && json["base_model_name_or_path"].is_string()) {
    c.base_model_name_or_path = json["base_model_name_or_path"].get<std::string>();
  }
  return c;
}

// PEFT takes all of these, and fails in the first forward or trains a row twice.
void check_token_indices(const LoraConfig& config, const model::ModelConfig& model,
                         const std::string& where) {
  if (config.tokens_of_head && !model.tie_word_embeddings) {
    throw UserError({where, "rows of embed_tokens only, of a model whose head is not tied",
                     "rows of lm_head too",
                     "hone trains and applies rows of the embedding, not of an untied head",
                     "merge the adapter with PEFT"});
  }
  std::set<std::int64_t> seen;
  for (const std::int64_t id : config.token_indices) {
    const bool inside = id >= 0 && id < model.vocab_size;
    if (inside && seen.insert(id).second) continue;
    throw UserError({where, "distinct token ids from 0 to " + std::to_string(model.vocab_size - 1),
                     std::to_string(id) + (inside ? " twice" : ""),
                     inside ? "" : "the embedding has no such row", "take it out of the list"});
  }
}

}  // namespace hone::adapters
