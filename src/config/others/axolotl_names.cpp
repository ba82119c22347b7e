// The names of axolotl 0.21 and older.
#include "config/others/other_names.h"

namespace hone::config::axolotl {
namespace {

constexpr std::string_view kHow = "how it is computed, not what", kCache = "axolotl's cache of prepared rows",
                           kCode = "hone never runs code from a model's folder",
                           kClass = "hone reads the class from the model's own files",
                           kWatch = "hone always watches the run",
                           kTrackers = "it changes nothing in what is learned",
                           kConfig = "other values than those of the model's config.json",
                           kWriteConfig = "write them into the model's config.json",
                           kOwnLoss = "axolotl's own, which hone does not have";

// clang-format off
constexpr OtherName kNames[] = {
    // the model
    becomes("base_model", "model_name_or_path"),
    becomes("revision_of_model", "model_revision"),
    becomes("tokenizer_config", "tokenizer_name_or_path"),
    passed("base_model_config", "hone reads the model's own config.json"), part("model_type"), part("tokenizer_type"), part("is_mistral_derived_model"),
    passed("is_llama_derived_model", kClass), passed("is_falcon_derived_model", kClass), passed("is_qwen_derived_model", kClass),
    passed("trust_remote_code", kCode), passed("tokenizer_use_fast", kClass), passed("tokenizer_legacy", kClass),
    passed("hf_use_auth_token", "hone has no tokens of its own"), rejected("overrides_of_model_config", kConfig, kWriteConfig), rejected("model_config", kConfig, kWriteConfig),
    // batch and time
    becomes("micro_batch_size", "per_device_train_batch_size", "1"),
    becomes("gradient_accumulation_steps", "gradient_accumulation_steps", "1"),
    part("batch_size"),
    becomes("eval_batch_size", "per_device_eval_batch_size"),
    becomes("num_epochs", "num_train_epochs", "1"),
    becomes("max_steps", "max_steps"),
    becomes("sequence_len", "max_length", "512"),
    part("excess_length_strategy"), passed("eval_sequence_len", "hone evaluates with max_length"),
    becomes("learning_rate", "learning_rate"),
    becomes("lr_scheduler", "lr_scheduler_type", "\"cosine\""),
    part("lr_scheduler_kwargs"), part("cosine_min_lr_ratio"), part("warmup_steps"), part("warmup_ratio"),
    rejected("cosine_constant_lr_ratio", kOwnLoss, "use lr_scheduler: cosine"),
    becomes("optimizer", "optim", "\"adamw_torch_fused\""),
    becomes("optim_args", "optim_args"),
    becomes("weight_decay", "weight_decay", "0"),
    becomes("max_grad_norm", "max_grad_norm"),
    becomes("adam_beta1", "adam_beta1"), becomes("adam_beta2", "adam_beta2"), becomes("adam_epsilon", "adam_epsilon"), passed("adam_eps", "axolotl does not read it: its name is adam_epsilon"),
    becomes("seed", "seed", "42"), becomes("data_seed", "data_seed"),
    becomes("neftune_noise_alpha", "neftune_noise_alpha"), becomes("noisy_embedding_alpha", "neftune_noise_alpha"),
    // the adapter
    part("adapter"), part("load_in_4bit"), part("load_in_8bit"), part("lora_target_modules"), part("lora_target_linear"), part("lora_model_dir"),
    becomes("lora_r", "lora_r"), becomes("lora_alpha", "lora_alpha"), part("lora_dropout"),
    becomes("lora_modules_to_save", "lora_modules_to_save"),
    becomes("peft_layers_to_transform", "layers_to_transform"), becomes("peft_layers_pattern", "layers_pattern"),
    becomes("peft_use_rslora", "use_rslora"), becomes("peft_use_dora", "use_dora"), becomes("peft_init_lora_weights", "init_lora_weights"),
    becomes("bnb_4bit_quant_type", "bnb_4bit_quant_type"), rejected("bnb_config_kwargs", "other options of the quantized base", "write bnb_4bit_quant_type and use_bnb_nested_quant in hone's own file"), passed("bnb_4bit_compute_dtype", kHow), part("bnb_4bit_use_double_quant"),
    passed("lora_fan_in_fan_out", "PEFT sets it from the model"), passed("lora_on_cpu", kHow), passed("lora_out_dir", "hone writes output_dir"),
    passed("lora_mlp_kernel", kHow), passed("lora_qkv_kernel", kHow), passed("lora_o_kernel", kHow), passed("lora_embedding_kernel", kHow),
    rejected("loraplus_lr_ratio", "LoRA+: a second learning rate for B", "remove it"),
    rejected("loraplus_lr_embedding", "LoRA+: a second learning rate", "remove it"),
    rejected("relora_steps", "ReLoRA: adapters merged while training", "remove it"), rejected("relora", "ReLoRA: adapters merged while training", "remove it"),
    passed("model_quantization_config", "how gpt-oss is stored, which hone reads from the model's own files"), passed("model_quantization_config_kwargs", "hone holds such a base in 16 bits, as dequantize: true does"),
    rejected("gptq", "a base quantized by GPTQ is not read", "use the base in 16 bits, with load_in_4bit"),
    becomes("unfrozen_parameters", "unfrozen_parameters"),
    // precision
    part("bf16"), part("fp16"), part("bfloat16"), part("float16"), passed("tf32", "hone never uses TF32"),
    rejected("fp8", "float8 products", "write bf16: true"),
    // packing
    becomes("sample_packing", "packing", "false"), becomes("eval_sample_packing", "eval_packing"),
    passed("pad_to_sequence_len", "hone never pads"), passed("sample_packing_eff_est", "hone counts the tokens itself"),
    passed("sample_packing_group_size", "how the bins are filled"), passed("sample_packing_bin_size", "how the bins are filled"),
    passed("sample_packing_sequentially", "how the bins are filled"), passed("multipack_real_batches", kHow), passed("total_num_tokens", kCache),
    passed("max_packed_sequence_len", "an old form of sample_packing, which axolotl refuses today"),
    part("train_on_inputs"), part("group_by_length"),
    // the data
    part("datasets"), part("test_datasets"), part("pretraining_dataset"), part("val_set_size"), part("chat_template"), part("chat_template_jinja"),
    part("default_system_message"), part("special_tokens"), part("tokens"), part("rl"), part("reward_model"), part("conversation"),
    rejected("added_tokens_overrides", "other texts for tokens of the vocabulary", "remove it"),
    passed("resize_token_embeddings_to_32x", "the embedding keeps its size"), passed("mean_resizing_embeddings", "the embedding keeps its size"),
    passed("shrink_embeddings", "the embedding keeps its size"),
    passed("dataset_prepared_path", kCache), passed("dataset_processes", kCache), passed("dataset_num_proc", kCache), passed("dataset_keep_in_memory", kCache),
    passed("push_dataset_to_hub", kCache), passed("dataset_exact_deduplication", "hone removes no rows; the report counts equal ones"),
    passed("shuffle_merged_datasets", "hone shuffles rows while shuffle_dataset is true"), passed("skip_prepare_dataset", kCache), part("dataset_shard_num"), passed("remove_unused_columns", "other columns are never read"),
    becomes("streaming", "dataset_streaming"),
    // preferences
    becomes("rl_beta", "beta"), part("dpo_beta"), part("orpo_alpha"), part("rpo_alpha"), becomes("dpo_loss_type", "loss_type"),
    becomes("kto_desirable_weight", "desirable_weight"), becomes("kto_undesirable_weight", "undesirable_weight"),
    becomes("cpo_alpha", "cpo_alpha"), becomes("simpo_gamma", "simpo_gamma"), part("max_prompt_len"), part("trl"),
    becomes("dpo_use_weighting", "use_weighting"), becomes("precompute_ref_log_probs", "precompute_ref_log_probs"),
    // evaluation and saves
    part("eval_steps"), part("evals_per_epoch"), part("eval_strategy"), part("evaluation_strategy"), part("early_stopping_patience"),
    part("load_best_model_at_end"), part("eval_table_size"), passed("eval_max_new_tokens", "read with eval_table_size only"), passed("eval_table_max_new_tokens", "read with eval_table_size only"),
    passed("do_bench_eval", "hone evaluates the loss, and eval_reward_funcs"), passed("eval_causal_lm_metrics", "hone evaluates the loss, and eval_reward_funcs"), passed("do_causal_lm_eval", "hone evaluates the loss, and eval_reward_funcs"),
    becomes("metric_for_best_model", "metric_for_best_model"), becomes("greater_is_better", "greater_is_better"),
    part("save_steps"), part("saves_per_epoch"), part("save_strategy"), becomes("save_total_limit", "save_total_limit", "4"),
    passed("save_safetensors", "hone writes safetensors"), passed("save_only_model", "hone's checkpoints hold what resuming needs"),
    becomes("output_dir", "output_dir"), becomes("resume_from_checkpoint", "resume_from_checkpoint"),
    passed("auto_resume_from_checkpoints", "hone resumes with resume_from_checkpoint"),
    becomes("logging_steps", "logging_steps"), part("wandb_project"), becomes("wandb_entity", "wandb_entity"),
    becomes("wandb_name", "run_name"), passed("wandb_run_id", kTrackers), passed("wandb_group", kTrackers), passed("wandb_tags", kTrackers), passed("wandb_job_type", kTrackers), passed("wandb_watch", kTrackers), passed("wandb_log_model", kTrackers), passed("wandb_mode", kTrackers),
    passed("use_wandb", kTrackers), passed("use_mlflow", kTrackers), passed("use_comet", kTrackers), passed("use_tensorboard", kTrackers),
    becomes("mlflow_tracking_uri", "mlflow_tracking_uri"), becomes("mlflow_experiment_name", "mlflow_experiment_name"), passed("mlflow_run_name", kTrackers),
    becomes("hub_model_id", "hub_model_id"), becomes("hub_strategy", "hub_strategy"), passed("hub_private_repo", kTrackers),
    // the machine
    part("deepspeed"), part("fsdp"), part("fsdp_config"), passed("fsdp_version", kHow), passed("ddp_timeout", kHow), passed("ddp_bucket_cap_mb", kHow), passed("ddp_broadcast_buffers", kHow), passed("ddp", kHow),
    passed("ddp_find_unused_parameters", kHow), passed("local_rank", "the launcher says it"), passed("device_map", kHow), passed("device", kHow), passed("max_memory", kHow),
    passed("use_ray", kHow), passed("ray_*", kHow), passed("gpu_memory_limit", kHow), passed("world_size", "the launcher says it"),
    passed("gradient_checkpointing", kHow), passed("gradient_checkpointing_kwargs", kHow), passed("activation_offloading", kHow), passed("flash_attention", kHow), passed("flash_attn_cross_entropy", kHow), passed("flash_attn_rms_norm", kHow),
    passed("flash_attn_fuse_qkv", kHow), passed("flash_attn_fuse_mlp", kHow), passed("xformers_attention", kHow), passed("sdp_attention", kHow), passed("flex_attention", kHow), passed("eager_attention", kHow), passed("attn_implementation", kHow),
    rejected("s2_attention", "shifted sparse attention: another model while training", "remove it"),
    part("plugins"), passed("liger_*", kHow),
    passed("cut_cross_entropy", kHow), passed("chunked_cross_entropy", kHow), passed("unsloth_*", kHow),
    passed("torch_compile", kHow), passed("torch_compile_backend", kHow), passed("low_cpu_mem_usage", kHow), passed("dataloader_num_workers", kHow), passed("dataloader_pin_memory", kHow), passed("dataloader_prefetch_factor", kHow),
    passed("gc_steps", kHow), passed("sequence_parallel_degree", kHow), passed("context_parallel_size", kHow), passed("tensor_parallel_size", kHow), passed("dp_shard_size", kHow),
    passed("strict", "hone always tells unknown names"), passed("debug", kWatch), passed("loss_watchdog_threshold", kWatch), passed("loss_watchdog_patience", kWatch), passed("include_tokens_per_second", kWatch),
    // newer names
    becomes("lora_target_parameters", "lora_target_parameters"), becomes("lora_rank_pattern", "rank_pattern"), becomes("lora_alpha_pattern", "alpha_pattern"), becomes("peft_trainable_token_indices", "trainable_token_indices"), becomes("dataloader_drop_last", "dataloader_drop_last"), becomes("dpo_label_smoothing", "label_smoothing"), becomes("dpo_loss_weights", "loss_weights"), becomes("center_rewards_coefficient", "center_rewards_coefficient"), becomes("chat_template_kwargs", "chat_template_kwargs"), passed("save_first_step", kTrackers),
    passed("peft_autocast_adapter_dtype", kHow), passed("qlora_sharded_model_loading", kHow), passed("merge_method", kHow), passed("processor_type", kHow), passed("processor_kwargs", kHow), passed("tokenizer_save_jinja_files", kHow), passed("use_kernels", kHow), passed("shuffle_before_merging_datasets", kHow), passed("accelerator_config", kHow), passed("torch_empty_cache_steps", kHow), passed("gc_collect_steps", kHow), passed("selective_checkpointing", kHow), passed("layer_offloading", kHow), passed("sample_packing_mp_start_method", kHow), passed("pad_to_multiple_of", kHow), passed("batch_flattening", kHow), passed("flex_attn_compile_kwargs", kHow), passed("sage_attention", kHow), passed("flash_optimum", kHow), passed("experts_implementation", kHow), passed("chunked_cross_entropy_num_chunks", kHow), passed("tiled_mlp", kHow), passed("tiled_mlp_num_shards", kHow), passed("tiled_mlp_use_original_mlp", kHow), passed("deepcompile", kHow), passed("fp32_norms", kHow), passed("fp32_norm_classes", kHow), passed("fsdp_final_state_dict_type", kHow), passed("dp_replicate_size", kHow), passed("heads_k_stride", kHow), passed("ring_attn_func", kHow), passed("torch_compile_mode", kHow), passed("torch_compile_options", kHow), passed("use_otel_metrics", kHow), passed("otel_metrics_host", kHow), passed("otel_metrics_port", kHow), passed("resources_per_worker", kHow), passed("dpo_padding_free", kHow), passed("dpo_use_liger_kernel", kHow), passed("dpo_use_logits_to_keep", kHow), passed("float32", kHow), passed("num_labels", kHow), passed("overrides_of_model_kwargs", kHow), passed("use_scattermoe", kHow), passed("quantize_moe_experts", kHow), passed("expert_parallel_size", kHow),
    passed("include_tkps", kTrackers), passed("profiler_steps", kTrackers), passed("profiler_steps_start", kTrackers), passed("total_supervised_tokens", kTrackers), passed("is_preprocess", kTrackers), passed("generate_samples", kTrackers), passed("num_generation_samples", kTrackers), passed("generation_*", kTrackers), passed("use_swanlab", kTrackers), passed("swanlab_*", kTrackers), passed("use_trackio", kTrackers), passed("trackio_*", kTrackers), passed("comet_*", kTrackers), passed("gradio_*", kTrackers), passed("lm_eval_tasks", kTrackers), passed("lm_eval_batch_size", kTrackers), passed("lm_eval_post_train", kTrackers), passed("hf_mlflow_log_artifacts", kTrackers), passed("bench_dataset", kTrackers), passed("bench_split", kTrackers), passed("dpo_generate_during_eval", kTrackers), passed("hub_revision", kTrackers), passed("vllm", kTrackers), passed("merge_lora", kTrackers), passed("recipe", kTrackers),
    rejected("peft_layer_replication", "layers that are there twice", "remove it"), rejected("peft", "another beginning of the adapter (LoftQ)", "remove it"), rejected("reinit_weights", "the weights begin at random", "remove it"), rejected("trainer_cls", "a trainer of its own, which is code", "remove it"), rejected("process_reward_model", "a reward of each step", "remove it"), rejected("min_sample_len", "short rows are dropped", "remove them from the rows"), rejected("curriculum_sampling", "rows in the order of their length or file", "write train_sampling_strategy in hone's own file"), rejected("use_pose", "other positions than the model's own", "remove it"), rejected("embedding_lr", "another learning rate for a part of the weights", "remove it"), rejected("embedding_lr_scale", "another learning rate for a part of the weights", "remove it"), rejected("lr_groups", "another learning rate for a part of the weights", "remove it"), rejected("optim_target_modules", kOwnLoss, "use another optimizer"), rejected("use_eaft", kOwnLoss, "remove it"), rejected("scaling_softmax", kOwnLoss, "remove it"), rejected("rope_scaling", "another reach of the positions", "write it into the model's config.json"), rejected("auto_find_batch_size", "the batch is what fits", "write micro_batch_size"), rejected("qat", "training of quantized weights", "remove it"), rejected("kd_trainer", "distillation from a teacher", "use hone distill"), rejected("use_mora", "another form of adapters", "remove it"), rejected("lr_quadratic_warmup", kOwnLoss, "remove it"), rejected("fix_untrained_tokens", "embeddings of tokens are changed before the run", "remove it"), part("dataset_shard_idx"),
    part("eot_tokens"), passed("pretraining_sample_concatenation", "texts are joined where sample_packing is on"), passed("tokenizer_use_mistral_common", kClass),
    passed("axolotl_config_path", "where axolotl found this file"), passed("prepare_ds_config", kHow),
};
// clang-format on

}  // namespace

std::span<const OtherName> names() {
  return kNames;
}

}  // namespace hone::config::axolotl
