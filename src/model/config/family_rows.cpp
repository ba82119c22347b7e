// The rows of the table of families (families.h).
#include "model/config/expert_fields.h"
#include "model/config/families.h"
#include "model/config/family_fields.h"
#include "model/config/gemma4_fields.h"

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
          .default_pad = 128004,
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

// The dense models of Granite 4: Granite with gate and up in one matrix, and some of them without a rotation.
FamilyTraits granite_hybrid() {
  using enum BiasRule;
  FamilyTraits row = granite();
  row.family = Family::kGraniteHybrid;
  row.model_type = "granitemoehybrid";
  row.architecture = "GraniteMoeHybridForCausalLM";
  row.modules = {{ModuleKind::kQ, kQName, kAttentionBias},
                 {ModuleKind::kK, kKName, kAttentionBias},
                 {ModuleKind::kV, kVName, kAttentionBias},
                 {ModuleKind::kO, kOName, kAttentionBias},
                 {ModuleKind::kGateUp, {"shared_mlp.input_linear", "ffn_gate"}, kNever, "ffn_up"},
                 {ModuleKind::kDown, {"shared_mlp.output_linear", "ffn_down"}, kNever}};
  row.other_keys = {{"layers_block_type", "layer_types"}};
  row.gguf_marker = kGraniteRotates;
  row.read_fields = &read_granite_hybrid_fields;
  row.write_gguf_fields = &write_granite_hybrid_gguf_fields;
  row.read_gguf_fields = &read_granite_hybrid_gguf_fields;
  return row;
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
          .default_pad = 1,
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
          .default_pad = 0,
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
          .default_pad = 32000,
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
          .default_pad = 11,
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

// OLMo 2 with norms of each head. Where it has windows, in three of four layers, the other layers do not rotate.
FamilyTraits exaone4() {
  using enum BiasRule;
  FamilyTraits row = olmo2();
  row.family = Family::kExaone4;
  row.model_type = "exaone4";
  row.gguf_architecture = "exaone4";
  row.architecture = "Exaone4ForCausalLM";
  row.modules = seven_modules(kNever, kNever, kNever);
  row.projection_qk_norm = false;
  row.windows = WindowRule::kPattern;
  row.default_pattern = kExaone4Pattern;
  row.default_window = 4096;
  row.default_pad = -1;
  row.read_layers = &read_exaone4_layers;
  row.write_gguf_fields = &write_exaone4_gguf_fields;
  row.read_gguf_fields = &read_exaone4_gguf_fields;
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

// Llama with experts, and with queries and keys that are normed whole.
FamilyTraits olmoe() {
  using enum BiasRule;
  return {.family = Family::kOlmoe,
          .model_type = "olmoe",
          .gguf_architecture = "olmoe",
          .architecture = "OlmoeForCausalLM",
          .modules = seven_modules(kAttentionBias, kAttentionBias, kNever),
          .norms = norms_before_and_of_heads(),
          .experts = kQwenExperts,
          .projection_qk_norm = true,
          .default_max_position = 4096,
          .default_pad = 1,
          .read_fields = &read_olmoe_fields,
          .write_gguf_fields = &write_olmoe_gguf_fields,
          .read_gguf_fields = &read_olmoe_gguf_fields};
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
          .default_pad = 0,
          .read_fields = &read_lfm2_fields,
          .write_gguf_fields = &write_lfm2_gguf_fields,
          .read_gguf_fields = &read_lfm2_gguf_fields,
          .names = {.final_norm = {"model.embedding_norm", "token_embd_norm"}}};
}

// A gated delta rule in three of four layers, attention with a gate in the others.
FamilyTraits qwen3_5() {
  using enum ModuleKind;
  using enum BiasRule;
  FamilyTraits row = qwen3();
  row.family = Family::kQwen35;
  row.model_type = "qwen3_5_text";
  row.gguf_architecture = "qwen35";
  row.architecture = "Qwen3_5ForCausalLM";
  row.modules.insert(row.modules.begin() + 4, {{kDeltaQkv, {"linear_attn.in_proj_qkv", "attn_qkv"}},
                                               {kDeltaZ, {"linear_attn.in_proj_z", "attn_gate"}},
                                               {kDeltaB, {"linear_attn.in_proj_b", "ssm_beta"}},
                                               {kDeltaA, {"linear_attn.in_proj_a", "ssm_alpha"}},
                                               {kDeltaOut, {"linear_attn.out_proj", "ssm_out"}}});
  row.norms = {{NormPlace::kBeforeAttention, kInputNorm},
               {NormPlace::kBeforeMlp, {"post_attention_layernorm", "post_attention_norm"}},
               {NormPlace::kQ, kQNorm},
               {NormPlace::kK, kKNorm}};
  row.tensors = {{TensorKind::kDeltaConv, {"linear_attn.conv1d.weight", "ssm_conv1d.weight"}},
                 {TensorKind::kDeltaALog, {"linear_attn.A_log", "ssm_a"}},
                 {TensorKind::kDeltaDtBias, {"linear_attn.dt_bias", "ssm_dt.bias"}},
                 {TensorKind::kDeltaNorm, {"linear_attn.norm.weight", "ssm_norm.weight"}}};
  row.norm_adds_one = true;
  row.windows = WindowRule::kNone;
  row.default_window = 0;
  row.default_head_dim = 256;
  row.rotates_parts = true;
  row.default_rotated_part = 0.25;
  row.attention_gated = true;
  row.lora_targets = {};
  row.read_fields = &read_qwen3_5_fields;
  row.write_gguf_fields = &write_qwen3_5_gguf_fields;
  row.read_gguf_fields = &read_qwen3_5_gguf_fields;
  return row;
}

// Gemma 3's layers with inputs of their own (per_layer.h); layers without a window have wider heads, and the last layers read
// keys and values of earlier ones.
FamilyTraits gemma4() {
  FamilyTraits row = gemma3();
  row.family = Family::kGemma4;
  row.model_type = "gemma4_text";
  row.gguf_architecture = "gemma4";
  row.architecture = "Gemma4ForCausalLM";
  row.modules.push_back({ModuleKind::kPerLayerGate, {"per_layer_input_gate", "inp_gate"}});
  row.modules.push_back({ModuleKind::kPerLayerProjection, {"per_layer_projection", "proj"}});
  row.norms.push_back({NormPlace::kAfterPerLayer, {"post_per_layer_input_norm", "post_norm"}});
  row.tensors = {{TensorKind::kLayerScale, {"layer_scalar", "layer_output_scale.weight"}}};
  row.norm_adds_one = false;
  row.reads_pattern = false;
  row.default_window = 512;
  row.lora_targets = {};
  row.read_heads = &read_gemma4_heads;
  row.read_fields = &read_gemma4_fields;
  row.read_layers = &read_gemma4_layers;
  row.write_gguf_fields = &write_gemma4_gguf_fields;
  row.read_gguf_fields = &read_gemma4_gguf_fields;
  return row;
}

}  // namespace

const std::vector<FamilyTraits>& families() {
  static const std::vector<FamilyTraits> table = {
      llama(), qwen2(),     qwen3(),          mistral(),     smollm3(), granite(),    olmo2(),  gemma3(),
      phi3(),  qwen3_moe(), mixtral(),        granite_moe(), lfm2(),    ministral3(), gemma2(), gemma(),
      olmo3(), qwen3_5(),   granite_hybrid(), gemma4(),      olmoe(),   exaone4()};
  return table;
}

}  // namespace hone::model
