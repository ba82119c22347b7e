#include "model/files/gguf_write.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "base/files/path_kind.h"
#include "base/gguf/ggml_types.h"
#include "base/gguf/gguf_write.h"
#include "base/step_progress.h"
#include "model/config/gguf_rotation.h"
#include "model/files/gguf_tensors.h"
#include "text/gguf/gguf_tokenizer.h"
#include "text/gguf/gguf_vocabulary.h"

namespace hone::model {
namespace {

using base::GgmlType;

std::uint32_t file_type(GgufWeights weights) {  // llama.cpp's LLAMA_FTYPE_*
  switch (weights) {
    case GgufWeights::kF32:
      return 0;
    case GgufWeights::kF16:
      return 1;
    case GgufWeights::kQ8_0:
      return 7;
    case GgufWeights::kQ4_K_M:
      return 15;
    case GgufWeights::kBF16:
      return 32;
  }
  throw base::InternalError({"write_gguf", "a known type", "another", "", ""});
}

// The first and the last eighth of the layers, and every third of the others.
bool takes_more_bits(std::int64_t layer, std::int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

std::int64_t layer_of(const std::string& gguf_name) {
  return gguf_name.starts_with("blk.") ? std::stoll(gguf_name.substr(4)) : -1;
}

GgmlType four_bit_type(const TensorSpec& spec, std::int64_t layers, bool tied_head) {
  const std::string& name = spec.gguf_name;
  if (name == "output.weight" || (tied_head && name == "token_embd.weight")) return GgmlType::kQ6_K;
  const bool wide_value = name.ends_with(".attn_v.weight");
  if (wide_value || name.ends_with(".ffn_down.weight") || name.ends_with(".ffn_down_exps.weight")) {
    if (takes_more_bits(layer_of(name), layers)) return GgmlType::kQ6_K;
    if (wide_value && layers == 80) return GgmlType::kQ5_K;
  }
  return GgmlType::kQ4_K;
}

// What rows of `columns` values can be stored in.
GgmlType fitting(GgmlType wanted, std::int64_t columns, bool is_head) {
  const auto fits = [columns](GgmlType type) {
    const auto block = base::find_ggml_type(static_cast<std::uint32_t>(type))->elements;
    return columns % static_cast<std::int64_t>(block) == 0;
  };
  if (fits(wanted)) return wanted;
  GgmlType next = GgmlType::kF16;
  if (wanted == GgmlType::kQ4_K) next = GgmlType::kQ5_0;
  if (wanted == GgmlType::kQ6_K || wanted == GgmlType::kQ5_K || is_head) next = GgmlType::kQ8_0;
  return fits(next) ? next : GgmlType::kF16;
}

GgmlType wanted_type(const TensorSpec& spec, GgufWeights weights, std::int64_t layers, bool tied_head) {
  const bool router = spec.gguf_name.ends_with(".ffn_gate_inp.weight");  // llama.cpp reads only float32
  if (spec.shape.size() < 2 || spec.gguf_float || router) return GgmlType::kF32;
  switch (weights) {
    case GgufWeights::kF32:
      return GgmlType::kF32;
    case GgufWeights::kBF16:
      return GgmlType::kBF16;
    case GgufWeights::kF16:
      return GgmlType::kF16;
    case GgufWeights::kQ8_0:
      return GgmlType::kQ8_0;
    case GgufWeights::kQ4_K_M:
      return four_bit_type(spec, layers, tied_head);
  }
  throw base::InternalError({"write_gguf", "a known type", "another", "", ""});
}

std::vector<base::GgufEntry> model_entries(const WeightSource& source, GgufWeights weights) {
  const ModelConfig& c = source.config();
  const FamilyTraits& family = traits_of(c.family);
  const std::string arch(family.gguf_architecture);
  std::string name = source.path().filename().string();
  if (name.empty()) name = source.path().parent_path().filename().string();
  if (source.is_gguf()) name = source.path().stem().string();
  std::vector<base::GgufEntry> out = {{"general.architecture", arch},
                                      {"general.type", std::string("model")},
                                      {"general.name", name},
                                      {"general.file_type", file_type(weights)},
                                      {"general.quantization_version", std::uint32_t{2}}};
  const auto count = [&](const char* key, std::int64_t value) {
    out.push_back({arch + "." + key, static_cast<std::uint32_t>(value)});
  };
  const auto number = [&](const char* key, double value) {
    out.push_back({arch + "." + key, static_cast<float>(value)});
  };
  count("block_count", c.num_hidden_layers);
  count("context_length", c.max_position_embeddings);
  count("embedding_length", c.hidden_size);
  count("feed_forward_length", c.intermediate_size);
  count("attention.head_count", c.num_attention_heads);
  count("attention.head_count_kv", c.num_key_value_heads);
  count("attention.key_length", c.head_dim);
  count("attention.value_length", c.head_dim);
  number("attention.layer_norm_rms_epsilon", c.rms_norm_eps);
  write_gguf_rotation(c, out);
  if (const std::int64_t window = c.attention_of(0).window;
      window > 0 && family.windows != WindowRule::kPattern && family.windows != WindowRule::kAlternating) {
    if (family.windows != WindowRule::kEveryLayer) {
      throw base::UserError({"GGUF", "full attention in every layer of a " + arch, "sliding windows in some",
                             "llama.cpp has no key for it", "keep the model's Hugging Face folder"});
    }
    count("attention.sliding_window", window);
  }
  if (family.write_gguf_fields != nullptr) family.write_gguf_fields(c, out);
  count("vocab_size", c.vocab_size);
  return out;
}

// False: the source has no tokenizer.
bool add_tokenizer(const WeightSource& source, std::vector<base::GgufEntry>& entries) {
  text::TokenizerFiles files;
  const base::fs::path& from = source.tokenizer_path();
  if (!base::is_folder(from)) {
    const base::GgufFile file = base::GgufFile::open(from);
    if (!file.has("tokenizer.ggml.model")) return false;
    files = text::tokenizer_files_from_gguf(file);
  } else {
    if (!base::exists(from / text::kTokenizerJson)) return false;
    files = text::read_tokenizer_folder(from);
    files.files[text::kTokenizerJson] = text::tokenizer_json_in_effect(files);
  }
  const ModelConfig& c = source.config();
  const auto eos =
      c.eos_token_ids.empty() ? std::nullopt : std::optional<std::int64_t>(c.eos_token_ids.front());
  for (base::GgufEntry& entry : text::gguf_vocabulary(
           files, c.vocab_size, {.bos = c.bos_token_id, .eos = eos, .pad = c.pad_token_id})) {
    entries.push_back(std::move(entry));
  }
  return true;
}

}  // namespace

GgmlType gguf_type(const TensorSpec& spec, GgufWeights weights, std::int64_t layers, bool tied_head) {
  const GgmlType wanted = wanted_type(spec, weights, layers, tied_head);
  const bool head = spec.gguf_name == "output.weight" || (tied_head && spec.gguf_name == "token_embd.weight");
  return spec.shape.size() < 2 || spec.gguf_float ? wanted : fitting(wanted, spec.shape.back(), head);
}

GgufFacts write_gguf(const WeightSource& source, const base::fs::path& out, GgufWeights weights,
                     const Adjust& adjust) {
  const at::NoGradGuard no_grad;
  std::error_code ec;
  if (base::fs::exists(out, ec)) {
    throw base::UserError({out.string(), "a new file to write the model to", "it exists already", "",
                           "name another file, or remove this one"});
  }
  const ModelConfig& config = source.config();
  GgufFacts facts;
  std::vector<base::GgufEntry> entries = model_entries(source, weights);
  facts.tokenizer = add_tokenizer(source, entries);

  const std::vector<TensorSpec> specs = expected_tensors(config);
  std::vector<base::GgufPlanned> planned;
  const auto rotation = gguf_rotation_tensors(config);
  for (const auto& [name, values] : rotation) planned.push_back({name, GgmlType::kF32, values.sizes().vec()});
  for (const TensorSpec& spec : specs) {
    if (!source.has(spec.name)) throw_absent_tensor(source.path().string(), spec.name, source.names());
    if (spec.expert > 0) continue;  // in the tensor of the first
    const bool tied = config.tie_word_embeddings;
    const GgmlType type = gguf_type(spec, weights, config.num_hidden_layers, tied);
    if (type != wanted_type(spec, weights, config.num_hidden_layers, tied)) ++facts.other_type;
    planned.push_back({spec.gguf_name, type, spec.gguf_shape.empty() ? spec.shape : spec.gguf_shape});
    if (spec.expert == 0) planned.back().shape.insert(planned.back().shape.begin(), config.experts.count);
    if (spec.gguf_second.empty()) continue;
    planned.back().shape[0] /= 2;
    planned.push_back({spec.gguf_second, type, planned.back().shape});
  }
  facts.tensors = static_cast<std::int64_t>(planned.size());
  for (const base::GgufPlanned& tensor : planned) facts.bytes += static_cast<std::int64_t>(tensor.bytes());
  base::require_free_space(out, static_cast<std::uint64_t>(facts.bytes), "the model's weights");

  base::begin_part("writing", "tensors", facts.tensors);
  base::GgufWriter writer(out, entries, planned);
  std::size_t next = 0;
  for (const auto& [name, values] : rotation) append_tensor(writer, values, planned[next++].type);
  for (const TensorSpec& spec : specs) {
    const GgmlType type = planned[spec.expert > 0 ? next - 1 : next++].type;
    const std::optional<at::Tensor> replaced = adjust ? adjust(spec.name) : std::nullopt;
    at::Tensor values = replaced ? replaced->to(at::kFloat).contiguous() : source.read(spec.name, at::kFloat);
    base::require(values.sizes() == spec.shape, "write_gguf", "a tensor of the shape that the config says");
    require_finite(values, type, source.path().string() + ": " + spec.name);
    if (spec.gguf_adds_one) values = values + 1;
    if (spec.gguf_is_decay) values = values.exp().neg();
    values = order_value_heads(values, spec.gguf_heads, /*to_gguf=*/true);
    if (spec.permuted_heads != 0) values = interleave_rows(values, spec.permuted_heads);
    const std::int64_t parts = spec.gguf_second.empty() ? 1 : 2;
    for (const at::Tensor& part : values.chunk(parts, 0)) append_tensor(writer, part, type);
    next += parts == 2 ? 1 : 0;
    if (spec.expert + 1 < (spec.expert < 0 ? 0 : config.experts.count)) continue;
    base::advance_part();
  }
  writer.finish();
  return facts;
}

}  // namespace hone::model
