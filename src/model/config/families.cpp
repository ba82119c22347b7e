#include "model/config/families.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>

#include "base/error.h"
#include "model/config/layer_part.h"
#include "model/config/wrappers.h"

namespace hone::model {

const FamilyTraits& traits_of(Family family) {
  for (const FamilyTraits& row : families()) {
    if (row.family == family) return row;
  }
  throw base::InternalError({"traits_of", "a row for every family", "none", "", ""});
}

const TensorNames& names_of(const ModelConfig& config) {
  if (!config.wrapped) return traits_of(config.family).names;
  // names of wrapped families, made once; a deque keeps its strings where they are
  static const std::map<Family, TensorNames> table = [] {
    static std::deque<std::string> texts;
    const auto wrapped = [](NamePair& pair) { pair.hf = texts.emplace_back(wrapped_name(pair.hf)); };
    std::map<Family, TensorNames> out;
    for (const FamilyTraits& row : families()) {
      TensorNames names = row.names;
      for (NamePair* pair : {&names.embedding, &names.final_norm, &names.layers, &names.per_layer_embedding,
                             &names.per_layer_projection, &names.per_layer_norm})
        wrapped(*pair);
      out[row.family] = names;
    }
    return out;
  }();
  return table.at(config.family);
}

const FamilyTraits* find_family(std::string_view model_type) {
  for (const FamilyTraits& row : families()) {
    if (row.model_type == model_type) return &row;
  }
  return nullptr;
}

std::string known_families() {
  std::string text;
  for (const FamilyTraits& row : families()) text += (text.empty() ? "" : ", ") + std::string(row.model_type);
  for (const Wrapper& row : wrappers()) text += ", " + std::string(row.model_type);
  return text;
}

std::string_view missing_for(std::string_view model_type) {
  struct Row {
    std::string_view model_type, missing;
  };
  constexpr std::string_view kShared = "experts that every token goes through",
                             kVision = "models with images", kState = "state space layers",
                             kLayerNorm = "LayerNorm with a bias, and MLPs without a gate";
  static constexpr Row kRows[] = {
      {"phi", kLayerNorm},
      {"gpt2", kLayerNorm},
      {"gpt_neox", kLayerNorm},
      {"gptj", kLayerNorm},
      {"opt", kLayerNorm},
      {"bloom", kLayerNorm},
      {"falcon", kLayerNorm},
      {"mpt", kLayerNorm},
      {"starcoder2", kLayerNorm},
      {"stablelm", "LayerNorm with a bias"},
      {"cohere", "LayerNorm, and attention and MLP side by side"},
      {"cohere2", "LayerNorm, and attention and MLP side by side"},
      {"olmo", "LayerNorm without a weight"},
      {"glm4", "rotations of neighboring columns"},
      {"nemotron", "LayerNorm of 1 + w, and MLPs without a gate"},
      {"qwen2_moe", kShared},
      {"granitemoeshared", kShared},
      {"gpt_oss", "attention sinks, and experts with biases"},
      {"deepseek_v2", "latent attention"},
      {"deepseek_v3", "latent attention"},
      {"llama4", kShared},
      {"llama4_text", kShared},
      {"qwen3_next",
       "linear attention whose linears hold heads in turn, and experts that every token goes through"},
      {"qwen3_5_moe", "experts that every token goes through beside linear attention"},
      {"mamba", kState},
      {"mamba2", kState},
      {"jamba", kState},
      {"falcon_h1", kState},
      {"lfm2_moe", "mixtures of experts in layers with short convolutions"},
      {"llava", kVision},
      {"qwen2_vl", kVision},
      {"qwen2_5_vl", kVision},
      {"smolvlm", kVision},
      {"t5", "encoders"},
      {"bert", "encoders"},
  };
  const auto found = std::find_if(std::begin(kRows), std::end(kRows),
                                  [&](const Row& row) { return row.model_type == model_type; });
  return found == std::end(kRows) || find_family(model_type) != nullptr ? std::string_view() : found->missing;
}

std::vector<LayerLinear> layer_linears(const ModelConfig& c, std::int64_t layer) {
  const std::vector<const LayerPart*> parts = parts_of(c, layer);
  std::vector<LayerLinear> out;
  for (const ModuleRow& row : traits_of(c.family).modules) {
    for (const LayerPart* const part : parts) {
      if (!part->has_linear(c, layer, row.kind)) continue;
      LayerLinear linear{.kind = row.kind,
                         .hf = std::string(row.name.hf),
                         .gguf = std::string(row.name.gguf),
                         .out = c.hidden_size,
                         .in = c.hidden_size};
      linear.gguf_second = row.gguf_second;
      linear.part = part;
      part->shape(c, layer, linear);
      out.push_back(linear);
    }
  }
  for (const LayerPart* const part : parts) part->add_linears(c, out);
  return out;
}

std::vector<LayerNorm> layer_norms(const ModelConfig& c, std::int64_t layer) {
  const FamilyTraits& f = traits_of(c.family);
  const LayerAttention attention = c.attention_of(layer);
  const std::vector<const LayerPart*> parts = parts_of(c, layer);
  std::vector<LayerNorm> out;
  for (const NormRow& row : f.norms) {
    const bool found = std::any_of(parts.begin(), parts.end(), [&](const LayerPart* part) {
      return part->has_norm(c, layer, row.place);
    });
    if (!found) continue;
    std::int64_t width = c.hidden_size;
    if (row.place == NormPlace::kQ)
      width = attention.head_dim * (f.projection_qk_norm ? c.num_attention_heads : 1);
    if (row.place == NormPlace::kK)
      width = attention.head_dim * (f.projection_qk_norm ? attention.kv_heads : 1);
    out.push_back({row.place, row.name, width});
  }
  return out;
}

std::vector<LayerTensor> layer_tensors(const ModelConfig& c, std::int64_t layer) {
  std::vector<LayerTensor> out;
  for (const TensorRow& row : traits_of(c.family).tensors) {
    for (const LayerPart* const part : parts_of(c, layer)) part->add_tensor(c, layer, row, out);
  }
  return out;
}

std::vector<TensorSpec> expected_tensors(const ModelConfig& config) {
  const FamilyTraits& f = traits_of(config.family);
  std::vector<TensorSpec> specs;
  const auto top = [&](const NamePair& n, std::vector<std::int64_t> shape, bool norm = false) {
    specs.push_back({.name = std::string(n.hf) + ".weight",
                     .gguf_name = std::string(n.gguf) + ".weight",
                     .shape = std::move(shape),
                     .gguf_adds_one = norm && f.norm_adds_one});
  };
  const TensorNames& names = names_of(config);
  top(names.embedding, {config.vocab_size, config.hidden_size});
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string number = std::to_string(i) + ".";
    const std::string hf = std::string(names.layers.hf) + number,
                      gguf = std::string(names.layers.gguf) + number;
    for (const LayerNorm& norm : layer_norms(config, i)) {
      specs.push_back({.name = hf + std::string(norm.name.hf) + ".weight",
                       .gguf_name = gguf + std::string(norm.name.gguf) + ".weight",
                       .shape = {norm.width},
                       .gguf_adds_one = f.norm_adds_one});
    }
    for (LayerTensor& tensor : layer_tensors(config, i)) {
      TensorSpec& spec = specs.emplace_back();
      spec.name = hf + std::string(tensor.name.hf);
      spec.gguf_name = gguf + std::string(tensor.name.gguf);
      spec.shape = std::move(tensor.shape);
      spec.gguf_shape = std::move(tensor.gguf_shape);
      spec.gguf_float = true;
      spec.gguf_is_decay = tensor.is_decay;
      spec.gguf_heads = tensor.gguf_heads;
      spec.is_buffer = tensor.kind == TensorKind::kLayerScale;
    }
    for (const LayerLinear& l : layer_linears(config, i)) {
      TensorSpec spec{.name = hf + l.hf + ".weight",
                      .gguf_name = gguf + l.gguf + ".weight",
                      .shape = {l.out, l.in},
                      .permuted_heads = l.permuted_heads,
                      .expert = l.expert};
      spec.gguf_heads = l.gguf_heads;
      if (!l.gguf_second.empty()) spec.gguf_second = gguf + l.gguf_second + ".weight";
      for (const OtherPlace& other : l.others)
        spec.others.push_back({hf + other.name, other.expert, other.row});
      specs.push_back(std::move(spec));
      if (!l.bias) continue;
      specs.push_back({.name = hf + l.hf + ".bias",
                       .gguf_name = gguf + l.gguf + ".bias",
                       .shape = {l.out},
                       .permuted_heads = l.permuted_heads});
    }
  }
  top(names.final_norm, {config.hidden_size}, true);
  if (const std::int64_t width = config.per_layer_width; width > 0) {
    top(names.per_layer_embedding, {config.per_layer_vocab, config.num_hidden_layers * width});
    top(names.per_layer_projection, {config.num_hidden_layers * width, config.hidden_size});
    top(names.per_layer_norm, {width}, true);
  }
  if (!config.head_is_embedding()) top(names.head, {config.vocab_size, config.hidden_size});
  return specs;
}

std::vector<LinearSpec> adaptable_linears(const ModelConfig& config) {
  std::vector<LinearSpec> specs;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    for (const LayerLinear& l : layer_linears(config, i)) {
      if (l.is_parameter) continue;
      specs.push_back(
          {std::string(names_of(config).layers.hf) + std::to_string(i) + "." + l.hf, l.out, l.in});
    }
  }
  if (const std::int64_t columns = config.num_hidden_layers * config.per_layer_width; columns > 0)
    specs.push_back({std::string(names_of(config).per_layer_projection.hf), columns, config.hidden_size});
  return specs;
}

std::vector<ParameterSpec> layer_parameters(const ModelConfig& config, std::int64_t layer) {
  const std::string prefix = std::string(names_of(config).layers.hf) + std::to_string(layer) + ".";
  std::vector<ParameterSpec> specs;
  for (const LayerPart* const part : parts_of(config, layer)) part->add_parameters(config, prefix, specs);
  return specs;
}

std::vector<ParameterSpec> adaptable_parameters(const ModelConfig& config) {
  std::vector<ParameterSpec> specs;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    for (ParameterSpec& spec : layer_parameters(config, i)) specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace hone::model
