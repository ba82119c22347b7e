#include "adapters/peft_files.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/safetensors.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "model/families.h"

namespace hone::adapters {
namespace {

using base::Json;
using base::UserError;

constexpr const char* kPeftVersion = "0.21.2";
constexpr double kMaxAlpha = 1e9;  // a scale that fp32 and its products with weights hold

// Keys that hone reads, and those that change nothing when an adapter is used.
const std::set<std::string>& understood() {
  static const std::set<std::string> keys = {
      "auto_mapping", "base_model_name_or_path", "exclude_modules", "inference_mode", "init_lora_weights",
      "lora_alpha", "lora_dropout", "megatron_core", "peft_type", "peft_version", "qalora_group_size", "r",
      "revision", "runtime_config", "target_modules", "task_type", "use_dora", "use_rslora",
      "modules_to_save",          // a reward model's head alone: read_score_head
      "trainable_token_indices",  // of the embedding alone: read_token_indices
      // how an adapter was begun; its saved weights already hold the outcome (init_lora_weights says if the
      // base changed)
      "corda_config", "eva_config", "loftq_config", "lora_ga_config",
      // which layers it was put on: the saved tensors say so themselves
      "layers_pattern", "layers_to_transform", "ensure_weight_tying"};
  return keys;
}

bool is_empty(const Json& v) {
  return v.is_null() || v == Json(false) || v == Json("none") ||
         ((v.is_object() || v.is_array()) && v.empty());
}

[[noreturn]] void wrong(const std::string& where, const std::string& key, const std::string& expected,
                        const Json& v) {
  throw UserError({where + ": " + key, expected, base::short_json(v), "", ""});
}

double number_or(const Json& json, const char* key, double fallback, const std::string& where) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return fallback;
  if (!it->is_number()) wrong(where, key, "a number", *it);
  return it->get<double>();
}

bool bool_or(const Json& json, const char* key, bool fallback, const std::string& where) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return fallback;
  if (!it->is_boolean()) wrong(where, key, "true or false", *it);
  return it->get<bool>();
}

// target_modules and exclude_modules: a list of names, or one string that is a regex.
void read_names(const Json& json, const char* key, const std::string& where, std::vector<std::string>& names,
                bool& is_regex) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return;
  if (it->is_string()) {
    names = {it->get<std::string>()};
    is_regex = true;
    return;
  }
  if (!it->is_array()) wrong(where, key, "a list of names or one regular expression", *it);
  for (const Json& name : *it) {
    if (!name.is_string()) wrong(where, key, "a list of names or one regular expression", *it);
    names.push_back(name.get<std::string>());
  }
}

LoraInit read_init(const Json& json, const std::string& where) {
  const auto it = json.find("init_lora_weights");
  if (it == json.end() || it->is_null() || *it == Json(true)) return LoraInit::kTrue;
  if (*it == Json(false)) return LoraInit::kFalse;
  if (*it == Json("gaussian")) return LoraInit::kGaussian;
  // These start from other numbers but leave the base model as it is: the file's weights are all there is to
  // know.
  if (*it == Json("eva") || *it == Json("orthogonal")) return LoraInit::kTrue;
  throw UserError(
      {where + ": init_lora_weights", "true, false or gaussian", base::short_json(*it),
       "this initialization changes the base model's weights, so that the adapter is not sufficient without "
       "them",
       "convert it with PEFT: save_pretrained(..., path_initial_model_for_weight_conversion=...)"});
}

// Whether it is a reward model's: SEQ_CLS (or no task), with the score head saved whole.
bool read_score_head(const Json& json, const std::string& where) {
  const Json task = json.value("task_type", Json(nullptr)),
             saved = json.value("modules_to_save", Json(nullptr));
  if (!task.is_null() && task != Json("CAUSAL_LM") && task != Json("SEQ_CLS"))
    wrong(where, "task_type", "CAUSAL_LM, or SEQ_CLS of a reward model", task);
  if (is_empty(saved)) {
    if (task == Json("SEQ_CLS")) wrong(where, "modules_to_save", "score with task_type SEQ_CLS", saved);
    return false;
  }
  bool score = false;
  for (const Json& name : saved.is_array() ? saved : Json::array({saved})) {
    score = score || name == Json("score");
    if (name == Json("score") || name == Json("classifier")) continue;
    throw UserError({where + ": modules_to_save", "nothing, or score of a reward model",
                     base::short_json(saved),
                     "the adapter uses an option that hone does not have, and the result would differ",
                     "train the adapter without modules_to_save"});
  }
  if (!score) wrong(where, "modules_to_save", "score among them", saved);
  return true;
}

// A list of token ids, or a mapping of the embedding's name to one. PEFT finds modules by the end of a name.
void read_token_indices(const Json& json, const std::string& where, LoraConfig& config) {
  constexpr const char* kKey = "trainable_token_indices";
  const Json value = json.value(kKey, Json(nullptr));
  if (is_empty(value)) return;
  const auto bad = [&]() {
    wrong(where, kKey, "a list of token ids, or a mapping of embed_tokens to one", value);
  };
  const Json* ids = &value;
  if (value.is_object()) {
    config.token_module = value.begin().key();
    ids = &value.begin().value();
    const bool embedding =
        config.token_module == "embed_tokens" || config.token_module.ends_with(".embed_tokens");
    if (value.size() != 1 || !embedding) {
      throw UserError({where + ": " + kKey, "only rows of embed_tokens", base::short_json(value),
                       "an untied head has no trainable rows in hone; a tied head has those of the embedding "
                       "without being named",
                       "train the adapter only on embed_tokens"});
    }
  }
  if (!ids->is_array() || ids->empty()) bad();
  for (const Json& id : *ids) {
    if (!id.is_number_integer()) bad();
    config.token_indices.push_back(id.get<std::int64_t>());
  }
}

Json token_indices_json(const LoraConfig& config) {
  if (config.token_indices.empty()) return nullptr;
  if (config.token_module.empty()) return config.token_indices;
  return {{config.token_module, config.token_indices}};
}

Json names_json(const std::vector<std::string>& names, bool is_regex) {
  if (names.empty()) return nullptr;
  if (is_regex) return names.front();
  return names;
}

at::Tensor read_fp32(const base::StoredTensor& stored, const std::string& where) {
  at::ScalarType type = at::kFloat;
  if (stored.dtype == base::DType::kBF16) {
    type = at::kBFloat16;
  } else if (stored.dtype == base::DType::kF16) {
    type = at::kHalf;
  } else if (stored.dtype != base::DType::kF32) {
    throw UserError({where + ": " + base::cut_text(stored.name, 200), "F32, F16 or BF16",
                     std::string(base::safetensors_name(stored.dtype)), "not a LoRA that PEFT wrote", ""});
  }
  const at::Tensor raw = at::empty(stored.shape, type);
  if (!stored.bytes.empty()) std::memcpy(raw.mutable_data_ptr(), stored.bytes.data(), stored.bytes.size());
  return raw.to(at::kFloat);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

at::Tensor take(const base::SafetensorsFile& file, const std::string& key,
                const std::vector<std::int64_t>& expected, const std::string& where) {
  const base::StoredTensor* stored = file.find(key);
  if (stored == nullptr) {
    throw UserError({where, "the tensor " + key + " (CKPT-01)", "no such tensor",
                     "the adapter belongs to another model or is incomplete",
                     "check base_model_name_or_path in " + std::string(kConfigFile)});
  }
  if (stored->shape != expected) {
    throw UserError(
        {where + ": " + key, "the shape " + shape_text(expected), shape_text(stored->shape),
         "the adapter belongs to another model, or r in its config is not the one it was trained with",
         "check base_model_name_or_path and r in " + std::string(kConfigFile)});
  }
  return read_fp32(*stored, where);
}

}  // namespace

std::string key_a(const std::string& module) {
  return "base_model.model." + module + ".lora_A.weight";
}
std::string key_b(const std::string& module) {
  return "base_model.model." + module + ".lora_B.weight";
}

std::string key_magnitude(const std::string& module) {
  return "base_model.model." + module + ".lora_magnitude_vector";
}

std::string key_token_rows(const model::ModelConfig& model) {
  return "base_model.model." + std::string(model::traits_of(model.family).names.embedding.hf) +
         kTokenRowsSuffix;
}

Json config_to_json(const LoraConfig& c) {
  const Json init = c.init == LoraInit::kGaussian ? Json("gaussian") : Json(c.init == LoraInit::kTrue);
  const bool integral = c.alpha == std::floor(c.alpha) && std::abs(c.alpha) < 1e15;
  const Json alpha = integral ? Json(static_cast<std::int64_t>(c.alpha)) : Json(c.alpha);
  Json json;
  json["alora_invocation_tokens"] = nullptr;
  json["alpha_pattern"] = Json::object();
  json["arrow_config"] = nullptr;
  json["auto_mapping"] = nullptr;
  json["base_model_name_or_path"] = c.base_model_name_or_path;
  json["bias"] = "none";
  json["corda_config"] = nullptr;
  json["ensure_weight_tying"] = false;
  json["eva_config"] = nullptr;
  json["exclude_modules"] = names_json(c.exclude_modules, c.exclude_is_regex);
  json["fan_in_fan_out"] = false;
  json["inference_mode"] = true;
  json["init_lora_weights"] = init;
  json["kasa_config"] = nullptr;
  json["layer_replication"] = nullptr;
  json["layers_pattern"] = nullptr;
  json["layers_to_transform"] = nullptr;
  json["loftq_config"] = Json::object();
  json["lora_alpha"] = alpha;
  json["lora_bias"] = false;
  json["lora_dropout"] = c.dropout;
  json["lora_ga_config"] = nullptr;
  json["megatron_config"] = nullptr;
  json["megatron_core"] = "megatron.core";
  // PEFT adds both of its names for such a head to every SEQ_CLS adapter.
  json["modules_to_save"] = c.score_head ? Json::array({"classifier", "score"}) : Json(nullptr);
  json["monteclora_config"] = nullptr;
  json["peft_type"] = "LORA";
  json["peft_version"] = kPeftVersion;
  json["qalora_group_size"] = 16;
  json["r"] = c.r;
  json["rank_pattern"] = Json::object();
  json["revision"] = nullptr;
  json["target_modules"] = names_json(c.target_modules, c.target_is_regex);
  json["target_parameters"] = nullptr;
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
  const bool score_head = read_score_head(json, where);
  for (const auto& [key, value] : json.items()) {
    if (understood().contains(key) || is_empty(value)) continue;
    throw UserError({where + ": " + base::cut_text(key, 200), "nothing, false or none",
                     base::short_json(value),
                     "the adapter uses an option that hone does not have, and the result would differ",
                     "train the adapter without " + base::cut_text(key, 200)});
  }
  LoraConfig c;
  c.score_head = score_head;
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
  std::set<std::int64_t> seen;
  for (const std::int64_t id : config.token_indices) {
    const bool inside = id >= 0 && id < model.vocab_size;
    if (inside && seen.insert(id).second) continue;
    throw UserError({where, "distinct token ids from 0 to " + std::to_string(model.vocab_size - 1),
                     std::to_string(id) + (inside ? " twice" : ""),
                     inside ? "" : "the embedding has no such row", "take it out of the list"});
  }
}

StoredAdapter read_adapter(const base::fs::path& folder, const model::ModelConfig& model) {
  const std::string where = (folder / kConfigFile).string();
  const Json json = base::parse_json(base::read_settings(folder / kConfigFile), where);
  StoredAdapter adapter;
  adapter.config = config_from_json(json, where);
  std::error_code ec;
  if (!base::fs::exists(folder / kWeightsFile, ec) && base::fs::exists(folder / "adapter_model.bin", ec)) {
    throw UserError({folder.string(), kWeightsFile, "adapter_model.bin",
                     "an old adapter; hone does not read pickled files",
                     "load it with PEFT and call save_pretrained once"});
  }
  if (!base::fs::exists(folder / kWeightsFile, ec)) {
    throw UserError({folder.string(), std::string(kWeightsFile) + " beside adapter_config.json",
                     "no such file", "an incomplete download, or a run that has not saved yet",
                     "name the folder that has both"});
  }
  const base::SafetensorsFile file = base::SafetensorsFile::open(folder / kWeightsFile);
  const std::string weights = file.path().string();
  std::vector<std::string> targets = select_targets(adapter.config, model, /*strict=*/false);
  if (json.contains("layers_to_transform") && !json["layers_to_transform"].is_null()) {
    // Only some layers: the file's keys tell which, and each must still be a target.
    std::erase_if(targets, [&file](const std::string& t) { return file.find(key_a(t)) == nullptr; });
    adapter.config.target_modules = targets;
    adapter.config.target_is_regex = false;
  }
  const std::set<std::string> chosen(targets.begin(), targets.end());
  std::set<std::string> expected;
  for (const model::LinearSpec& spec : model::adaptable_linears(model)) {
    if (!chosen.contains(spec.name)) continue;
    const std::int64_t r = adapter.config.r;
    adapter.modules.push_back({spec.name, take(file, key_a(spec.name), {r, spec.in}, weights),
                               take(file, key_b(spec.name), {spec.out, r}, weights), at::Tensor()});
    expected.insert(key_a(spec.name));
    expected.insert(key_b(spec.name));
    if (!adapter.config.dora) continue;
    adapter.modules.back().magnitude = take(file, key_magnitude(spec.name), {spec.out}, weights);
    expected.insert(key_magnitude(spec.name));
  }
  if (const auto rows = static_cast<std::int64_t>(adapter.config.token_indices.size()); rows > 0) {
    check_token_indices(adapter.config, model, where + ": trainable_token_indices");
    const std::string key = key_token_rows(model);
    adapter.token_rows = take(file, key, {rows, model.hidden_size}, weights);
    expected.insert(key);
  }
  if (adapter.config.score_head) {
    adapter.score = take(file, kScoreKey, {1, model.hidden_size}, weights);
    expected.insert(kScoreKey);
  }
  const std::vector<std::string> known(expected.begin(), expected.end());
  for (const base::StoredTensor& t : file.tensors()) {
    if (expected.contains(t.name)) continue;
    throw UserError(
        {weights + ": " + base::cut_text(t.name, 200),
         "only tensors of the modules that target_modules names (CKPT-01)",
         "this one in addition." + base::did_you_mean(t.name, known),
         "a part that hone does not have (modules_to_save, an adapted embedding), or another model",
         "train a LoRA only on linears, or name the adapter's own base model"});
  }
  return adapter;
}

void write_adapter(const base::fs::path& folder, const LoraConfig& config,
                   const std::map<std::string, at::Tensor>& tensors) {
  base::write_file_atomic(folder / kConfigFile, base::dump_json(config_to_json(config), 2));
  std::vector<base::StoredTensor> stored;
  std::vector<at::Tensor> here;  // outlive the writing
  for (const auto& [name, given] : tensors) {
    base::require(given.is_contiguous() && given.scalar_type() == at::kFloat, "write_adapter",
                  "fp32 tensors");
    const at::Tensor& value = here.emplace_back(given.cpu());
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(value.const_data_ptr()),
                                           value.nbytes());
    stored.push_back({name, base::DType::kF32, value.sizes().vec(), bytes});
  }
  base::write_safetensors(folder / kWeightsFile, stored, {{"format", "pt"}});
}

}  // namespace hone::adapters
