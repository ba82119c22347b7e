#include "adapters/merge.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <memory>
#include <optional>

#include "adapters/peft_files.h"
#include "base/error.h"

namespace hone::adapters {

model::Adjust merged_weights(const model::WeightSource& source, const base::fs::path& adapter) {
  const auto stored = std::make_shared<const StoredAdapter>(read_adapter(adapter, source.config()));
  std::map<std::string, const StoredLora*> by_weight;
  for (const StoredLora& module : stored->modules) by_weight[module.module + ".weight"] = &module;
  return [&source, adapter, stored, by_weight](const std::string& name) -> std::optional<at::Tensor> {
    const at::NoGradGuard no_grad;
    const auto it = by_weight.find(name);
    if (it == by_weight.end()) return std::nullopt;
    const double scale = stored->config.scale();
    const at::Tensor merged = source.read(name, at::kFloat) + at::mm(it->second->b, it->second->a) * scale;
    if (!merged.isfinite().all().item<bool>()) {
      throw base::UserError({adapter.string() + ": " + it->second->module, "finite weights after merging",
                             "infinite or not-a-number values", "the adapter's training diverged",
                             "merge an earlier checkpoint"});
    }
    return merged;
  };
}

void merge_to_folder(const base::fs::path& base_model, const base::fs::path& adapter,
                     const base::fs::path& out) {
  const auto source = model::open_weights(base_model);
  model::write_hf_folder(*source, out, {}, merged_weights(*source, adapter));
}

}  // namespace hone::adapters
