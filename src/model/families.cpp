#include "model/families.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "model/expert_fields.h"
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

constexpr ExpertNames kQwenExperts{.module = "mlp.",
                                   .router_parameter = "gate.weight",
                                   .files = "mlp.",
                                   .router = "gate",
                                   .gate = "gate_proj",
                                   .up = "up_proj",
                                   .down = "down_proj",
                                   .stacked_gate_up = {},
                                   .stacked_down = {},
                                   .renamed_targets = true},
    kMixtralExperts{.module = "mlp.",
                    .router_parameter = "gate.weight",
                    .files = "block_sparse_moe.",
                    .router = "gate",
                    .gate = "w1",
                    .up = "w3",
                    .down = "w2",
                    .stacked_gate_up = {},
                    .stacked_down = {},
                    .renamed_targets = true},
    kGraniteExperts{.module = "block_sparse_moe.",
                    .router_parameter = "router.weight",
                    .files = "block_sparse_moe.",
                    .router = "router.layer",
                    .gate = "gate_proj",
                    .up = "up_proj",
                    .down = "down_proj",
                    .stacked_gate_up = "input_linear.weight",
                    .stacked_down = "output_linear.weight"};

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

// Llama with norms of 1 + w, GEGLU and a scaled embedding.
FamilyTraits gemma() {
  using enum BiasRule;
  return {.family = Family::kGemma,
          .model_type = "gemma",
          .gguf_architecture = "gemma",
          .architecture = "GemmaForCausalLM",
          .modules = seven_modules(kAttentionBias, kAttentionBias, kNever),
          .norms = norms_before(),
          .norm_adds_one = true,
          .activation = Activation::kGeluTanh,
          .activation_alias = "gelu",
          .embedding_scaled = true,
          .default_head_dim = 256,
          .default_max_position = 8192,
          .default_tied_head = true,
          .lora_targets = kQAndV,
          .read_fields = &read_gemma_fields,
          .read_gguf_fields = &read_gemma_gguf_fields};
}

// Gemma with norms after attention and the MLP too, soft caps, and windows in every other layer.
FamilyTraits gemma2() {
  FamilyTraits row = gemma();
  row.family = Family::kGemma2;
  row.model_type = "gemma2";
  row.gguf_architecture = "gemma2";
  row.architecture = "Gemma2ForCausalLM";
  row.norms = {{NormPlace::kBeforeAttention, kInputNorm},
               {NormPlace::kAfterAttention, kNormAfterAttention},
               {NormPlace::kBeforeMlp, {"pre_feedforward_layernorm", "ffn_norm"}},
               {NormPlace::kAfterMlp, kNormAfterMlp}};
  row.activation_key = "hidden_activation";
  row.activation_alias = {};
  row.windows = WindowRule::kAlternating;
  row.default_window = 4096;
  row.read_fields = &read_gemma2_fields;
  row.write_gguf_fields = &write_gemma2_gguf_fields;
  row.read_gguf_fields = &read_gemma2_gguf_fields;
  return row;
}

// Gemma 2 with norms of each head instead of soft caps; windows, with a rotation of their own, in most layers.
FamilyTraits gemma3() {
  FamilyTraits row = gemma2();
  row.family = Family::kGemma3;
  row.model_type = "gemma3_text";
  row.gguf_architecture = "gemma3";
  row.architecture = "Gemma3ForCausalLM";
  row.norms.insert(row.norms.begin() + 1, {{NormPlace::kQ, kQNorm}, {NormPlace::kK, kKNorm}});
  row.windows = WindowRule::kPattern;
  row.default_max_position = 131072;
  row.default_rope_theta = 1e6;
  row.read_fields = &read_gemma3_fields;
  row.write_gguf_fields = &write_gemma3_gguf_fields;
  row.read_gguf_fields = &read_gemma3_gguf_fields;
  return row;
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
          .rotates_parts = true,
          .read_fields = &read_phi3_fields};
}

// Mistral with queries that are scaled by their position.
FamilyTraits ministral3() {
  using enum BiasRule;
  return {.family = Family::kMinistral3,
          .model_type = "ministral3",
          .gguf_architecture = "mistral3",
          .architecture = "Ministral3ForCausalLM",
          .modules = seven_modules(kNever, kNever, kNever),
          .norms = norms_before(),
          .windows = WindowRule::kEveryLayer,
          .default_head_dim = 128,
          .default_max_position = 262144,
          .gguf_permutes_qk = true,
          .read_fields = &read_ministral3_fields,
          .write_gguf_fields = &write_ministral3_gguf_fields,
          .read_gguf_fields = &read_ministral3_gguf_fields};
}

// OLMo 2 with windows in three of four layers, whose rotation is not scaled.
FamilyTraits olmo3() {
  FamilyTraits row = olmo2();
  row.family = Family::kOlmo3;
  row.model_type = "olmo3";
  row.architecture = "Olmo3ForCausalLM";
  row.windows = WindowRule::kPattern;
  row.default_pattern = kOlmo3Pattern;
  row.default_window = 4096;
  row.default_rope_theta = kOlmo3Theta;
  row.read_fields = &read_olmo3_fields;
  row.write_gguf_fields = &write_olmo3_gguf_fields;
  row.read_gguf_fields = &read_olmo3_gguf_fields;
  return row;
}

// Qwen3 with experts.
FamilyTraits qwen3_moe() {
  FamilyTraits row = qwen3();
  row.family = Family::kQwen3Moe;
  row.model_type = "qwen3_moe";
  row.gguf_architecture = "qwen3moe";
  row.architecture = "Qwen3MoeForCausalLM";
  row.experts = kQwenExperts;
  row.windows = WindowRule::kEveryLayerSwitched;
  row.default_head_dim = 0;
  row.lora_targets = {};
  row.read_fields = &read_qwen3_moe_fields;
  row.write_gguf_fields = &write_experts_gguf_fields;
  row.read_gguf_fields = &read_experts_gguf_fields;
  return row;
}

// Mistral with experts.
FamilyTraits mixtral() {
  FamilyTraits row = mistral();
  row.family = Family::kMixtral;
  row.model_type = "mixtral";
  row.architecture = "MixtralForCausalLM";
  row.experts = kMixtralExperts;
  row.default_window = 0;
  row.default_rope_theta = 1e6;
  row.read_fields = &read_mixtral_fields;
  row.write_gguf_fields = &write_experts_gguf_fields;
  row.read_gguf_fields = &read_experts_gguf_fields;
  return row;
}

// Granite with experts.
FamilyTraits granite_moe() {
  FamilyTraits row = granite();
  row.family = Family::kGraniteMoe;
  row.model_type = "granitemoe";
  row.gguf_architecture = "granitemoe";
  row.architecture = "GraniteMoeForCausalLM";
  row.experts = kGraniteExperts;
  row.read_fields = &read_granite_moe_fields;
  row.write_gguf_fields = &write_granite_moe_gguf_fields;
  row.read_gguf_fields = &read_granite_moe_gguf_fields;
  return row;
}

// Short convolutions with gates in most layers, attention in the others.
FamilyTraits lfm2() {
  using enum ModuleKind;
  using enum BiasRule;
  return {.family = Family::kLfm2,
          .model_type = "lfm2",
          .gguf_architecture = "lfm2",
          .architecture = "Lfm2ForCausalLM",
          .modules = {{kQ, kQName, kNever},
                      {kK, kKName, kNever},
                      {kV, kVName, kNever},
                      {kO, {"self_attn.out_proj", "attn_output"}, kNever},
                      {kConvIn, {"conv.in_proj", "shortconv.in_proj"}},
                      {kConvOut, {"conv.out_proj", "shortconv.out_proj"}},
                      {kGate, {"feed_forward.w1", "ffn_gate"}, kNever},
                      {kUp, {"feed_forward.w3", "ffn_up"}, kNever},
                      {kDown, {"feed_forward.w2", "ffn_down"}, kNever}},
          .norms = {{NormPlace::kQ, {"self_attn.q_layernorm", "attn_q_norm"}},
                    {NormPlace::kK, {"self_attn.k_layernorm", "attn_k_norm"}},
                    {NormPlace::kBeforeAttention, {"operator_norm", "attn_norm"}},
                    {NormPlace::kBeforeMlp, {"ffn_norm", "ffn_norm"}}},
          .tensors = {{TensorKind::kConvWeight, {"conv.conv.weight", "shortconv.conv.weight"}},
                      {TensorKind::kConvBias, {"conv.conv.bias", "shortconv.conv.bias"}}},
          .other_keys = {{"block_ff_dim", "intermediate_size"}, {"tie_embedding", "tie_word_embeddings"}},
          .default_max_position = 128000,
          .default_rope_theta = 1e6,
          .default_tied_head = true,
          .read_fields = &read_lfm2_fields,
          .write_gguf_fields = &write_lfm2_gguf_fields,
          .read_gguf_fields = &read_lfm2_gguf_fields,
          .names = {.final_norm = {"model.embedding_norm", "token_embd_norm"}}};
}

// Of a layer's kind, or of all: whether it has this linear.
bool has_linear(ModuleKind module, LayerKind layer) {
  switch (module) {
    case ModuleKind::kQ:
    case ModuleKind::kK:
    case ModuleKind::kV:
    case ModuleKind::kQkv:
    case ModuleKind::kO:
      return layer == LayerKind::kAttention;
    case ModuleKind::kConvIn:
    case ModuleKind::kConvOut:
      return layer == LayerKind::kShortConv;
    default:
      return true;
  }
}

}  // namespace

const std::vector<FamilyTraits>& families() {
  static const std::vector<FamilyTraits> table = {
      llama(),     qwen2(),   qwen3(),       mistral(), smollm3(),    granite(), olmo2(), gemma3(), phi3(),
      qwen3_moe(), mixtral(), granite_moe(), lfm2(),    ministral3(), gemma2(),  gemma(), olmo3()};
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
  constexpr std::string_view kShared = "experts that every token goes through",
                             kVision = "models with images",
                             kState = "state space and linear attention layers",
                             kLayerNorm = "LayerNorm with a bias, and MLPs without a gate";
  static constexpr Row kRows[] = {
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
      {"stablelm", "LayerNorm with a bias"},
      {"cohere", "LayerNorm, and attention and MLP side by side"},
      {"cohere2", "LayerNorm, and attention and MLP side by side"},
      {"olmo", "LayerNorm without a weight"},
      {"glm4", "rotations of neighboring columns"},
      {"nemotron", "LayerNorm of 1 + w, and MLPs without a gate"},
      {"qwen2_moe", kShared},
      {"granitemoeshared", kShared},
      {"olmoe", "row with experts and with Q/K norms over the whole projection"},
      {"gpt_oss", "attention sinks, and experts with biases"},
      {"deepseek_v2", "latent attention"},
      {"deepseek_v3", "latent attention"},
      {"llama4", kShared},
      {"llama4_text", kShared},
      {"qwen3_next", kState},
      {"qwen3_5", kState},
      {"qwen3_5_text", kState},
      {"mamba", kState},
      {"mamba2", kState},
      {"jamba", kState},
      {"falcon_h1", kState},
      {"granitemoehybrid", kState},
      {"lfm2_moe", "mixtures of experts in layers with short convolutions"},
      {"lfm2_vl", kVision},
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

namespace {

// The linears of a layer's experts.
void add_experts(const ModelConfig& c, const ExpertNames& names, std::vector<LayerLinear>& out) {
  const std::int64_t hidden = c.hidden_size, width = c.experts.width, count = c.experts.count;
  const std::string files(names.files), module(names.module);
  LayerLinear router{.kind = ModuleKind::kRouter,
                     .hf = files + std::string(names.router),
                     .gguf = "ffn_gate_inp",
                     .out = count,
                     .in = hidden};
  const std::string held = module + std::string(names.router_parameter);
  if (held != router.hf + ".weight") router.others.push_back({.name = held});
  out.push_back(std::move(router));
  struct Part {
    ModuleKind kind;
    std::string_view name, gguf, stack, stacked;
    std::int64_t out, in, row;
  };
  const Part parts[] = {{ModuleKind::kExpertGate, names.gate, "ffn_gate_exps", names.stacked_gate_up,
                         "gate_up_proj", width, hidden, 0},
                        {ModuleKind::kExpertUp, names.up, "ffn_up_exps", names.stacked_gate_up,
                         "gate_up_proj", width, hidden, width},
                        {ModuleKind::kExpertDown, names.down, "ffn_down_exps", names.stacked_down,
                         "down_proj", hidden, width, 0}};
  for (const Part& part : parts) {
    for (std::int64_t e = 0; e < count; ++e) {
      const std::string number = std::to_string(e) + ".";
      LayerLinear one{.kind = part.kind,
                      .hf = files + "experts." + number + std::string(part.name),
                      .gguf = std::string(part.gguf),
                      .out = part.out,
                      .in = part.in};
      one.expert = e;
      if (!part.stack.empty())
        one.others.push_back({.name = files + std::string(part.stack), .expert = e, .row = part.row});
      one.others.push_back(
          {.name = module + "experts." + std::string(part.stacked), .expert = e, .row = part.row});
      out.push_back(std::move(one));
    }
  }
}

bool is_of_mlp(ModuleKind kind) {
  return kind == ModuleKind::kGate || kind == ModuleKind::kUp || kind == ModuleKind::kGateUp ||
         kind == ModuleKind::kDown;
}

}  // namespace

std::vector<LayerLinear> layer_linears(const ModelConfig& c, std::int64_t layer) {
  const FamilyTraits& f = traits_of(c.family);
  const std::int64_t q = c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim;
  const std::int64_t hidden = c.hidden_size, mlp = c.intermediate_size;
  std::vector<LayerLinear> out;
  for (const ModuleRow& row : f.modules) {
    if (c.has_experts(layer) && is_of_mlp(row.kind)) continue;
    if (!has_linear(row.kind, c.kind_of(layer))) continue;
    LayerLinear linear{.kind = row.kind,
                       .hf = std::string(row.name.hf),
                       .gguf = std::string(row.name.gguf),
                       .out = hidden,
                       .in = hidden};
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
      case ModuleKind::kRouter:
      case ModuleKind::kExpertGate:
      case ModuleKind::kExpertUp:
      case ModuleKind::kExpertDown:
        break;  // add_experts
      case ModuleKind::kConvIn:
        linear.out = 3 * hidden;
        break;
      case ModuleKind::kConvOut:
        break;
    }
    const bool reads_stream = row.kind < ModuleKind::kO;
    linear.bias = reads_stream ? c.qkv_bias : row.kind == ModuleKind::kO ? c.o_bias : c.mlp_bias;
    if (row.kind == ModuleKind::kConvIn || row.kind == ModuleKind::kConvOut) linear.bias = c.conv_bias;
    out.push_back(linear);
  }
  if (c.has_experts(layer)) add_experts(c, f.experts, out);
  return out;
}

std::vector<LayerNorm> layer_norms(const ModelConfig& c, std::int64_t layer) {
  const FamilyTraits& f = traits_of(c.family);
  std::vector<LayerNorm> out;
  for (const NormRow& row : f.norms) {
    const bool of_heads = row.place == NormPlace::kQ || row.place == NormPlace::kK;
    if (of_heads && c.kind_of(layer) != LayerKind::kAttention) continue;
    std::int64_t width = c.hidden_size;
    if (row.place == NormPlace::kQ) width = c.head_dim * (f.projection_qk_norm ? c.num_attention_heads : 1);
    if (row.place == NormPlace::kK) width = c.head_dim * (f.projection_qk_norm ? c.num_key_value_heads : 1);
    out.push_back({row.place, row.name, width});
  }
  return out;
}

std::vector<LayerTensor> layer_tensors(const ModelConfig& c, std::int64_t layer) {
  std::vector<LayerTensor> out;
  if (c.kind_of(layer) != LayerKind::kShortConv) return out;
  for (const TensorRow& row : traits_of(c.family).tensors) {
    if (row.kind == TensorKind::kConvWeight)
      out.push_back({row.kind, row.name, {c.hidden_size, 1, c.conv_taps}, {c.hidden_size, c.conv_taps}});
    if (row.kind == TensorKind::kConvBias && c.conv_bias)
      out.push_back({row.kind, row.name, {c.hidden_size}, {}});
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
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string number = std::to_string(i) + ".";
    const std::string hf = std::string(f.names.layers.hf) + number,
                      gguf = std::string(f.names.layers.gguf) + number;
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
    }
    for (const LayerLinear& l : layer_linears(config, i)) {
      TensorSpec spec{.name = hf + l.hf + ".weight",
                      .gguf_name = gguf + l.gguf + ".weight",
                      .shape = {l.out, l.in},
                      .permuted_heads = l.permuted_heads,
                      .expert = l.expert};
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
  top(f.names.final_norm, {config.hidden_size}, true);
  if (!config.tie_word_embeddings) top(f.names.head, {config.vocab_size, config.hidden_size});
  return specs;
}

std::vector<LinearSpec> adaptable_linears(const ModelConfig& config) {
  const FamilyTraits& f = traits_of(config.family);
  std::vector<LinearSpec> specs;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    for (const LayerLinear& l : layer_linears(config, i)) {
      if (l.kind >= ModuleKind::kRouter && l.kind <= ModuleKind::kExpertDown) continue;
      specs.push_back({std::string(f.names.layers.hf) + std::to_string(i) + "." + l.hf, l.out, l.in});
    }
  }
  return specs;
}

std::vector<ParameterSpec> adaptable_parameters(const ModelConfig& config) {
  const FamilyTraits& f = traits_of(config.family);
  const std::int64_t hidden = config.hidden_size, width = config.experts.width;
  std::vector<ParameterSpec> specs;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    if (!config.has_experts(i)) continue;
    const std::string module =
        std::string(f.names.layers.hf) + std::to_string(i) + "." + std::string(f.experts.module);
    const std::string_view router = f.experts.router_parameter;
    const std::size_t dot = router.rfind('.');
    specs.push_back({.module = module + std::string(router.substr(0, dot)),
                     .name = std::string(router.substr(dot + 1)),
                     .out = config.experts.count,
                     .in = hidden});
    const std::string experts = module + "experts";
    specs.push_back({.module = experts,
                     .name = "gate_up_proj",
                     .out = 2 * width,
                     .in = hidden,
                     .experts = config.experts.count});
    specs.push_back({.module = experts,
                     .name = "down_proj",
                     .out = hidden,
                     .in = width,
                     .experts = config.experts.count});
  }
  return specs;
}

}  // namespace hone::model
