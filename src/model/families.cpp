#include "model/families.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "model/family_fields.h"

namespace hone::model {
namespace {

constexpr NamePair kQName{"self_attn.q_proj", "attn_q"}, kKName{"self_attn.k_proj", "attn_k"},
    kVName{"self_attn.v_proj", "attn_v"}, kOName{"self_attn.o_proj", "attn_output"},
    kGateName{"mlp.gate_proj", "ffn_gate"}, kUpName{"mlp.up_proj", "ffn_up"},
    kDownName{"mlp.down_proj", "ffn_down"};
constexpr NamePair kInputNorm{"input_layernorm", "attn_norm"}, kQNorm{"self_attn.q_norm", "attn_q_norm"},
    kKNorm{"self_attn.k_norm", "attn_k_norm"}, kNormBeforeMlp{"post_attention_layernorm", "ffn_norm"},
    kNormAfterAttention{"post_attention_layernorm", "post_attention_norm"},
    kNormAfterMlp{"post_feedforward_layernorm", "post_ffw_norm"};

// The modules of transformers' Llama-like decoders.
std::vector<ModuleRow> seven_modules(BiasRule qkv, BiasRule o, BiasRule mlp) {
  using enum ModuleKind;
  return {{kQ, kQName, qkv},       {kK, kKName, qkv},   {kV, kVName, qkv},      {kO, kOName, o},
          {kGate, kGateName, mlp}, {kUp, kUpName, mlp}, {kDown, kDownName, mlp}};
}

std::vector<NormRow> norms_before() {
  return {{NormPlace::kBeforeAttention, kInputNorm}, {NormPlace::kBeforeMlp, kNormBeforeMlp}};
}

std::vector<NormRow> norms_before_and_of_heads() {
  std::vector<NormRow> norms = norms_before();
  norms.push_back({NormPlace::kQ, kQNorm});
  norms.push_back({NormPlace::kK, kKNorm});
  return norms;
}

const std::vector<std::string> kQAndV = {"q_proj", "v_proj"};

FamilyTraits llama() {
  using enum BiasRule;
  return {.family = Family::kLlama,
          .model_type = "llama",
          .gguf_architecture = "llama",
          .architecture = "LlamaForCausalLM",
          .modules = seven_modules(kAttentionBias, kAttentionBias, kMlpBias),
          .norms = norms_before(),
          .default_max_position = 2048,
          .gguf_permutes_qk = true,
          .lora_targets = kQAndV};
}

FamilyTraits qwen2() {
  using enum BiasRule;
  return {.family = Family::kQwen2,
          .model_type = "qwen2",
          .gguf_architecture = "qwen2",
          .architecture = "Qwen2ForCausalLM",
          .modules = seven_modules(kAlways, kNever, kNever),
          .norms = norms_before(),
          .windows = WindowRule::kUpperLayers,
          .default_window = 4096,
          .default_max_position = 32768,
          .lora_targets = kQAndV};
}

FamilyTraits qwen3() {
  using enum BiasRule;
  return {.family = Family::kQwen3,
          .model_type = "qwen3",
          .gguf_architecture = "qwen3",
          .architecture = "Qwen3ForCausalLM",
          .modules = seven_modules(kAttentionBias, kAttentionBias, kNever),
          .norms = norms_before_and_of_heads(),
          .windows = WindowRule::kUpperLayers,
          .default_window = 4096,
          .default_head_dim = 128,
          .default_max_position = 32768,
          .lora_targets = kQAndV};
}

// Llama with windows. llama.cpp has no architecture of its own for it.
FamilyTraits mistral() {
  using enum BiasRule;
  return {.family = Family::kMistral,
          .model_type = "mistral",
          .gguf_architecture = "llama",
          .architecture = "MistralForCausalLM",
          .modules = seven_modules(kNever, kNever, kNever),
          .norms = norms_before(),
          .windows = WindowRule::kEveryLayer,
          .default_window = 4096,
          .default_max_position = 131072,
          .gguf_permutes_qk = true,
          .lora_targets = kQAndV};
}

// Llama in which some layers do not rotate.
FamilyTraits smollm3() {
  using enum BiasRule;
  return {.family = Family::kSmolLM3,
          .model_type = "smollm3",
          .gguf_architecture = "smollm3",
          .architecture = "SmolLM3ForCausalLM",
          .modules = seven_modules(kAttentionBias, kAttentionBias, kMlpBias),
          .norms = norms_before(),
          .windows = WindowRule::kUnrotatedLayers,
          .default_max_position = 32768,
          .default_rope_theta = 2e6,
          .default_tied_head = true,
          .gguf_permutes_qk = true,
          .read_fields = &read_smollm3_fields,
          .write_gguf_fields = &write_smollm3_gguf_fields};
}

// Llama with four multipliers.
FamilyTraits granite() {
  using enum BiasRule;
  return {.family = Family::kGranite,
          .model_type = "granite",
          .gguf_architecture = "granite",
          .architecture = "GraniteForCausalLM",
          .modules = seven_modules(kAttentionBias, kAttentionBias, kMlpBias),
          .norms = norms_before(),
          .default_max_position = 2048,
          .gguf_permutes_qk = true,
          .read_fields = &read_granite_fields,
          .write_gguf_fields = &write_granite_gguf_fields,
          .read_gguf_fields = &read_granite_gguf_fields};
}

// Norms after attention and the MLP, none before; queries and keys are normed whole.
FamilyTraits olmo2() {
  using enum BiasRule;
  return {.family = Family::kOlmo2,
          .model_type = "olmo2",
          .gguf_architecture = "olmo2",
          .architecture = "Olmo2ForCausalLM",
          .modules = seven_modules(kAttentionBias, kAttentionBias, kNever),
          .norms = {{NormPlace::kQ, kQNorm},
                    {NormPlace::kK, kKNorm},
                    {NormPlace::kAfterAttention, kNormAfterAttention},
                    {NormPlace::kAfterMlp, kNormAfterMlp}},
          .projection_qk_norm = true,
          .default_max_position = 2048,
          .read_fields = &read_olmo2_fields};
}

// Four norms of 1 + w, norms of each head, a scaled embedding, GEGLU; windows and a rotation of their own in most layers.
FamilyTraits gemma3() {
  using enum BiasRule;
  return {.family = Family::kGemma3,
          .model_type = "gemma3_text",
          .gguf_architecture = "gemma3",
          .architecture = "Gemma3ForCausalLM",
          .modules = seven_modules(kAttentionBias, kAttentionBias, kNever),
          .norms = {{NormPlace::kBeforeAttention, kInputNorm},
                    {NormPlace::kQ, kQNorm},
                    {NormPlace::kK, kKNorm},
                    {NormPlace::kAfterAttention, kNormAfterAttention},
                    {NormPlace::kBeforeMlp, {"pre_feedforward_layernorm", "ffn_norm"}},
                    {NormPlace::kAfterMlp, kNormAfterMlp}},
          .norm_adds_one = true,
          .activation = Activation::kGeluTanh,
          .activation_key = "hidden_activation",
          .windows = WindowRule::kPattern,
          .default_window = 4096,
          .embedding_scaled = true,
          .default_head_dim = 256,
          .default_max_position = 131072,
          .default_rope_theta = 1e6,
          .default_tied_head = true,
          .lora_targets = kQAndV,
          .read_fields = &read_gemma3_fields,
          .write_gguf_fields = &write_gemma3_gguf_fields,
          .read_gguf_fields = &read_gemma3_gguf_fields};
}

// Llama with q, k and v in one matrix, and gate and up in another.
FamilyTraits phi3() {
  using enum BiasRule;
  return {.family = Family::kPhi3,
          .model_type = "phi3",
          .gguf_architecture = "phi3",
          .architecture = "Phi3ForCausalLM",
          .modules = {{ModuleKind::kQkv, {"self_attn.qkv_proj", "attn_qkv"}, kNever},
                      {ModuleKind::kO, kOName, kNever},
                      {ModuleKind::kGateUp, {"mlp.gate_up_proj", "ffn_up"}, kNever},
                      {ModuleKind::kDown, kDownName, kNever}},
          .norms = norms_before(),
          .windows = WindowRule::kEveryLayer,
          .default_max_position = 4096,
          .read_fields = &read_olmo2_fields};
}

}  // namespace

const std::vector<FamilyTraits>& families() {
  static const std::vector<FamilyTraits> table = {llama(),   qwen2(), qwen3(),  mistral(), smollm3(),
                                                  granite(), olmo2(), gemma3(), phi3()};
  return table;
}

const FamilyTraits& traits_of(Family family) {
  for (const FamilyTraits& row : families()) {
    if (row.family == family) return row;
  }
  throw base::InternalError({"traits_of", "a row for every family", "none", "", ""});
}

const FamilyTraits* find_family(std::string_view model_type) {
  for (const FamilyTraits& row : families()) {
    if (row.model_type == model_type) return &row;
  }
  return nullptr;
}

std::string known_families() {
  std::string text;
  for (const FamilyTraits& row : families()) {
    if (!text.empty()) text += ", ";
    text += row.model_type;
  }
  return text;
}

std::string_view missing_for(std::string_view model_type) {
  struct Row {
    std::string_view model_type, missing;
  };
  constexpr std::string_view kExperts = "mixtures of experts", kVision = "models with images",
                             kState = "state space and linear attention layers",
                             kLayerNorm = "LayerNorm with a bias, and MLPs without a gate";
  static constexpr Row kRows[] = {
      {"gemma", "row in its table"},
      {"gemma2", "soft caps of attention scores and logits"},
      {"gemma3", kVision},
      {"phi", kLayerNorm},
      {"gpt2", kLayerNorm},
      {"gpt_neox", kLayerNorm},
      {"gptj", kLayerNorm},
      {"opt", kLayerNorm},
      {"bloom", kLayerNorm},
      {"falcon", kLayerNorm},
      {"mpt", kLayerNorm},
      {"starcoder2", kLayerNorm},
      {"stablelm", "LayerNorm, and rotations of a part of each head"},
      {"cohere", "LayerNorm, and attention and MLP side by side"},
      {"cohere2", "LayerNorm, and attention and MLP side by side"},
      {"olmo", "LayerNorm without a weight"},
      {"olmo3", "row for OLMo 2 with windows and two rotations"},
      {"glm4", "rotations of a part of each head"},
      {"nemotron", "LayerNorm of 1 + w, and MLPs without a gate"},
      {"mixtral", kExperts},
      {"qwen2_moe", kExperts},
      {"qwen3_moe", kExperts},
      {"olmoe", kExperts},
      {"granitemoe", kExperts},
      {"gpt_oss", kExperts},
      {"deepseek_v2", kExperts},
      {"deepseek_v3", kExperts},
      {"llama4", kExperts},
      {"llama4_text", kExperts},
      {"qwen3_next", kState},
      {"mamba", kState},
      {"mamba2", kState},
      {"jamba", kState},
      {"falcon_h1", kState},
      {"granitemoehybrid", kState},
      {"llava", kVision},
      {"qwen2_vl", kVision},
      {"qwen2_5_vl", kVision},
      {"mistral3", kVision},
      {"smolvlm", kVision},
      {"t5", "encoders"},
      {"bert", "encoders"},
  };
  const auto found = std::find_if(std::begin(kRows), std::end(kRows),
                                  [&](const Row& row) { return row.model_type == model_type; });
  return found == std::end(kRows) || find_family(model_type) != nullptr ? std::string_view() : found->missing;
}

std::vector<LayerLinear> layer_linears(const ModelConfig& c) {
  const FamilyTraits& f = traits_of(c.family);
  const std::int64_t q = c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim;
  const std::int64_t hidden = c.hidden_size, mlp = c.intermediate_size;
  std::vector<LayerLinear> out;
  for (const ModuleRow& row : f.modules) {
    LayerLinear linear{.kind = row.kind, .name = row.name, .out = hidden, .in = hidden};
    switch (row.kind) {
      case ModuleKind::kQ:
        linear.out = q;
        linear.permuted_heads = f.gguf_permutes_qk ? c.num_attention_heads : 0;
        break;
      case ModuleKind::kK:
        linear.out = kv;
        linear.permuted_heads = f.gguf_permutes_qk ? c.num_key_value_heads : 0;
        break;
      case ModuleKind::kV:
        linear.out = kv;
        break;
      case ModuleKind::kQkv:
        linear.out = q + 2 * kv;
        break;
      case ModuleKind::kO:
        linear.in = q;
        break;
      case ModuleKind::kGate:
      case ModuleKind::kUp:
        linear.out = mlp;
        break;
      case ModuleKind::kGateUp:
        linear.out = 2 * mlp;
        break;
      case ModuleKind::kDown:
        linear.in = mlp;
        break;
    }
    const bool reads_stream = row.kind < ModuleKind::kO;
    linear.bias = reads_stream ? c.qkv_bias : row.kind == ModuleKind::kO ? c.o_bias : c.mlp_bias;
    out.push_back(linear);
  }
  return out;
}

std::vector<LayerNorm> layer_norms(const ModelConfig& c) {
  const FamilyTraits& f = traits_of(c.family);
  std::vector<LayerNorm> out;
  for (const NormRow& row : f.norms) {
    std::int64_t width = c.hidden_size;
    if (row.place == NormPlace::kQ) width = c.head_dim * (f.projection_qk_norm ? c.num_attention_heads : 1);
    if (row.place == NormPlace::kK) width = c.head_dim * (f.projection_qk_norm ? c.num_key_value_heads : 1);
    out.push_back({row.place, row.name, width});
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
  top(f.names.embedding, {config.vocab_size, config.hidden_size});
  const std::vector<LayerNorm> norms = layer_norms(config);
  const std::vector<LayerLinear> linears = layer_linears(config);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string number = std::to_string(i) + ".";
    const std::string hf = std::string(f.names.layers.hf) + number,
                      gguf = std::string(f.names.layers.gguf) + number;
    const auto add = [&](const NamePair& n, const char* suffix, std::vector<std::int64_t> shape,
                         std::int64_t heads, bool adds_one) {
      specs.push_back({hf + std::string(n.hf) + suffix, gguf + std::string(n.gguf) + suffix, std::move(shape),
                       heads, adds_one});
    };
    for (const LayerNorm& norm : norms) add(norm.name, ".weight", {norm.width}, 0, f.norm_adds_one);
    for (const LayerLinear& l : linears) {
      add(l.name, ".weight", {l.out, l.in}, l.permuted_heads, false);
      if (l.bias) add(l.name, ".bias", {l.out}, l.permuted_heads, false);
    }
  }
  top(f.names.final_norm, {config.hidden_size}, true);
  if (!config.tie_word_embeddings) top(f.names.head, {config.vocab_size, config.hidden_size});
  return specs;
}

std::vector<LinearSpec> adaptable_linears(const ModelConfig& config) {
  const FamilyTraits& f = traits_of(config.family);
  const std::vector<LayerLinear> linears = layer_linears(config);
  std::vector<LinearSpec> specs;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    for (const LayerLinear& l : linears) {
      specs.push_back(
          {std::string(f.names.layers.hf) + std::to_string(i) + "." + std::string(l.name.hf), l.out, l.in});
    }
  }
  return specs;
}

}  // namespace hone::model
