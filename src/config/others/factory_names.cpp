// The names of LLaMA-Factory 0.9.5 and older. What transformers' own arguments are called is the same here.
#include "config/others/other_names.h"

namespace hone::config::factory {
namespace {

constexpr std::string_view kHow = "how it is computed, not what",
                           kCache = "LLaMA-Factory's cache and workers of rows",
                           kCode = "hone never runs code from a model's folder",
                           kVision = "hone trains only on text",
                           kOwn = "another form of training, which hone does not have",
                           kTrackers = "it changes nothing in what is learned",
                           kSampling = "read only when it generates, not in training",
                           kWith = "read with another option, which is refused";

// clang-format off
constexpr OtherName kNames[] = {
    part("processes"),
    part("stage"), part("do_train"), part("finetuning_type"), part("do_eval"), passed("do_predict", kSampling), passed("predict_with_generate", kSampling),
    // the model
    becomes("model_name_or_path", "model_name_or_path"), becomes("model_revision", "model_revision"), part("adapter_name_or_path"), part("create_new_adapter"),
    passed("trust_remote_code", kCode), passed("use_fast_tokenizer", kCode), passed("cache_dir", "hone reads the hub's cache"), passed("hf_hub_token", kTrackers), passed("ms_hub_token", kTrackers), passed("split_special_tokens", "false for every template"),
    rejected("resize_vocab", "new tokens of the vocabulary", "use tokens that the tokenizer has"), rejected("new_special_tokens", "new tokens of the vocabulary", "use tokens that the tokenizer has"), rejected("add_tokens", "new tokens of the vocabulary", "use tokens that the tokenizer has"),
    rejected("rope_scaling", "another reach of the positions", "write it into the model's config.json"),
    // the data
    part("dataset"), part("eval_dataset"), part("dataset_dir"), part("max_samples"), part("val_size"), part("template"), part("columns"),
    passed("media_dir", kVision), part("mix_strategy"), passed("interleave_probs", "read with mix_strategy interleave"), becomes("streaming", "dataset_streaming"), passed("buffer_size", kCache),
    passed("tokenized_path", kCache), passed("preprocessing_num_workers", kCache), passed("preprocessing_batch_size", kCache), passed("overwrite_cache", kCache), passed("data_shared_file_system", kCache), passed("eval_on_each_dataset", kTrackers),
    becomes("cutoff_len", "max_length", "2048"), part("train_on_prompt"), part("mask_history"), part("packing"), part("neat_packing"),
    part("enable_thinking"), part("preserve_thinking"), becomes("default_system", "dataset_system_prompt"), passed("tool_format", "the model's own template decides"),
    passed("ignore_pad_token_for_loss", "hone never pads"), passed("group_by_length_unused", kHow), part("group_by_length"), passed("remove_unused_columns", "other columns are never read"),
    passed("reserved_label_len", "an old form of cutting, which LLaMA-Factory does not read today"), rejected("efficient_eos", "the answer's last token becomes the template's own", "remove it"),
    // batch and time
    becomes("per_device_train_batch_size", "per_device_train_batch_size", "8"), becomes("per_device_eval_batch_size", "per_device_eval_batch_size", "8"),
    becomes("gradient_accumulation_steps", "gradient_accumulation_steps", "1"), becomes("learning_rate", "learning_rate", "5e-5"),
    becomes("num_train_epochs", "num_train_epochs", "3"), becomes("max_steps", "max_steps"), becomes("lr_scheduler_type", "lr_scheduler_type", "\"linear\""), becomes("lr_scheduler_kwargs", "lr_scheduler_kwargs"),
    part("warmup_ratio"), part("warmup_steps"), becomes("optim", "optim", "\"adamw_torch_fused\""), becomes("weight_decay", "weight_decay", "0"), becomes("max_grad_norm", "max_grad_norm", "1"),
    becomes("adam_beta1", "adam_beta1"), becomes("adam_beta2", "adam_beta2"), becomes("adam_epsilon", "adam_epsilon"), becomes("seed", "seed", "42"), becomes("data_seed", "data_seed"),
    becomes("neftune_noise_alpha", "neftune_noise_alpha"), becomes("dataloader_drop_last", "dataloader_drop_last"), rejected("disable_shuffling", "rows in the order of the file", "write dataset_streaming: true in hone's own file"),
    // the adapter
    part("lora_rank"), part("lora_alpha"), part("lora_dropout"), part("lora_target"), part("additional_target"), part("use_rslora"), part("use_dora"), part("pissa_init"), passed("pissa_iter", "hone's pissa is exact"), passed("pissa_convert", "hone merge writes what is to be served"),
    rejected("loraplus_lr_ratio", "LoRA+: a second learning rate for B", "remove it"), passed("loraplus_lr_embedding", "read with loraplus_lr_ratio"),
    part("freeze_trainable_layers"), part("freeze_trainable_modules"), rejected("freeze_extra_modules", "which tensors beside the layers are trained", "write unfrozen_parameters in hone's own file"),
    part("quantization_bit"), part("quantization_method"), part("quantization_type"), part("double_quantization"), passed("quantization_device_map", kHow), passed("upcast_layernorm", kHow), passed("upcast_lmhead_output", kHow),
    rejected("use_galore", kOwn, "write optim"), rejected("use_apollo", kOwn, "write optim"), rejected("use_badam", kOwn, "write optim"), rejected("use_muon", kOwn, "write optim"), rejected("use_adam_mini", kOwn, "write optim"),
    rejected("use_llama_pro", kOwn, "remove it"), rejected("mixture_of_depths", kOwn, "remove it"), rejected("shift_attn", "shifted sparse attention: another model while training", "remove it"), rejected("use_asft_loss", kOwn, "remove it"), part("use_dft_loss"),
    becomes("bf16", "bf16"), part("fp16"), part("pure_bf16"), passed("tf32", "hone never uses TF32"), rejected("fp8", "float8 products", "write bf16: true"),
    // preferences
    part("pref_beta"), part("pref_loss"), part("pref_ftx"), part("simpo_gamma"), becomes("kto_chosen_weight", "desirable_weight"), becomes("kto_rejected_weight", "undesirable_weight"), becomes("ref_model", "ref_model"), becomes("dpo_label_smoothing", "label_smoothing"),
    rejected("ld_alpha", "LD-DPO's weight of long answers", "remove it"), passed("ppo_epochs", "read with stage ppo"), passed("ppo_target", "read with stage ppo"), passed("reward_model", "read with stage ppo"),
    // evaluation and saves
    part("eval_strategy"), part("evaluation_strategy"), part("eval_steps"), becomes("save_strategy", "save_strategy"), becomes("save_steps", "save_steps", "500"), becomes("save_total_limit", "save_total_limit"), part("load_best_model_at_end"),
    passed("early_stopping_steps", "hone does not stop early: load_best_model_at_end keeps the best"), becomes("metric_for_best_model", "metric_for_best_model"), becomes("greater_is_better", "greater_is_better"), passed("compute_accuracy", "hone always logs it"), passed("save_only_model", "hone's checkpoints hold what resuming needs"), passed("save_safetensors", "hone writes safetensors"),
    becomes("output_dir", "output_dir"), becomes("overwrite_output_dir", "overwrite_output_dir"), becomes("resume_from_checkpoint", "resume_from_checkpoint"), becomes("logging_steps", "logging_steps"), becomes("logging_strategy", "logging_strategy"), passed("logging_dir", kTrackers), passed("plot_loss", "hone report has the curves"),
    becomes("report_to", "report_to"), becomes("run_name", "run_name"), passed("use_swanlab", kTrackers), passed("swanlab_*", kTrackers), passed("include_num_input_tokens_seen", "tokens are always counted"), passed("include_tokens_per_second", kHow), passed("print_param_status", kHow),
    becomes("push_to_hub", "push_to_hub"), becomes("hub_model_id", "hub_model_id"), passed("prediction_loss_only", "hone evaluates the loss"), passed("export_*", kSampling), passed("infer_backend", kSampling),
    // the machine
    part("gradient_checkpointing"), passed("disable_gradient_checkpointing", kHow), passed("use_reentrant_gc", kHow), passed("use_unsloth_gc", kHow), passed("flash_attn", kHow), passed("enable_liger_kernel", kHow), passed("use_unsloth", kHow), passed("use_kv_cache", kHow), passed("low_cpu_mem_usage", kHow), passed("use_cache", kHow),
    passed("offload_folder", kHow), passed("infer_dtype", kSampling), part("deepspeed"), passed("fsdp", kHow), passed("fsdp_config", kHow), passed("ddp_timeout", kHow), passed("ddp_find_unused_parameters", kHow), passed("local_rank", "the launcher says it"), passed("dataloader_num_workers", kCache), passed("dataloader_pin_memory", kCache), passed("dataloader_prefetch_factor", kCache),
    passed("ray_run_name", kHow), passed("ray_num_workers", kHow), passed("ray_storage_path", kHow), passed("resources_per_worker", kHow), passed("placement_strategy", kHow), passed("use_ray", kHow),
    passed("freeze_vision_tower", kVision), passed("freeze_multi_modal_projector", kVision), passed("freeze_language_model", kVision), passed("train_mm_proj_only", kVision), passed("image_*", kVision),
    passed("video_*", kVision), passed("visual_inputs", kVision),
    passed("om_hub_token", kHow), passed("init_special_tokens", kHow), passed("use_v1_kernels", kHow), passed("compute_dtype", kHow), passed("block_diag_attn", kHow), passed("profiler_*", kHow), passed("profile_modules", kHow), passed("enable_torch_profiler", kHow), passed("master_addr", kHow), passed("master_port", kHow), passed("ray_init_kwargs", kHow), passed("fp8_backend", kHow), passed("fp8_enable_fsdp_float8_all_gather", kHow), passed("include_effective_tokens_per_second", kHow),
    passed("crop_to_patches", kVision), passed("use_audio_in_video", kVision), passed("audio_sampling_rate", kVision),
    passed("vllm_*", kSampling), passed("sglang_*", kSampling), passed("eval_num_beams", kSampling), passed("num_beams", kSampling), passed("max_length", kSampling), passed("repetition_penalty", kSampling), passed("length_penalty", kSampling), passed("skip_special_tokens", kSampling), passed("sortish_sampler", kSampling), passed("generation_max_length", kSampling), passed("generation_num_beams", kSampling), passed("generation_config", kSampling),

    passed("module_dropout", kWith), passed("oft_*", kWith), passed("galore_*", kWith), passed("apollo_*", kWith), passed("badam_*", kWith), passed("ppo_*", kWith), passed("ref_model_quantization_bit", kWith), passed("reward_model_adapters", kWith), passed("reward_model_quantization_bit", kWith), passed("reward_model_type", kWith), passed("asft_alpha", kWith), passed("eaft_alpha", kWith), passed("adapter_folder", kWith), passed("kt_*", kWith), passed("hyper_parallel_args", kWith),
    rejected("add_special_tokens", "new tokens of the vocabulary", "use tokens that the tokenizer has"), rejected("new_special_tokens_config", "new tokens of the vocabulary", "use tokens that the tokenizer has"), rejected("train_from_scratch", "the weights begin at random", "remove it"), rejected("pref_bco_weight", "a share of BCO in the loss of pairs", "write loss_type and loss_weights in hone's own file"), rejected("ref_model_adapters", "another reference than the model at its start", "remove it"), rejected("use_eaft_loss", kOwn, "remove it"), rejected("use_mca", "Megatron's trainer, with other names", "write use_mca: false"), rejected("use_hyper_parallel", "another trainer", "write false"), rejected("use_kt", "KTransformers' kernels", "write false"), becomes("moe_aux_loss_coef", "router_aux_loss_coef"),
    passed("temperature", kSampling), passed("top_p", kSampling), passed("top_k", kSampling), passed("max_new_tokens", kSampling), passed("do_sample", kSampling),
};
// clang-format on

}  // namespace

std::span<const OtherName> names() {
  return kNames;
}

}  // namespace hone::config::factory
