// Arguments of the classes that scripts train with. A name that has no row is an option of hone with TRL's name, or
// a former name of it.
#include "config/others/script.h"

namespace hone::config::script {
namespace {

constexpr std::string_view kHow = "how it is computed, not what",
                           kClass = "hone reads the class from the model's own files",
                           kText = "hone reads the tokenizer of the model's folder",
                           kTold = "it changes nothing in what is learned",
                           kSecond = "another learning rate for a part of the weights";

// clang-format off
constexpr OtherName kConfig[] = {
    part("(command line)"), part("warmup_ratio"), part("warmup_steps"), part("fp16"), part("bf16"), part("max_seq_length"), part("max_length"), part("teacher_model_name_or_path"),
    becomes("per_gpu_train_batch_size", "per_device_train_batch_size"), becomes("per_gpu_eval_batch_size", "per_device_eval_batch_size"),
    rejected("embedding_learning_rate", kSecond, "remove it"), rejected("loraplus_lr_ratio", kSecond, "remove it"),
    passed("unsloth_num_chunks", kHow), passed("unsloth_logit_chunk_multiplier", kHow), passed("overwrite_output_dir", kTold),
    passed("push_to_hub_token", kTold), passed("hub_token", kTold),
    rejected("predict_with_generate", "it evaluates by sampling", "remove it: eval_reward_funcs scores completions"),
};

constexpr OtherName kTrainer[] = {
    part("model"), part("args"), part("train_dataset"), part("eval_dataset"), part("peft_config"), part("reward_funcs"), part("ref_model"), part("data_collator"),
    part("tokenizer"), part("processing_class"), part("formatting_func"), part("max_seq_length"), part("max_length"),
    rejected("compute_loss_func", "a loss of the script's own", "train with a loss of hone's"), rejected("optimizers", "an optimizer of the script's own", "name it as optim, with its rate"),
    rejected("optimizer_cls_and_kwargs", "an optimizer of the script's own", "name it as optim, with its rate"), rejected("model_init", "a model that the script makes again", "give the model itself"),
    part("teacher_model"), rejected("rollout_func", "rollouts of the script's own", "docs/methods.md has rollout"), rejected("environment_factory", "environments of the script's own", "docs/methods.md has environment"),
    rejected("tools", "tools of the script's own", "docs/methods.md has tools"),
    part("reward_processing_classes"), passed("reward_tokenizer", kText), passed("callbacks", "code that runs beside the steps: hone runs none of it"), passed("compute_metrics", "figures of an evaluation, which train nothing"),
    passed("preprocess_logits_for_metrics", "figures of an evaluation, which train nothing"), passed("dataset_num_proc", kHow), passed("dataset_batch_size", kHow), passed("num_of_sequences", kHow), passed("chars_per_token", kHow),
    passed("model_adapter_name", kTold), passed("ref_adapter_name", kTold), passed("is_encoder_decoder", kClass), passed("label_pad_token_id", kHow), passed("padding_value", kHow),
};

constexpr OtherName kLora[] = {
    becomes("r", "lora_r"), becomes("lora_alpha", "lora_alpha"), becomes("lora_dropout", "lora_dropout"), part("target_modules"), part("modules_to_save"), part("model"),
    becomes("bias", "bias"), becomes("use_rslora", "use_rslora"), becomes("use_dora", "use_dora"), becomes("init_lora_weights", "init_lora_weights"), becomes("rank_pattern", "rank_pattern"),
    becomes("alpha_pattern", "alpha_pattern"), becomes("layers_to_transform", "layers_to_transform"), becomes("layers_pattern", "layers_pattern"), becomes("exclude_modules", "lora_exclude_modules"),
    becomes("target_parameters", "lora_target_parameters"), becomes("trainable_token_indices", "trainable_token_indices"), becomes("task_type", "lora_task_type"), passed("inference_mode", kHow), passed("fan_in_fan_out", "PEFT sets it from the model"),
    rejected("loftq_config", "LoftQ's beginning of the adapter", "remove it"), rejected("use_qalora", "QALoRA", "remove it"), rejected("layer_replication", "layers that are there twice", "remove it"), rejected("megatron_config", "Megatron's layers", "remove it"),
    // FastLanguageModel.get_peft_model
    passed("use_gradient_checkpointing", kHow), passed("random_state", "the seed of A: hone draws it with seed"), passed("max_seq_length", kHow), passed("temporary_location", kHow),
    passed("finetune_vision_layers", "hone trains only on text"), rejected("qat_scheme", "training of quantized weights", "remove it"),
    part("finetune_language_layers"), part("finetune_attention_modules"), part("finetune_mlp_modules"), passed("base_model_name_or_path", kTold), passed("autocast_adapter_dtype", kHow), passed("revision", kTold),
};

constexpr OtherName kModel[] = {
    part("model_name"), part("pretrained_model_name_or_path"), part("load_in_4bit"), part("load_in_8bit"), part("quantization_config"), part("max_seq_length"), part("full_finetuning"), part("config"),
    part("dtype"), part("torch_dtype"), becomes("revision", "model_revision"), part("num_labels"),
    passed("device_map", kHow), passed("attn_implementation", kHow), passed("use_flash_attention_2", kHow), passed("trust_remote_code", "hone never runs code from a model's folder"), passed("use_cache", kHow), passed("low_cpu_mem_usage", kHow), passed("max_memory", kHow),
    passed("token", kTold), passed("use_auth_token", kTold), passed("cache_dir", kTold), passed("local_files_only", kTold), passed("offload_folder", kHow), passed("use_safetensors", kHow), passed("pad_token_id", "hone never pads"), passed("fast_inference", kHow), passed("gpu_memory_utilization", kHow),
    passed("max_lora_rank", kHow), passed("use_gradient_checkpointing", kHow), passed("random_state", kHow), passed("fix_tokenizer", kText), passed("disable_log_stats", kHow), passed("load_in_16bit", "16 bits are what is left where 4 and 8 are off"), passed("unsloth_vllm_standby", kHow), passed("float8_kv_cache", kHow), passed("use_exact_model_name", kTold), passed("return_logits", kHow), passed("force_download", kTold), passed("resume_download", kTold),
    rejected("rope_scaling", "other positions than the model's own", "remove it"), rejected("load_in_fp8", "a base of float8", "remove it"),
};

constexpr OtherName kQuantization[] = {
    becomes("load_in_4bit", "load_in_4bit"), becomes("load_in_8bit", "load_in_8bit"), becomes("bnb_4bit_quant_type", "bnb_4bit_quant_type"), becomes("bnb_4bit_use_double_quant", "use_bnb_nested_quant"),
    passed("bnb_4bit_compute_dtype", kHow), passed("bnb_4bit_quant_storage", kHow), passed("llm_int8_enable_fp32_cpu_offload", kHow), passed("llm_int8_has_fp16_weight", kHow),
    rejected("llm_int8_threshold", "other outliers than hone's 8 bits", "remove it"), rejected("llm_int8_skip_modules", "layers that are not quantized", "remove it"),
};
// clang-format on

}  // namespace

std::span<const OtherName> config_names() {
  return kConfig;
}
std::span<const OtherName> trainer_names() {
  return kTrainer;
}
std::span<const OtherName> lora_names() {
  return kLora;
}
std::span<const OtherName> model_names() {
  return kModel;
}
std::span<const OtherName> quantization_names() {
  return kQuantization;
}

}  // namespace hone::config::script
