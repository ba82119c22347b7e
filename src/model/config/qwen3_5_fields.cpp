// Fields of Qwen3.5's config.json, and of its GGUF (llama.cpp's architecture qwen35).
#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "base/json_tools.h"
#include "model/config/config_fields.h"
#include "model/config/families.h"
#include "model/config/family_fields.h"
#include "model/config/mixer.h"

namespace hone::model {
namespace {

using base::Json;
using base::UserError;

constexpr const char *kLinear = "linear_attention", *kFull = "full_attention";
constexpr std::int64_t kInterval = 4;  // of Qwen3_5TextConfig: every fourth layer attends
constexpr std::int64_t kMostTaps = 64;
constexpr const char* kArch = "qwen35.";

std::vector<LayerKind> kinds_of(const Json& json, const std::string& where, std::int64_t layers) {
  if (auto kinds = kinds_of_types(json, where, layers, {kFull, kLinear})) return *kinds;
  std::vector<LayerKind> kinds(static_cast<std::size_t>(layers), kind_of_type(kLinear));
  const std::int64_t interval = int_or(json, "full_attention_interval", kInterval, where);
  if (interval <= 0) wrong_type(where, "full_attention_interval", "a positive integer", interval);
  for (std::int64_t i = interval - 1; i < layers; i += interval)
    kinds[static_cast<std::size_t>(i)] = kind_of_type(kFull);
  return kinds;
}

void check_delta(const DeltaRule& d, const std::string& where) {
  if (d.value_heads % d.key_heads != 0) {
    throw UserError({where, "linear_num_value_heads as a multiple of linear_num_key_heads",
                     std::to_string(d.value_heads) + " and " + std::to_string(d.key_heads), "", ""});
  }
  // each factor is at most kMaxExtent, so that no product overflows
  if (d.key_heads * d.key_dim > kMaxExtent || d.value_heads * d.value_dim > kMaxExtent) {
    throw UserError({where, "at most " + std::to_string(kMaxExtent) + " columns of all heads",
                     "linear_num_* heads of more", "the file is damaged", ""});
  }
}

}  // namespace

void read_qwen3_5_fields(const Json& json, const std::string& where, ModelConfig& config) {
  const auto number = [&](const char* key, std::int64_t fallback, std::int64_t most) {
    return lookup(json, key) == nullptr ? fallback : positive(json, key, where, most);
  };
  config.kinds = kinds_of(json, where, config.num_hidden_layers);
  config.delta = {.key_heads = number("linear_num_key_heads", 16, kMaxExtent),
                  .value_heads = number("linear_num_value_heads", 32, kMaxExtent),
                  .key_dim = number("linear_key_head_dim", 128, kMaxExtent),
                  .value_dim = number("linear_value_head_dim", 128, kMaxExtent),
                  .taps = number("linear_conv_kernel_dim", 4, kMostTaps)};
  check_delta(config.delta, where);
}

void write_qwen3_5_gguf_fields(const ModelConfig& config, GgufEntries& entries) {
  const std::int64_t layers = config.num_hidden_layers;
  const DeltaRule& d = config.delta;
  if (d.key_dim != d.value_dim) {
    throw UserError({"GGUF",
                     "linear_value_head_dim " + std::to_string(d.key_dim) + ", the linear_key_head_dim",
                     std::to_string(d.value_dim), "llama.cpp has one key for both",
                     "keep the model's Hugging Face folder"});
  }
  std::int64_t interval = 1;
  while (interval <= layers && !config.mixer(interval - 1).attends()) ++interval;
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool attends = config.mixer(i).attends();
    if (attends == ((i + 1) % interval == 0)) continue;
    throw UserError({"GGUF",
                     "attention in equal distances in a qwen3_5_text: after each " +
                         std::to_string(interval - 1) + " layers without it",
                     "layer " + std::to_string(i) + (attends ? " with attention" : " without attention"),
                     "llama.cpp has no key for it", "keep the model's Hugging Face folder"});
  }
  const auto count = [&](const char* key, std::int64_t value) {
    entries.push_back({kArch + std::string(key), static_cast<std::uint32_t>(value)});
  };
  count("full_attention_interval", interval);
  count("ssm.conv_kernel", d.taps);
  count("ssm.state_size", d.key_dim);
  count("ssm.group_count", d.key_heads);
  count("ssm.time_step_rank", d.value_heads);
  count("ssm.inner_size", d.values());
  // how columns are shared out among the three positions of a picture; those of a text are equal
  std::vector<std::int32_t> sections = {11, 11, 10, 0};
  const Json& text = config.wrapped ? config.json.at("text_config") : config.json;
  if (const Json* rope = lookup(text, "rope_parameters"); rope != nullptr && rope->is_object()) {
    const Json* own = lookup(*rope, "mrope_section");
    const bool fits = own != nullptr && own->is_array() && own->size() == 3 &&
                      std::all_of(own->begin(), own->end(), [](const Json& x) {
                        return x.is_number_integer() && x.get<double>() >= 0 && x.get<double>() < 1e6;
                      });
    for (std::size_t i = 0; fits && i < 3; ++i) sections[i] = (*own)[i].get<std::int32_t>();
  }
  entries.push_back({kArch + std::string("rope.dimension_sections"), sections});
}

void read_qwen3_5_gguf_fields(const base::GgufFile& file, Json& json) {
  const auto number = [&](const char* key) { return file.require_int(kArch + std::string(key)); };
  if (const std::int64_t more = file.int_or(kArch + std::string("nextn_predict_layers"), 0); more > 0) {
    throw UserError({file.path().string() + ": " + kArch + "nextn_predict_layers", "0", std::to_string(more),
                     "the file has layers that predict several tokens, which hone does not have",
                     "use the model's Hugging Face folder, or a GGUF without them"});
  }
  const std::int64_t heads = number("ssm.time_step_rank"), inner = number("ssm.inner_size");
  if (heads <= 0 || inner <= 0 || inner % heads != 0) {
    throw UserError({file.path().string() + ": " + kArch + "ssm.inner_size",
                     "a multiple of ssm.time_step_rank",
                     std::to_string(inner) + " of " + std::to_string(heads), "the file is damaged", ""});
  }
  json["full_attention_interval"] = file.int_or(kArch + std::string("full_attention_interval"), kInterval);
  json["linear_conv_kernel_dim"] = number("ssm.conv_kernel");
  json["linear_key_head_dim"] = number("ssm.state_size");
  json["linear_num_key_heads"] = number("ssm.group_count");
  json["linear_num_value_heads"] = heads;
  json["linear_value_head_dim"] = inner / heads;
}

}  // namespace hone::model
