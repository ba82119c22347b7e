#include "adapters/full_training.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "adapters/lora.h"
#include "adapters/name_pattern.h"
#include "base/error.h"
#include "base/strings/utf8.h"
#include "model/config/families.h"
#include "model/files/export.h"
#include "ops/machine/device_memory.h"

namespace hone::adapters {
namespace {

using base::UserError;

constexpr const char* kUnfrozen = "option unfrozen_parameters";

// re.match: the beginning of a name.
std::vector<bool> unfrozen_by(const std::string& pattern, const std::vector<model::TensorSpec>& tensors) {
  NamePattern beginning("(?:" + pattern + ").*", kUnfrozen);
  std::vector<bool> out;
  for (const model::TensorSpec& spec : tensors) out.push_back(beginning.matches(spec.name));
  return out;
}

void require_match(const std::string& pattern, const std::vector<bool>& matched,
                   const std::vector<model::TensorSpec>& tensors) {
  if (std::find(matched.begin(), matched.end(), true) != matched.end()) return;
  throw UserError({kUnfrozen, "patterns of names such as " + tensors[tensors.size() / 2].name,
                   "'" + base::cut_text(pattern, 200) + "', which matches the beginning of none",
                   "a Spectrum file of another model, or a misspelled name",
                   "use the file that was made for this model, or remove the pattern"});
}

// Beginnings of the names of their tensors: "model.layers.1.".
std::vector<std::string> prefixes_of(const std::vector<std::int64_t>& layers,
                                     const model::ModelConfig& model) {
  std::vector<std::string> out;
  for (const std::int64_t layer : layers) {
    if (layer >= model.num_hidden_layers) {
      throw UserError(
          {"option layers_to_transform", "layers from 0 to " + std::to_string(model.num_hidden_layers - 1),
           std::to_string(layer), "the model has " + std::to_string(model.num_hidden_layers) + " layers",
           "name layers of this model"});
    }
    out.push_back(std::string(model::names_of(model).layers.hf) + std::to_string(layer) + ".");
  }
  return out;
}

bool starts_with_any(const std::string& name, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return name.starts_with(prefix); });
}

model::ExportOptions export_options(const FullTraining& full, const at::Tensor& score, at::ScalarType dtype) {
  model::ExportOptions out;
  out.dtype = dtype;
  if (full.shard_bytes > 0) out.shard_bytes = full.shard_bytes;
  if (score.defined()) out.score = score.detach().cpu();
  return out;
}

}  // namespace

std::vector<WholeTensor> full_tensors(const FullTraining& full, const model::ModelConfig& model) {
  const std::vector<model::TensorSpec> all = model::expected_tensors(model);
  std::vector<bool> trained(all.size(), full.unfrozen.empty());
  for (const std::string& pattern : full.unfrozen) {
    const std::vector<bool> matched = unfrozen_by(pattern, all);
    // with a tied head the file names a head that is no tensor of its own
    if (!model.head_is_embedding() || !std::string_view(pattern).starts_with("^lm_head"))
      require_match(pattern, matched, all);
    for (std::size_t i = 0; i < all.size(); ++i) trained[i] = trained[i] || matched[i];
  }
  if (!full.layers.empty()) {
    const std::vector<std::string> layers = prefixes_of(full.layers, model);
    for (std::size_t i = 0; i < all.size(); ++i)
      trained[i] = trained[i] && starts_with_any(all[i].name, layers);
  }
  const model::TensorNames& names = model::names_of(model);
  const auto is_embedding = [&](const std::string& name) {
    return name == std::string(names.embedding.hf) + ".weight" ||
           name == std::string(names.per_layer_embedding.hf) + ".weight";
  };
  std::vector<WholeTensor> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!trained[i] || all[i].is_buffer || (full.freeze_embeddings && is_embedding(all[i].name))) continue;
    out.push_back({.name = all[i].name, .key = all[i].name, .shape = all[i].shape});
  }
  if (out.empty()) {
    throw UserError({kUnfrozen, "at least one tensor to train", "none", "freeze_embeddings freezes the rest",
                     "remove freeze_embeddings, or add a pattern"});
  }
  return out;
}

Adapter Adapter::make_full(model::CausalLm& model, const LoraConfig& config,
                           const model::WeightSource& source) {
  base::require(config.full.has_value(), "Adapter::make_full", "a config of full fine-tuning");
  if (const model::Quantize scheme = model.quantized()) {
    throw UserError({source.path().string(), "a model that is not quantized, to train all its weights",
                     ops::describe(*scheme), "codes of 4 or 8 bits cannot take the small steps of training",
                     "use_peft: true trains an adapter on it; or name the model that is not quantized"});
  }
  Adapter out = make(model, config, {}, /*strict=*/true);
  out.source_ = &source;
  return out;
}

Adapter Adapter::attach_full(model::CausalLm& model, const LoraConfig& config,
                             const model::WeightSource& source) {
  Adapter out = make_full(model, config, source);
  const at::NoGradGuard no_grad;
  out.read_whole(source);
  if (!config.full->keeps_base) model.release_replaced();
  return out;
}

Adapter Adapter::resume_full(model::CausalLm& model, const LoraConfig& config,
                             const model::WeightSource& source, const model::WeightSource& checkpoint) {
  Adapter out = make_full(model, config, source);
  const at::NoGradGuard no_grad;
  out.read_whole(checkpoint);
  if (out.score_.defined()) checkpoint.read_into(kScoreName, out.score_.detach());
  if (!config.full->keeps_base) model.release_replaced();
  return out;
}

void Adapter::read_whole(const model::WeightSource& source) {
  for (std::size_t i = 0; i < whole_.size(); ++i) {
    const at::Tensor value = whole_values_[i].detach();
    if (ops::is_host(value.device())) {
      source.read_into(whole_[i].name, value);
    } else {
      at::Tensor(value).copy_(source.read(whole_[i].name, at::kFloat));
    }
  }
}

void Adapter::save_full(const base::fs::path& folder, at::ScalarType dtype, const BeforeRead& before) const {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> trained;
  for (std::size_t i = 0; i < whole_.size(); ++i) trained[whole_[i].name] = whole_values_[i];
  const auto value = [&](const std::string& name) -> std::optional<at::Tensor> {
    const auto found = trained.find(name);
    if (found == trained.end()) return std::nullopt;
    if (before) before(name);
    return found->second.detach().cpu();
  };
  model::write_model_files(*source_, folder, export_options(*config_.full, score_, dtype), value);
}

void Adapter::save_checkpoints_model(const base::fs::path& folder, const base::fs::path& checkpoint,
                                     at::ScalarType dtype) const {
  const at::NoGradGuard no_grad;
  const std::unique_ptr<model::WeightSource> saved = model::open_hf_folder(checkpoint);
  const at::Tensor score = score_.defined() ? saved->read(kScoreName, at::kFloat) : at::Tensor();
  const auto value = [&saved](const std::string& name) {
    return std::optional(saved->read(name, at::kFloat));
  };
  model::write_model_files(*source_, folder, export_options(*config_.full, score, dtype), value);
}

}  // namespace hone::adapters
