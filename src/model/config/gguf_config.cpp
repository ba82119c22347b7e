// A GGUF's metadata as a model's config, and as the config.json that transformers reads for it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "model/config/config_fields.h"
#include "model/config/families.h"
#include "model/config/gguf_rotation.h"
#include "model/config/model_config.h"

namespace hone::model {
namespace {

using base::Json;
using base::UserError;

constexpr const char* kWindowKey = ".attention.sliding_window";

// The row of an architecture. Of several that share it, the one with windows when the file has one, or the one whose marker it
// has.
const FamilyTraits& family_of(const base::GgufFile& file, const std::string& arch) {
  const std::int64_t window = file.int_or(arch + kWindowKey, 0);
  std::vector<std::string> known;
  const FamilyTraits* found = nullptr;
  const bool experts = file.int_or(arch + ".expert_count", 0) > 0;
  for (const FamilyTraits& f : families()) {
    if (std::find(known.begin(), known.end(), f.gguf_architecture) == known.end())
      known.emplace_back(f.gguf_architecture);
    if (experts == f.experts.module.empty()) continue;
    const bool has_windows = f.windows == WindowRule::kEveryLayer || f.windows == WindowRule::kPattern ||
                             f.windows == WindowRule::kAlternating;
    const bool marked = !f.gguf_marker.empty();
    if (marked && !file.has(arch + "." + std::string(f.gguf_marker))) continue;
    if (f.gguf_architecture == arch && (found == nullptr || marked || (window > 0 && has_windows)))
      found = &f;
    if (found == &f && window > 0 && !has_windows) found = nullptr;
  }
  if (found != nullptr) return *found;
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  const bool windows = std::find(known.begin(), known.end(), arch) != known.end();
  if (windows && window <= 0) {
    throw UserError(
        {file.path().string() + ": " + arch + ".expert_count",
         experts ? "none: hone has this architecture without experts only" : "a number of experts",
         std::to_string(file.int_or(arch + ".expert_count", 0)), "", ""});
  }
  if (windows) {
    throw UserError({file.path().string() + ": " + arch + kWindowKey, "full attention in every layer",
                     std::to_string(window), "the file does not say which layers have the window",
                     "use the model's Hugging Face folder"});
  }
  throw UserError({file.path().string() + ": general.architecture", "one of " + names,
                   "'" + base::cut_text(arch, 200) + "'." + base::did_you_mean(arch, known),
                   "hone does not have this architecture yet", "use a model of one of these families"});
}

// One number, or one a layer, 0 in those without attention: all others are the same.
std::int64_t kv_heads(const base::GgufFile& file, const std::string& arch, std::int64_t fallback) {
  const std::string key = arch + ".attention.head_count_kv";
  const std::vector<std::int64_t>* const each = int_list(file, key);
  if (each == nullptr) return file.int_or(key, fallback);
  const std::int64_t most = each->empty() ? 0 : *std::max_element(each->begin(), each->end());
  const bool same =
      std::all_of(each->begin(), each->end(), [most](std::int64_t n) { return n == 0 || n == most; });
  if (same && most > 0) return most;
  throw UserError({file.path().string() + ": " + key, "one number, or 0 in layers without attention",
                   "several numbers", "hone has no layers of different heads", ""});
}

}  // namespace

const std::vector<std::int64_t>* int_list(const base::GgufFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? nullptr : std::get_if<std::vector<std::int64_t>>(&found->second);
}

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
  // one number, or of a gemma4 one a layer, the first of those with keys of their own
  const std::vector<std::int64_t>* const widths =
      family->family == Family::kGemma4 ? int_list(file, arch + ".feed_forward_length") : nullptr;
  json["intermediate_size"] =
      widths != nullptr && !widths->empty() ? widths->front() : number("feed_forward_length");
  json["max_position_embeddings"] = file.int_or(arch + ".context_length", family->default_max_position);
  json["mlp_bias"] = mlp_bias;
  json["num_attention_heads"] = heads;
  const std::int64_t layers = number("block_count");
  if (layers <= 0 || layers > kMaxLayers) {
    throw UserError({where + ": " + arch + ".block_count", "a number from 1 to " + std::to_string(kMaxLayers),
                     std::to_string(layers), "the file is damaged", ""});
  }
  json["num_hidden_layers"] = layers;
  json["num_key_value_heads"] = kv_heads(file, arch, heads);
  json["rms_norm_eps"] = as_written(file.require_float(arch + ".attention.layer_norm_rms_epsilon"));
  read_gguf_rotation(file, *family, json);
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
