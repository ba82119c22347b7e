#include "adapters/gguf_adapter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/expert_targets.h"
#include "adapters/whole_modules.h"
#include "base/error.h"
#include "base/gguf/gguf_write.h"
#include "model/config/families.h"
#include "model/files/gguf_tensors.h"

namespace hone::adapters {
namespace {

void require_plain_lora(const StoredAdapter& adapter, const model::ModelConfig& model,
                        const std::string& where) {
  const LoraConfig& config = adapter.config;
  std::string found;
  if (config.dora) found = "a DoRA adapter (use_dora), whose magnitudes llama.cpp does not read";
  if (!config.token_indices.empty()) found = "trained rows of the embedding (trainable_token_indices)";
  if (!adapter.whole.empty()) found = adapter.whole_names.front() + ", trained in full";
  // llama.cpp finds a tied head by the embedding's name.
  if (model.tie_word_embeddings && trained_ends(config, model).any())
    found = "an adapter on the head or the embedding of a model in which they are one";
  if (config.score_head) found = "the head of a reward model";
  if (found.empty()) return;
  throw base::UserError(
      {where, "a plain LoRA adapter for a GGUF of its own", found,
       "llama.cpp's format of adapters has only lora_a and lora_b",
       config.score_head
           ? "keep PEFT's files; llama.cpp does not run this head"
           : "leave out --adapter_only: the adapter is then merged into the model that is written"});
}

// llama.cpp loads an adapter on every matrix, but applies none to Gemma 4's projection of the embedding.
void require_applied_modules(const StoredAdapter& adapter, const model::ModelConfig& model,
                             const std::string& where) {
  const std::string_view not_applied = model::names_of(model).per_layer_projection.hf;
  for (const StoredLora& module : adapter.modules) {
    if (module.module != not_applied) continue;
    throw base::UserError(
        {where, "no LoRA on " + module.module + " in a GGUF of its own", "one",
         "llama.cpp loads it, and multiplies without it",
         "leave out --adapter_only: the adapter is then merged into the model that is written"});
  }
}

// llama.cpp's scale is alpha / r.
double alpha_of(const LoraConfig& config) {
  return config.scale() * static_cast<double>(config.r);
}

std::vector<base::GgufEntry> entries_of(const LoraConfig& config, const model::ModelConfig& model,
                                        const base::fs::path& where) {
  std::string name = where.filename().string();
  if (name.empty()) name = where.parent_path().filename().string();
  return {{"general.architecture", std::string(model::traits_of(model.family).gguf_architecture)},
          {"general.type", std::string("adapter")},
          {"general.name", name},
          {"general.quantization_version", std::uint32_t{2}},
          {"adapter.type", std::string("lora")},
          {"adapter.lora.alpha", static_cast<float>(alpha_of(config))}};
}

}  // namespace

GgufAdapterFacts write_gguf_adapter(const StoredAdapter& adapter, const model::ModelConfig& model,
                                    const base::fs::path& where, const base::fs::path& out,
                                    base::GgmlType type) {
  const at::NoGradGuard no_grad;
  require_plain_lora(adapter, model, where.string());
  require_applied_modules(adapter, model, where.string());
  require_no_parameters(adapter.config, where.string(), "for a GGUF of its own");
  std::error_code ec;
  if (base::fs::exists(out, ec)) {
    throw base::UserError({out.string(), "a new file to write the adapter to", "it exists already", "",
                           "name another file, or remove this one"});
  }
  std::map<std::string, model::TensorSpec> weights;
  for (const model::TensorSpec& spec : model::expected_tensors(model)) weights[spec.name] = spec;

  struct Matrix {
    at::Tensor values;
    std::string name;
  };
  std::vector<Matrix> matrices;
  for (const StoredLora& module : adapter.modules) {
    const auto spec = weights.find(module.module + ".weight");
    base::require(spec != weights.end(), "write_gguf_adapter", "an adapted module of the model's table");
    const std::int64_t heads = spec->second.permuted_heads;
    const auto rank = static_cast<double>(module.a.size(0));
    // What llama.cpp makes of the file's alpha is this module's scale but for its own rank and alpha.
    const double factor = module.scale * rank / alpha_of(adapter.config);
    const model::ValueHeads& values = spec->second.gguf_heads;
    at::Tensor b = factor == 1 ? module.b : module.b * factor;
    if (!values.columns) b = model::order_value_heads(b, values, /*to_gguf=*/true);
    // llama.cpp looks up rows of the embedding's A.
    at::Tensor a = (module.transposed ? module.a.t() : module.a).contiguous();
    if (values.columns) a = model::order_value_heads(a, values, /*to_gguf=*/true);
    if (const std::string& second = spec->second.gguf_second; !second.empty()) {
      const std::vector<at::Tensor> halves = b.chunk(2, 0);
      for (const auto& [name, half] : {std::pair{spec->second.gguf_name, halves[0]}, {second, halves[1]}}) {
        matrices.push_back({a, name + ".lora_a"});
        matrices.push_back({half.contiguous(), name + ".lora_b"});
      }
      continue;
    }
    matrices.push_back({a, spec->second.gguf_name + ".lora_a"});
    matrices.push_back(
        {heads == 0 ? b.contiguous() : model::interleave_rows(b, heads), spec->second.gguf_name + ".lora_b"});
  }

  GgufAdapterFacts facts{.modules = static_cast<std::int64_t>(adapter.modules.size())};
  std::vector<base::GgufPlanned> planned;
  for (const Matrix& matrix : matrices) {
    model::require_finite(matrix.values, type, where.string() + ": " + matrix.name);
    planned.push_back({matrix.name, type, matrix.values.sizes().vec()});
    facts.bytes += static_cast<std::int64_t>(planned.back().bytes());
  }
  base::require_free_space(out, static_cast<std::uint64_t>(facts.bytes), "the adapter");
  base::GgufWriter writer(out, entries_of(adapter.config, model, where), planned);
  for (const Matrix& matrix : matrices) model::append_tensor(writer, matrix.values, type);
  writer.finish();
  return facts;
}

}  // namespace hone::adapters
