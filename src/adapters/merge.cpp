#include "adapters/merge.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "adapters/peft_files.h"
#include "base/error.h"
#include "model/families.h"

namespace hone::adapters {
namespace {

void require_finite(const at::Tensor& values, const std::string& where) {
  if (values.isfinite().all().item<bool>()) return;
  throw base::UserError({where, "finite weights after merging", "infinite or not-a-number values",
                         "the adapter's training diverged", "merge an earlier checkpoint"});
}

}  // namespace

model::Adjust merged_weights(const model::WeightSource& source, const base::fs::path& adapter,
                             const std::optional<ops::QuantScheme>& trained_on, at::ScalarType held_in) {
  const auto stored = std::make_shared<const StoredAdapter>(read_adapter(adapter, source.config()));
  require_kind(stored->config, /*score_head=*/false, adapter.string());
  std::map<std::string, const StoredLora*> by_weight;
  for (const StoredLora& module : stored->modules) by_weight[module.module + ".weight"] = &module;
  const std::string embedding =
      std::string(model::traits_of(source.config().family).names.embedding.hf) + ".weight";
  std::set<std::string> quantised;
  if (trained_on) {
    for (const model::LinearSpec& linear : model::adaptable_linears(source.config()))
      quantised.insert(linear.name + ".weight");
  }
  const auto base_of = [&source, quantised, trained_on, held_in](const std::string& name) {
    if (!quantised.contains(name) || source.quantisation(name)) return source.read(name, at::kFloat);
    const at::Tensor held = source.read(name, held_in);
    return ops::dequantise(ops::quantise(held, *trained_on, source.path().string() + ": " + name),
                           at::kFloat);
  };
  return [=, &source](const std::string& name) -> std::optional<at::Tensor> {
    const at::NoGradGuard no_grad;
    if (name == embedding && stored->token_rows.defined()) {
      const at::Tensor ids = at::tensor(stored->config.token_indices, at::kLong);
      const at::Tensor rows = stored->token_rows;
      require_finite(rows, adapter.string() + ": trainable_token_indices");
      return source.read(name, at::kFloat).index_copy(0, ids, rows);
    }
    const auto it = by_weight.find(name);
    if (it == by_weight.end()) {
      return quantised.contains(name) ? std::optional(base_of(name)) : std::nullopt;
    }
    at::Tensor merged = base_of(name) + at::mm(it->second->b, it->second->a) * stored->config.scale();
    if (const at::Tensor& magnitude = it->second->magnitude; magnitude.defined()) {
      merged = merged * (magnitude / at::linalg_vector_norm(merged, 2, at::IntArrayRef{1})).unsqueeze(1);
    }
    require_finite(merged, adapter.string() + ": " + it->second->module);
    return merged;
  };
}

void merge_to_folder(const base::fs::path& base_model, const base::fs::path& adapter,
                     const base::fs::path& out, const std::optional<ops::QuantScheme>& trained_on,
                     at::ScalarType held_in) {
  const auto source = model::open_weights(base_model);
  model::write_hf_folder(*source, out, {}, merged_weights(*source, adapter, trained_on, held_in));
}

}  // namespace hone::adapters
