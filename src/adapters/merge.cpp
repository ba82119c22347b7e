#include "adapters/merge.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "adapters/adapter_file.h"
#include "adapters/expert_targets.h"
#include "adapters/peft_files.h"
#include "adapters/saved_vocabulary.h"
#include "adapters/whole_modules.h"
#include "base/error.h"
#include "base/files/path_kind.h"
#include "base/json_tools.h"
#include "model/config/families.h"
#include "model/files/untied_source.h"

namespace hone::adapters {
namespace {

void require_finite(const at::Tensor& values, const std::string& where) {
  if (values.isfinite().all().item<bool>()) return;
  throw base::UserError({where, "finite weights after merging", "infinite or not-a-number values",
                         "the adapter's training diverged", "merge an earlier checkpoint"});
}

// Read once, and found by the name of the weight that they are added to.
struct Parts {
  std::vector<StoredAdapter> adapters;
  std::deque<StoredLora> experts;  // of each matrix of a stack
  std::map<std::string, std::vector<const StoredLora*>> by_weight;
  std::map<std::string, at::Tensor> whole;  // trained in full
  std::string names;                        // of the folders, for messages
};

// The factors of each expert and each of its matrices, of a LoRA on a stack; or a router's under its name in files. `specs`: the
// model's tensors; none without experts. False: of another module.
bool add_expert_parts(const StoredLora& module, const std::vector<model::TensorSpec>& specs,
                      const model::ModelConfig& config, Parts& out) {
  if (module.transposed) return false;
  bool found = false;
  for (const model::TensorSpec& spec : specs) {
    for (const model::OtherPlace& place : spec.others) {
      if (place.name != module.module && place.name != module.module + ".weight") continue;
      StoredLora& part = out.experts.emplace_back(module);
      found = true;
      out.by_weight[spec.name].push_back(&part);
      if (place.expert < 0) continue;
      const std::int64_t experts = config.experts.count, rank = module.a.size(0) / experts;
      part.a = module.a.narrow(0, place.expert * rank, rank);
      part.b = module.b.view({module.b.size(0), rank, experts})
                   .select(2, place.expert)
                   .narrow(0, place.row, spec.shape[0]);
    }
  }
  return found;
}

std::shared_ptr<const Parts> read_parts(const model::ModelConfig& config,
                                        const std::vector<base::fs::path>& adapters) {
  const auto out = std::make_shared<Parts>();
  for (const base::fs::path& folder : adapters) {
    const StoredAdapter& stored = out->adapters.emplace_back(read_adapter(folder, config));
    if (&folder != &adapters.back()) require_kind(stored.config, /*score_head=*/false, folder.string());
    if (stored.config.dora && adapters.size() > 1) {
      throw base::UserError({folder.string(), "LoRAs, to merge several at once",
                             "DoRA: its rows have magnitudes, which cannot be added", "",
                             "merge it first, then the others into the result"});
    }
    const bool values = !stored.config.token_indices.empty() || !stored.whole.empty();
    if (values && &folder != &adapters.back()) {
      throw base::UserError({folder.string(), "only LoRAs below the last one",
                             stored.whole.empty()
                                 ? "trainable_token_indices: rows of the embedding, which cannot be added"
                                 : stored.whole_names.front() + ", trained in full, which cannot be added",
                             "", "merge it first, then the others into the result"});
    }
    out->names += (out->names.empty() ? "" : " + ") + folder.string();
  }
  std::vector<model::TensorSpec> specs;
  if (config.experts.count > 0) specs = model::expected_tensors(config);
  for (const StoredAdapter& stored : out->adapters) {
    for (const StoredLora& module : stored.modules) {
      if (!add_expert_parts(module, specs, config, *out))
        out->by_weight[module.module + ".weight"].push_back(&module);
    }
    for (std::size_t i = 0; i < stored.whole.size(); ++i) out->whole[stored.whole_names[i]] = stored.whole[i];
  }
  return out;
}

// W^T of the embedding is what its factors are added to.
at::Tensor product_of_factors(const StoredLora& module) {
  const at::Tensor product = at::mm(module.b, module.a);
  return module.transposed ? product.t() : product;
}

}  // namespace

bool unties_head(const model::ModelConfig& base, const std::vector<base::fs::path>& adapters) {
  if (!base.tie_word_embeddings) return false;
  return std::any_of(adapters.begin(), adapters.end(), [&](const base::fs::path& folder) {
    const base::fs::path file = folder / kConfigFile;
    const LoraConfig config =
        config_from_json(base::parse_json(base::read_settings(file), file.string()), file.string());
    return !config.score_head && trained_ends(config, base).any();
  });
}

at::Tensor score_of(const std::vector<base::fs::path>& adapters) {
  if (adapters.empty() || !base::exists(adapters.back() / kWeightsFile)) return {};
  const AdapterFile file(adapters.back());
  const base::StoredTensor* stored = file.find(kScoreKey);
  if (stored == nullptr) stored = file.find(in_wrapper(kScoreKey, kTrainedCopy));
  return stored == nullptr ? at::Tensor() : file.read(*stored);
}

std::unique_ptr<model::WeightSource> open_to_merge(const base::fs::path& base_model,
                                                   const std::vector<base::fs::path>& adapters,
                                                   std::vector<std::string>* notes) {
  std::unique_ptr<model::WeightSource> source = open_base(base_model, adapters, notes);
  if (!unties_head(source->config(), adapters)) return source;
  return std::make_unique<model::UntiedSource>(std::move(source));
}

model::Adjust merged_weights(const model::WeightSource& source, const std::vector<base::fs::path>& adapters,
                             const model::Quantize& trained_on, at::ScalarType held_in) {
  const auto parts = read_parts(source.config(), adapters);
  const std::string embedding = std::string(model::names_of(source.config()).embedding.hf) + ".weight";
  std::set<std::string> quantized;
  if (trained_on) quantized = model::quantized_matrices(source.config(), trained_on.experts);
  const auto base_of = [&source, parts, quantized, trained_on, held_in](const std::string& name) {
    if (!quantized.contains(name) || source.quantization(name)) return source.read(name, at::kFloat);
    const at::Tensor held = source.read(name, held_in);
    return ops::dequantize(ops::quantize(held, *trained_on, source.path().string() + ": " + name),
                           at::kFloat);
  };
  return [=, &source](const std::string& name) -> std::optional<at::Tensor> {
    const at::NoGradGuard no_grad;
    const StoredAdapter& last = parts->adapters.back();
    if (name == embedding && last.token_rows.defined()) {
      require_finite(last.token_rows, parts->names + ": trainable_token_indices");
      const at::Tensor ids = at::tensor(last.config.token_indices, at::kLong);
      return source.read(name, at::kFloat).index_copy(0, ids, last.token_rows);
    }
    if (const auto whole = parts->whole.find(name); whole != parts->whole.end()) {
      require_finite(whole->second, parts->names + ": " + name);
      return whole->second;
    }
    const auto it = parts->by_weight.find(name);
    if (it == parts->by_weight.end()) {
      return quantized.contains(name) ? std::optional(base_of(name)) : std::nullopt;
    }
    at::Tensor merged = base_of(name);
    for (const StoredLora* module : it->second) merged = merged + product_of_factors(*module) * module->scale;
    const StoredLora& first = *it->second.front();
    if (first.magnitude.defined()) {
      merged =
          merged * (first.magnitude / at::linalg_vector_norm(merged, 2, at::IntArrayRef{1})).unsqueeze(1);
    }
    require_finite(merged, parts->names + ": " + first.module);
    return merged;
  };
}

void merge_to_folder(const base::fs::path& base_model, const std::vector<base::fs::path>& adapters,
                     const base::fs::path& out, const model::Quantize& trained_on, at::ScalarType held_in) {
  const auto source = open_to_merge(base_model, adapters);
  const model::Adjust merged = merged_weights(*source, adapters, trained_on, held_in);
  model::ExportOptions options;
  options.score = score_of(adapters);
  if (options.score.defined() && base::exists(adapters.back() / "tokenizer.json"))
    options.tokenizer = adapters.back();
  model::write_hf_folder(*source, out, options, merged);
}

}  // namespace hone::adapters
