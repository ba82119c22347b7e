#include "model/config/expert_fields.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "base/json_tools.h"
#include "model/config/config_fields.h"
#include "model/config/families.h"
#include "model/config/family_fields.h"

namespace hone::model {
namespace {

using base::Json;
using base::UserError;

constexpr std::int64_t kMaxExperts = 1 << 16;
constexpr double kMaxExpertWeights = 1e13;        // of all experts together
constexpr std::int64_t kMaxOfLayers = 1'000'000;  // experts of all layers: each has tensors with names

// Of transformers' configuration class.
struct Defaults {
  std::int64_t count = 8, per_token = 2;
  double balance = 0.001;
};

void read_counts(const Json& json, const std::string& where, const Defaults& defaults, ExpertsRule& out) {
  const std::int64_t count = int_or(json, "num_experts", defaults.count, where);
  out.count = int_or(json, "num_local_experts", count, where);
  out.per_token = int_or(json, "num_experts_per_tok", defaults.per_token, where);
  if (out.count < 0 || out.count > kMaxExperts)
    wrong_type(where, "num_experts", "a number of experts", out.count);
  if (out.count > 0 && (out.per_token < 1 || out.per_token > out.count))
    wrong_type(where, "num_experts_per_tok", "a number from 1 to that of the experts", out.per_token);
  out.balance = float_or(json, "router_aux_loss_coef", defaults.balance, where);
  if (!(out.balance >= 0 && out.balance <= kMaxFactor))
    wrong_type(where, "router_aux_loss_coef", "a number from 0 on", out.balance);
  out.wants_balance = bool_or(json, "output_router_logits", false, where);
}

void check_size(const ModelConfig& config, const std::string& where) {
  if (config.experts.count * config.num_hidden_layers > kMaxOfLayers) {
    throw UserError(
        {where, "at most " + std::to_string(kMaxOfLayers) + " experts in all layers",
         std::to_string(config.experts.count) + " in each of " + std::to_string(config.num_hidden_layers),
         "the file is damaged", ""});
  }
  const auto numbers = static_cast<double>(config.experts.count) * static_cast<double>(config.experts.width) *
                       static_cast<double>(config.hidden_size) * 3 *
                       static_cast<double>(config.num_hidden_layers);
  if (numbers <= kMaxExpertWeights) return;
  throw UserError({where, "model sizes that fit in a machine's memory",
                   base::short_json(Json(numbers)) + " weights of experts", "the file is damaged", ""});
}

std::vector<bool> dense_layers(const Json& json, const std::string& where, std::int64_t layers) {
  const std::int64_t step = int_or(json, "decoder_sparse_step", 1, where);
  if (step < 1) wrong_type(where, "decoder_sparse_step", "a positive integer", step);
  std::vector<bool> dense(static_cast<std::size_t>(layers));
  for (std::int64_t i = 0; i < layers; ++i) dense[static_cast<std::size_t>(i)] = (i + 1) % step != 0;
  if (const Json* only = lookup(json, "mlp_only_layers")) {
    if (!only->is_array()) wrong_type(where, "mlp_only_layers", "a list of layers", *only);
    for (const Json& layer : *only) {
      if (!layer.is_number_integer()) wrong_type(where, "mlp_only_layers", "a list of layers", *only);
      const auto i = layer.get<std::int64_t>();
      if (i >= 0 && i < layers) dense[static_cast<std::size_t>(i)] = true;
    }
  }
  const bool any = std::find(dense.begin(), dense.end(), true) != dense.end();
  return any ? dense : std::vector<bool>();
}

[[noreturn]] void refuse_in_gguf(const std::string& expected, const std::string& found) {
  throw UserError(
      {"GGUF", expected, found, "llama.cpp has no key for it", "keep the model's Hugging Face folder"});
}

std::string gguf_architecture_of(const ModelConfig& config) {
  return std::string(traits_of(config.family).gguf_architecture);
}

void write_counts(const ModelConfig& config, std::vector<base::GgufEntry>& entries) {
  const ExpertsRule& rule = config.experts;
  const std::string arch = gguf_architecture_of(config);
  if (rule.count == 0 || !rule.dense.empty())
    refuse_in_gguf("experts in every layer of a " + arch, "layers without");
  entries.push_back({arch + ".expert_count", static_cast<std::uint32_t>(rule.count)});
  entries.push_back({arch + ".expert_used_count", static_cast<std::uint32_t>(rule.per_token)});
}

}  // namespace

void read_qwen3_moe_fields(const Json& json, const std::string& where, ModelConfig& config) {
  ExpertsRule& out = config.experts;
  read_counts(json, where, {.count = 128, .per_token = 8}, out);
  out.renormalizes = bool_or(json, "norm_topk_prob", false, where);
  out.width =
      lookup(json, "moe_intermediate_size") == nullptr ? 768 : positive(json, "moe_intermediate_size", where);
  out.dense = dense_layers(json, where, config.num_hidden_layers);
  check_size(config, where);
}

void read_mixtral_fields(const Json& json, const std::string& where, ModelConfig& config) {
  if (lookup(json, "rms_norm_eps") == nullptr) config.rms_norm_eps = 1e-5;
  if (float_or(json, "router_jitter_noise", 0, where) != 0) {
    throw UserError({where, "router_jitter_noise 0", base::short_json(json.at("router_jitter_noise")),
                     "hone does not multiply what the experts read by noise",
                     "set router_jitter_noise to 0 in the file"});
  }
  ExpertsRule& out = config.experts;
  read_counts(json, where, {}, out);
  if (out.count == 0) wrong_type(where, "num_local_experts", "a positive integer", out.count);
  out.width = config.intermediate_size;
  out.renormalizes = true;
  out.float_weights = true;
  check_size(config, where);
}

void read_granite_moe_fields(const Json& json, const std::string& where, ModelConfig& config) {
  read_granite_fields(json, where, config);
  ExpertsRule& out = config.experts;
  read_counts(json, where, {}, out);
  if (out.count == 0) wrong_type(where, "num_local_experts", "a positive integer", out.count);
  out.width = config.intermediate_size;
  out.softmax_first = false;
  check_size(config, where);
}

void read_olmoe_fields(const Json& json, const std::string& where, ModelConfig& config) {
  if (lookup(json, "rms_norm_eps") == nullptr) config.rms_norm_eps = 1e-5;
  if (const Json* clip = lookup(json, "clip_qkv")) {
    throw UserError({where, "clip_qkv null", base::short_json(*clip),
                     "hone does not clip queries, keys and values", "use a model without clip_qkv"});
  }
  ExpertsRule& out = config.experts;
  read_counts(json, where, {.count = 64, .per_token = 8, .balance = 0.01}, out);
  if (out.count == 0) wrong_type(where, "num_experts", "a positive integer", out.count);
  out.width = config.intermediate_size;
  out.renormalizes = bool_or(json, "norm_topk_prob", false, where);
  check_size(config, where);
}

void write_experts_gguf_fields(const ModelConfig& config, std::vector<base::GgufEntry>& entries) {
  const ExpertsRule& rule = config.experts;
  const std::string arch = gguf_architecture_of(config);
  if (rule.softmax_first && !rule.renormalizes)
    refuse_in_gguf("norm_topk_prob true of a " + arch, "norm_topk_prob false");
  write_counts(config, entries);
  if (config.family == Family::kQwen3Moe)
    entries.push_back({arch + ".expert_feed_forward_length", static_cast<std::uint32_t>(rule.width)});
}

void read_experts_gguf_fields(const base::GgufFile& file, Json& json) {
  const std::string arch = file.require_string("general.architecture");
  const bool qwen = json.at("model_type") == "qwen3_moe";
  json[qwen ? "num_experts" : "num_local_experts"] = file.require_int(arch + ".expert_count");
  json["num_experts_per_tok"] = file.require_int(arch + ".expert_used_count");
  json["router_aux_loss_coef"] = 0.001;
  json["output_router_logits"] = false;
  if (!qwen) return;
  json["moe_intermediate_size"] = file.require_int(arch + ".expert_feed_forward_length");
  json["norm_topk_prob"] = true;
  json["decoder_sparse_step"] = 1;
}

void write_granite_moe_gguf_fields(const ModelConfig& config, std::vector<base::GgufEntry>& entries) {
  write_granite_gguf_fields(config, entries);
  write_experts_gguf_fields(config, entries);
}

void read_granite_moe_gguf_fields(const base::GgufFile& file, Json& json) {
  read_granite_gguf_fields(file, json);
  read_experts_gguf_fields(file, json);
}

void write_olmoe_gguf_fields(const ModelConfig& config, std::vector<base::GgufEntry>& entries) {
  if (config.experts.renormalizes) refuse_in_gguf("norm_topk_prob false of an olmoe", "norm_topk_prob true");
  if (config.qkv_bias) refuse_in_gguf("attention_bias false of an olmoe", "attention_bias true");
  if (config.tie_word_embeddings)
    refuse_in_gguf("tie_word_embeddings false of an olmoe", "tie_word_embeddings true");
  if (config.num_key_value_heads != config.num_attention_heads ||
      config.num_attention_heads * config.head_dim != config.hidden_size) {
    refuse_in_gguf(
        "num_key_value_heads " + std::to_string(config.num_attention_heads) +
            " of an olmoe, and heads as wide as hidden_size together",
        std::to_string(config.num_key_value_heads) + " and heads of " + std::to_string(config.head_dim));
  }
  write_counts(config, entries);
}

void read_olmoe_gguf_fields(const base::GgufFile& file, Json& json) {
  json["num_experts"] = file.require_int("olmoe.expert_count");
  json["num_experts_per_tok"] = file.require_int("olmoe.expert_used_count");
  json["norm_topk_prob"] = false;
  json["router_aux_loss_coef"] = 0.01;
  json["output_router_logits"] = false;
  json["clip_qkv"] = nullptr;
}

}  // namespace hone::model
