// Rows: the model and the adapter (TRL's ModelConfig, PEFT's words for the rest).
#include "config/option_table.h"

namespace hone::config {

std::vector<Option> model_options() {
  std::vector<Option> rows;
  add(rows, {"model", kModelConfig, kAll},
      {{"model_name_or_path", "model folder in Hugging Face format, a .gguf file, or a name of the hub",
        &ModelPlan::model_name_or_path, formerly("model model_name")},
       {"model_revision", "branch, tag or commit, where the model is named as on the hub",
        &ModelPlan::model_revision, kNullToo},
       {"dtype", "dtype of the frozen weights; with bf16 it sets the precision", Kind::kChoice, "\"float32\"",
        choice("float32 bfloat16 auto float16"), formerly("torch_dtype")},
       {"attn_implementation", "attention kernel", ignored("hone has one attention implementation")},
       {"load_in_8bit",
        "store the layers' linears in 8 bits per weight, as bitsandbytes does; the adapter stays "
        "float32",
        Kind::kBool, "false"},
       {"load_in_4bit",
        "store the layers' linears in 4 bits per weight (QLoRA), as bitsandbytes does; the adapter "
        "stays float32",
        Kind::kBool, "false"},
       {"bnb_4bit_quant_type", "4-bit format", Kind::kChoice, "\"nf4\"", choice("nf4 fp4")},
       {"use_bnb_nested_quant", "quantize the 4-bit scales again: 4.13 bits per weight, not 4.5", Kind::kBool,
        "false", formerly("bnb_4bit_use_double_quant")},
       {"bnb_4bit_quant_storage", "container type of 4-bit weights",
        ignored("hone holds codes as bytes, and reads files with any container")}});
  add(rows, {"model", kHone, kAll},
      {{"quantize_moe_experts",
        "with load_in_4bit or load_in_8bit: quantize the experts of a model too; bitsandbytes leaves them as they are",
        &ModelPlan::quantize_moe_experts}});
  add(rows, {"model", kMethodConfig, kAll},
      {{"model_init_kwargs", "keyword arguments of from_pretrained; those that are options are set",
        Kind::kMap, "null"},
       {"trust_remote_code", "run Python code that ships with a model", Kind::kBool, "false",
        ignored("hone never runs code from a model's folder")},
       {"router_aux_loss_coef",
        "factor of the load-balancing loss of a model with experts; null: the model's own; 0: none",
        &ModelPlan::router_aux_loss_coef, at_least(0), of("sft, dpo, grpo, rloo, kto")},
       {"chat_template_path",
        "a .jinja file, or a tokenizer's folder: its template instead of the model's own",
        &DataPlan::chat_template_path, of("sft, reward"), for_rows(kConversations)},
       {"disable_dropout", "lora_dropout 0", &AdapterPlan::disable_dropout,
        of("dpo, grpo, rloo, kto, reward, cpo, orpo, distill, online-dpo"),
        in("dpo, kto, reward, cpo, orpo, online-dpo", {.default_text = "true"})},
       {"cast_lm_head_to_fp32", "the head's matrix and its products in float32",
        &ModelPlan::cast_lm_head_to_fp32, of("grpo")}});
  return rows;
}

namespace {

constexpr Choices<TrainedBias, 3> kTrainedBiases = {
    {{"none", TrainedBias::kNone}, {"all", TrainedBias::kAll}, {"lora_only", TrainedBias::kLoraOnly}}};

// use_peft false.
std::vector<Option> full_options() {
  return {
      {"unfrozen_parameters",
       "with use_peft: false, train only the weights whose names these regular expressions begin to match; "
       "null: all",
       &FullPlan::unfrozen_parameters},
      {"spectrum_config_path", "a file of Spectrum with the list unfrozen_parameters", Kind::kString, "null"},
      {"freeze_embeddings", "with use_peft: false, train no embedding, nor a head that is tied to it",
       &FullPlan::freeze_embeddings},
      {"max_shard_size", "with use_peft: false, size of a file of weights: 5GB, 900MiB or bytes; null: 5GB",
       bytes(&FullPlan::max_shard_size)}};
}

}  // namespace

std::vector<Option> adapter_options() {
  std::vector<Option> rows;
  add(rows, {"adapter", kModelConfig, kAll},
      {{"use_peft", "train a LoRA adapter; the base stays frozen; false: train the whole model",
        &AdapterPlan::use_peft},
       {"lora_r", "rank of the adapter", &AdapterPlan::lora_r, at_least(1), formerly("r lora_rank")},
       {"lora_alpha", "the adapter's output is scaled by lora_alpha / lora_r", &AdapterPlan::lora_alpha,
        kWhole, above(0)},
       {"lora_dropout", "dropout before the adapter; a continued adapter keeps its own unless this is set",
        &AdapterPlan::lora_dropout, fraction()},
       {"lora_target_modules",
        "names to adapt; one value: a regular expression or all-linear; null: PEFT's choice for the "
        "model",
        &AdapterPlan::lora_target_modules, formerly("target_modules")},
       {"lora_target_parameters",
        "parameters of experts and routers to adapt, as PEFT's target_parameters: mlp.experts.gate_up_proj",
        &AdapterPlan::lora_target_parameters},
       {"lora_modules_to_save",
        "modules trained in full in addition to the adapter: lm_head, embed_tokens, norms, linears",
        &AdapterPlan::lora_modules_to_save, formerly("modules_to_save"),
        in("reward", {.meaning = "modules trained in full: always and only the score head"})},
       {"lora_task_type", "PEFT task type", Kind::kChoice, "\"CAUSAL_LM\"",
        choice("CAUSAL_LM", "", "SEQ_CLS TOKEN_CLS SEQ_2_SEQ_LM QUESTION_ANS FEATURE_EXTRACTION",
               "hone trains causal language models; `hone reward` trains reward models"),
        in("reward",
           {.meaning = "PEFT task type; SEQ_CLS is written in either case, and the score head is trained",
            .reason = "a reward model is a sequence classifier of one label: SEQ_CLS is written",
            .values = "CAUSAL_LM SEQ_CLS",
            .not_yet = "TOKEN_CLS SEQ_2_SEQ_LM QUESTION_ANS FEATURE_EXTRACTION"})},
       {"use_rslora", "scale by lora_alpha / sqrt(lora_r)", &AdapterPlan::use_rslora},
       {"use_dora", "weight-decomposed adapters (DoRA): a trained magnitude for each output",
        &AdapterPlan::use_dora}});
  add(rows, {"adapter", kHone, kAll},
      {{"init_lora_weights", "initialization of A and B, as PEFT's init_lora_weights", Kind::kChoice,
        "\"true\"",
        choice("true gaussian false pissa pissa_niter_N", "", "olora loftq eva corda lora_ga orthogonal mica",
               "not yet")},
       {"lora_exclude_modules", "names not to adapt, as PEFT's exclude_modules",
        &AdapterPlan::lora_exclude_modules, formerly("exclude_modules")},
       {"rank_pattern",
        "ranks of some modules, instead of lora_r, as PEFT's: {q_proj: 8, 'layers\\.0\\..*': 4}", Kind::kMap,
        "null"},
       {"alpha_pattern", "lora_alpha of some modules, as PEFT's", Kind::kMap, "null"},
       {"layers_to_transform",
        "layers to adapt, from 0, of the names in lora_target_modules, as PEFT's; with use_peft: false, the layers "
        "that are trained, and nothing outside them; null: all",
        Kind::kList, "null"},
       {"layers_pattern", "what the list of layers is called, as PEFT's; null: anything", Kind::kList,
        "null"},
       {"bias", "biases of the base that are trained in full in addition to the adapter, as PEFT's",
        into(&AdapterPlan::bias, kTrainedBiases)},
       {"trainable_token_indices",
        "token ids whose rows of the embedding are trained too (and of a head that is tied to it), as "
        "PEFT's",
        Kind::kIds, "null"},
       {"adapter_name_or_path", "continue this adapter instead of a new one",
        &AdapterPlan::adapter_name_or_path},
       {"base_adapters",
        "frozen LoRA adapters below the trained one, as part of the base; the reference has them too",
        &AdapterPlan::base_adapters, formerly("frozen_adapters")},
       {"base_model_name_for_adapter",
        "base_model_name_or_path in adapter_config.json; null: the model's folder",
        &AdapterPlan::base_model_name_for_adapter}});
  add(rows, {"adapter", kHone, kAll}, full_options());
  return rows;
}

}  // namespace hone::config
