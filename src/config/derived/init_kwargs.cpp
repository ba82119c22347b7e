#include "config/derived/init_kwargs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json_tools.h"
#include "base/strings/suggest.h"
#include "config/option_table.h"
#include "config/sharding/sharding.h"

namespace hone::config {
namespace {

using base::Json;
using base::UserError;

constexpr const char* kInitKwargs = "model_init_kwargs";
constexpr std::string_view kPlacedByHone = "hone places the model itself: the option device says where";
constexpr std::string_view kFoundByHone = "hone finds a model in its folder or the hub's cache";

// A key of from_pretrained or BitsAndBytesConfig: the option that it is, or why it has no effect.
struct InitKeyword {
  std::string_view name, option, why = {};
};
constexpr std::array<InitKeyword, 25> kInitKeywords = {
    {{"dtype", "dtype"},
     {"torch_dtype", "dtype"},
     {"attn_implementation", "attn_implementation"},
     {"revision", "model_revision"},
     {"trust_remote_code", "trust_remote_code"},
     {"load_in_4bit", "load_in_4bit"},
     {"load_in_8bit", "load_in_8bit"},
     {"bnb_4bit_quant_type", "bnb_4bit_quant_type"},
     {"bnb_4bit_use_double_quant", "use_bnb_nested_quant"},
     {"bnb_4bit_quant_storage", "bnb_4bit_quant_storage"},
     {"bnb_4bit_compute_dtype", "", "dtype and bf16 set the precision, as in TRL"},
     {"quant_method", "", "load_in_4bit or load_in_8bit says it"},
     {"use_cache", "", "training never keeps a key-value cache"},
     {"low_cpu_mem_usage", "", "tensors are always read one at a time"},
     {"device_map", "", kPlacedByHone},
     {"max_memory", "", "memory_limit bounds a run"},
     {"offload_folder", "", kPlacedByHone},
     {"tp_plan", "", "one process"},
     {"use_safetensors", "", "hone reads only safetensors"},
     {"use_kernels", "", "hone has its own kernels"},
     {"cache_dir", "", kFoundByHone},
     {"local_files_only", "", kFoundByHone},
     {"force_download", "", kFoundByHone},
     {"token", "", "the hub's token is that of the user's huggingface_hub"},
     {"use_auth_token", "", "the hub's token is that of the user's huggingface_hub"}}};

const InitKeyword& keyword_of(const std::string& name, const std::string& where) {
  const auto row = std::find_if(kInitKeywords.begin(), kInitKeywords.end(),
                                [&](const InitKeyword& one) { return one.name == name; });
  if (row != kInitKeywords.end()) return *row;
  std::vector<std::string> known = {"quantization_config"};
  for (const InitKeyword& one : kInitKeywords) known.emplace_back(one.name);
  throw UserError({.where = where,
                   .expected = "a keyword argument of from_pretrained that hone knows",
                   .found = fmt::format("'{}'.{}", name, base::did_you_mean(name, known)),
                   .cause = "it may change the model",
                   .fix = "remove it; options of hone: dtype, model_revision, load_in_4bit, load_in_8bit"});
}

// "torch.bfloat16" is the name of a dtype in Python.
std::string keyword_text(const Json& value) {
  std::string text = value.is_string() ? value.get<std::string>() : base::dump_json(value);
  constexpr std::string_view kTorch = "torch.";
  return text.starts_with(kTorch) ? text.substr(kTorch.size()) : text;
}

void set_init_option(Settings& settings, const InitKeyword& keyword, const Json& value,
                     const std::string& where) {
  const Option* const option = settings.schema().find(keyword.option);
  base::require(option != nullptr, "config::apply_init_kwargs", "an option of every method");
  const Json converted = convert_text(*option, keyword_text(value), /*plain=*/true, where);
  if (!settings.is_set(keyword.option)) return settings.put(keyword.option, converted, where);
  if (settings.value(keyword.option) == converted) return;
  throw UserError(
      {.where = where,
       .expected = fmt::format("one value of {}", keyword.option),
       .found = fmt::format("{} here, {} at {}", base::short_json(converted),
                            base::short_json(settings.value(keyword.option)), settings.where(keyword.option)),
       .cause = fmt::format("{} is the option {}", keyword.name, keyword.option),
       .fix = "remove one of the two"});
}

void apply_init_keys(Settings& settings, const Json& given, const std::string& where,
                     std::vector<std::string>& notes) {
  for (const auto& [name, value] : given.items()) {
    const std::string at = fmt::format("{} {}", where, name);
    if (value.is_null()) continue;
    if (name == "quantization_config" && value.is_object()) {
      apply_init_keys(settings, value, at, notes);
      continue;
    }
    const InitKeyword& keyword = keyword_of(name, at);
    if (!keyword.option.empty()) {
      set_init_option(settings, keyword, value, at);
    } else {
      notes.push_back(fmt::format("{}.{}: {}", kInitKwargs, name, keyword.why));
    }
  }
}

void check_accelerator(const Settings& settings) {
  constexpr const char* kOption = "accelerator_config";
  const Json given = mapping_or_file(settings.value(kOption), settings.where(kOption));
  if (!given.is_object()) return;
  if (settings.ranks() > 1 && given.value("split_batches", Json(false)) == true) {
    conflict(settings, kOption, "split_batches: false", "true",
             "per_device_train_batch_size is the batch of each rank", "remove it");
  }
  if (given.value("use_seedable_sampler", Json(true)) == false) {
    conflict(settings, kOption, "use_seedable_sampler: true", "false",
             "the order of rows is that of Accelerate's SeedableRandomSampler", "remove it");
  }
  const Json accumulation = given.value("gradient_accumulation_kwargs", Json());
  if (accumulation.is_object() && !accumulation.value("num_steps", Json()).is_null()) {
    conflict(settings, kOption, "gradient_accumulation_steps for the number of micro-batches",
             fmt::format("num_steps: {}", base::short_json(accumulation["num_steps"])), "",
             "write gradient_accumulation_steps, and remove num_steps");
  }
}

}  // namespace

std::vector<std::string> apply_init_kwargs(Settings& settings) {
  std::vector<std::string> notes;
  const Json given = settings.value(kInitKwargs);
  if (!given.is_object()) return notes;
  apply_init_keys(settings, given, fmt::format("{} {}", settings.where(kInitKwargs), kInitKwargs), notes);
  settings.replace(kInitKwargs, nullptr);
  return notes;
}

void check_accelerate(const Settings& settings) {
  check_accelerator(settings);
  constexpr const char* kOption = "parallelism_config";
  check_parallelism(mapping_or_file(settings.value(kOption), settings.where(kOption)),
                    settings.where(kOption));
}

}  // namespace hone::config
