#include "adapters/gguf_adapter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/gguf_write.h"
#include "model/families.h"
#include "model/gguf_tensors.h"

namespace hone::adapters {
namespace {

void require_plain_lora(const LoraConfig& config, const std::string& where) {
  std::string found;
  if (config.dora) found = "a DoRA adapter (use_dora), whose magnitudes llama.cpp does not read";
  if (!config.token_indices.empty()) found = "trained rows of the embedding (trainable_token_indices)";
  if (config.score_head) found = "the head of a reward model";
  if (found.empty()) return;
  throw base::UserError(
      {where, "a plain LoRA adapter for a GGUF of its own", found,
       "llama.cpp's format of adapters has only lora_a and lora_b",
       config.score_head
           ? "keep PEFT's files; llama.cpp does not run this head"
           : "leave out --adapter_only: the adapter is then merged into the model that is written"});
}

std::vector<base::GgufEntry> entries_of(const LoraConfig& config, const model::ModelConfig& model,
                                        const base::fs::path& where) {
  std::string name = where.filename().string();
  if (name.empty()) name = where.parent_path().filename().string();
  return {{"general.architecture", std::string(model::traits_of(model.family).model_type)},
          {"general.type", std::string("adapter")},
          {"general.name", name},
          {"general.quantization_version", std::uint32_t{2}},
          {"adapter.type", std::string("lora")},
          {"adapter.lora.alpha", static_cast<float>(config.scale() * static_cast<double>(config.r))}};
}

}  // namespace

GgufAdapterFacts write_gguf_adapter(const StoredAdapter& adapter, const model::ModelConfig& model,
                                    const base::fs::path& where, const base::fs::path& out,
                                    base::GgmlType type) {
  const at::NoGradGuard no_grad;
  require_plain_lora(adapter.config, where.string());
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
    matrices.push_back({module.a.contiguous(), spec->second.gguf_name + ".lora_a"});
    matrices.push_back({heads == 0 ? module.b.contiguous() : model::interleave_rows(module.b, heads),
                        spec->second.gguf_name + ".lora_b"});
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
