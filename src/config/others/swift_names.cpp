// The names of ms-swift 4.6, and those of its versions 2 and 3.
#include "config/others/other_names.h"

namespace hone::config::swift {
namespace {

constexpr std::string_view kHow = "how it is computed, not what",
                           kCache = "ms-swift's cache and workers of rows",
                           kVision = "hone trains only on text",
                           kTrackers = "it changes nothing in what is learned",
                           kServer = "hone samples with the trainer's own weights";

// clang-format off
constexpr OtherName kNames[] = {
    part("processes"), part("dtype"),
    part("swift_verb"), part("rlhf_type"), part("train_type"), part("tuner_type"), part("sft_type"), part("task_type"),
    becomes("model", "model_name_or_path"), becomes("model_id_or_path", "model_name_or_path"), part("model_type"), becomes("model_revision", "model_revision"), part("adapters"), part("ckpt_dir"), rejected("resume_from_checkpoint", "version 3 goes on with the adapter of that folder", "write adapters"), passed("resume_only_model", "read with resume_from_checkpoint"),
    part("use_hf"), becomes("torch_dtype", "dtype"), passed("trust_remote_code", "hone never runs code from a model's folder"), passed("attn_impl", kHow), passed("use_flash_attn", kHow), passed("device_map", kHow), passed("max_memory", kHow),
    part("dataset"), part("val_dataset"), part("split_dataset_ratio"), part("columns"), part("custom_train_dataset_path"), part("train_dataset_sample"), passed("custom_dataset_info", kCache), passed("load_from_cache_file", kCache), passed("lazy_tokenize", kCache), passed("dataset_num_proc", kCache), passed("strict", kCache), part("dataset_shuffle"), part("train_dataloader_shuffle"),
    becomes("streaming", "dataset_streaming"), part("max_length"), part("truncation_strategy"), becomes("packing", "packing"), passed("padding_free", "hone never pads"), part("packing_length"),
    becomes("per_device_train_batch_size", "per_device_train_batch_size", "1"), becomes("batch_size", "per_device_train_batch_size"), becomes("per_device_eval_batch_size", "per_device_eval_batch_size"), part("gradient_accumulation_steps"),
    becomes("num_train_epochs", "num_train_epochs", "3"), becomes("max_steps", "max_steps"), part("learning_rate"), becomes("lr_scheduler_type", "lr_scheduler_type", "\"cosine\""), becomes("lr_scheduler_kwargs", "lr_scheduler_kwargs"), part("warmup_ratio"), part("warmup_steps"),
    becomes("weight_decay", "weight_decay", "0.1"), becomes("adam_beta1", "adam_beta1", "0.9"), becomes("adam_beta2", "adam_beta2", "0.95"), becomes("adam_epsilon", "adam_epsilon"), becomes("optim", "optim"), becomes("max_grad_norm", "max_grad_norm", "1"), becomes("seed", "seed", "42"), becomes("data_seed", "data_seed"), becomes("neftune_noise_alpha", "neftune_noise_alpha"),
    part("lora_rank"), part("lora_alpha"), part("lora_dropout"), part("lora_dropout_p"), part("target_modules"), part("lora_target_modules"), part("use_rslora"), part("use_dora"), part("modules_to_save"), passed("freeze_vit", kVision), passed("freeze_aligner", kVision), passed("freeze_llm", kVision), passed("init_weights_unused", kHow), part("init_weights"),
    rejected("freeze_parameters", "a part of the weights is frozen by name", "write unfrozen_parameters in hone's own file"), rejected("freeze_parameters_ratio", "a share of the weights is frozen", "write unfrozen_parameters in hone's own file"), part("quant_bits"), part("quant_method"), part("quantization_bit"), becomes("bnb_4bit_quant_type", "bnb_4bit_quant_type"), becomes("bnb_4bit_use_double_quant", "use_bnb_nested_quant"), passed("bnb_4bit_compute_dtype", kHow), rejected("lora_bias", "biases are trained beside the LoRA", "remove it"), passed("lora_dtype", kHow),
    rejected("lorap_lr_ratio", "LoRA+: a second learning rate for B", "remove it"), rejected("use_galore", "another form of training, which hone does not have", "remove it"),
    part("template"), part("template_type"), part("system"), passed("use_chat_template", "hone uses the model's chat template for conversations"), part("loss_scale"), passed("agent_template", kCache), passed("add_non_thinking_prefix", "hone adds no empty think block: the model's own template decides"), passed("enable_thinking", "read when it samples"),
    becomes("beta", "beta"), part("rpo_alpha"), becomes("loss_type", "loss_type"), becomes("simpo_gamma", "simpo_gamma"), becomes("cpo_alpha", "cpo_alpha"), becomes("desirable_weight", "desirable_weight"), becomes("undesirable_weight", "undesirable_weight"), becomes("label_smoothing", "label_smoothing"), passed("ref_model", "hone's reference is the model at its start"),
    becomes("num_generations", "num_generations", "8"), becomes("max_completion_length", "max_completion_length", "512"), becomes("temperature", "temperature", "0.9"), becomes("top_p", "top_p"), becomes("top_k", "top_k"), becomes("num_iterations", "num_iterations"), becomes("repetition_penalty", "repetition_penalty"), becomes("epsilon", "epsilon"), becomes("epsilon_high", "epsilon_high"), becomes("scale_rewards", "scale_rewards"), becomes("generation_batch_size", "generation_batch_size"), becomes("steps_per_generation", "steps_per_generation"),
    part("reward_funcs"), part("external_plugins"), becomes("reward_weights", "reward_weights"), rejected("multi_turn_scheduler", "the turns are a program of its own", "use tools, as docs/methods.md has them"), passed("max_turns", "read with multi_turn_scheduler"), passed("log_completions", "sample_prompts shows completions"), becomes("dynamic_sample", "filter_groups"), part("max_resample_times"),
    becomes("bf16", "bf16"), part("fp16"), part("deepspeed"), passed("fsdp", kHow), passed("gradient_checkpointing", kHow), passed("vit_gradient_checkpointing", kHow), passed("use_liger_kernel", kHow), passed("ddp_find_unused_parameters", kHow), passed("ddp_timeout", kHow), passed("sequence_parallel_size", kHow), passed("preprocess_num_proc", kCache), passed("model_author", kTrackers), passed("model_name", kTrackers), passed("dataloader_num_workers", kCache), passed("dataloader_pin_memory", kCache), becomes("dataloader_drop_last", "dataloader_drop_last"), rejected("group_by_length", "rows of like length come together", "write train_sampling_strategy: group_by_length in hone's own file"),
    becomes("output_dir", "output_dir"), passed("add_version", "a folder with version and date is added to output_dir"), passed("create_checkpoint_symlink", kTrackers), part("eval_steps"), part("eval_strategy"), becomes("save_steps", "save_steps"), becomes("save_strategy", "save_strategy"), becomes("save_total_limit", "save_total_limit"), passed("save_only_model", "hone's checkpoints hold what resuming needs"), becomes("logging_steps", "logging_steps", "5"), passed("logging_first_step", kTrackers), becomes("report_to", "report_to"), becomes("run_name", "run_name"), becomes("metric_for_best_model", "metric_for_best_model"), becomes("greater_is_better", "greater_is_better"), part("load_best_model_at_end"),
    becomes("push_to_hub", "push_to_hub"), becomes("hub_model_id", "hub_model_id"), passed("swanlab_project", kTrackers), passed("swanlab_exp_name", kTrackers), passed("swanlab_token", kTrackers), passed("swanlab_mode", kTrackers), passed("logging_dir", kTrackers), passed("ignore_args_error", kTrackers), passed("check_model", kTrackers), passed("val_dataset_shuffle", kCache),
    passed("use_vllm", kServer), passed("vllm_mode", kServer), passed("vllm_gpu_memory_utilization", kServer), passed("vllm_max_model_len", kServer), passed("vllm_tensor_parallel_size", kServer), passed("vllm_server_host", kServer), passed("vllm_server_port", kServer), passed("vllm_limit_mm_per_prompt", kServer), passed("vllm_enable_prefix_caching", kServer), passed("sleep_level", kServer), passed("offload_optimizer", kServer), passed("offload_model", kServer), passed("async_generate", kServer), passed("move_model_batches", kServer), passed("num_infer_workers", kServer), passed("tensor_parallel_size", kServer), passed("gc_collect_after_offload", kServer),
};
// clang-format on

}  // namespace

std::span<const OtherName> names() {
  return kNames;
}

}  // namespace hone::config::swift
